"""Random problems for chapter 13, each with a random number of ranks. PROGRAM is soak_ch13_ring.

    soak_ring.py PROGRAM [--problems N] [--seed S] [--longest L] [--ranks R]

Every problem runs all variants that support it, forward or both passes, and is checked against float64, all
bytes against the formulas on the simulator. On GPUs, there cannot be more ranks than GPUs: --ranks says how
many at most. Exit status: 1 a problem failed, and is printed as a command line.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.learn import ranks

SECONDS = 120  # for a problem; one that takes longer is a deadlock


def problem(draw: random.Random, longest: int, count: int) -> list[str]:
    """A command line for so many ranks. Half of all sequences are short: ranks with one token, or none."""
    kv_heads = draw.choice((1, 2, count))
    most = longest if draw.random() < 0.5 else 4 * count
    words = ["--variant", "all"]
    words += ["--batch", str(draw.choice((1, 1, 1, 2)))]
    words += ["--heads", str(kv_heads * draw.choice((1, 1, 2, 3)))]
    words += ["--kv-heads", str(kv_heads)]
    words += ["--seq-q", str(draw.randint(1, most))]
    words += ["--head-dim", str(draw.choice((64, 128)) if draw.random() < 0.5 else 8 * draw.randint(1, 16))]
    words += ["--dtype", draw.choice(("fp16", "bf16"))]
    words += ["--init", draw.choice(("normal", "normal", "uniform"))]
    words += ["--seed", str(draw.randint(0, 999))]
    return words + [option for option in ("--causal", "--backward") if draw.random() < 0.6]


def difference(result: dict) -> str | None:
    """Where a run has moved other bytes than the formulas say; None if nowhere."""
    for variant in result["variants"]:
        traffic = variant["traffic"]
        if "counted" in traffic and (traffic["counted"]["tensors"] != traffic["predicted"]["tensors"]):
            return f"{variant['name']}: bytes differ from the formula"
        for step in (step for steps in variant.get("links", []) for step in steps):
            if step.get("counted_bytes", step["predicted_bytes"]) != (step["predicted_bytes"]):
                return f"{variant['name']}: bytes of a link differ from the formula"
    return None


def failures(program: Path, count: int, problems: list[list[str]]) -> dict[int, str]:
    """What is wrong with which of the problems, which `count` ranks solve one after another."""
    with tempfile.TemporaryDirectory() as folder:
        results = [Path(folder) / f"{n}.json" for n in range(len(problems))]
        lines = [
            shlex.join([*words, "--json", str(result)])
            for words, result in zip(problems, results, strict=True)
        ]
        file = Path(folder) / "problems"
        file.write_text("\n".join(lines) + "\n")
        try:
            done = subprocess.run(
                [*ranks.mpirun(count), str(program), str(file)],
                check=False,
                capture_output=True,
                text=True,
                timeout=SECONDS * len(problems),
                env={**os.environ, "GPUSIM_THREADS": "1"},
            )
        except subprocess.TimeoutExpired as stopped:
            begun = len(results) - len([r for r in results if not r.exists()])
            return {begun: f"did not end: {stopped}"}
        found: dict[int, str] = {}
        printed = re.split(r"^(\d+) (\d+)$", done.stdout, flags=re.MULTILINE)
        for number, status, text in zip(printed[1::3], printed[2::3], printed[3::3], strict=True):
            if status != "0":
                found[int(number) - 1] = f"exit status {status}\n{text}"
        ended = len(printed) // 3
        if done.returncode != 0 or ended < len(problems):
            found[ended] = f"exit status {done.returncode}\n{done.stderr}"
        for n, result in enumerate(results[:ended]):
            if n not in found and (why := difference(json.loads(result.read_text()))):
                found[n] = why
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--problems", type=int, default=8, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--longest", type=int, default=100, metavar="L")
    parser.add_argument("--ranks", type=int, default=4, metavar="R", help="at most")
    options = parser.parse_args()
    draw, begin, failed = random.Random(options.seed), time.monotonic(), 0
    by_ranks: dict[int, list[list[str]]] = {}
    for _ in range(options.problems):
        count = draw.randint(1, options.ranks)
        words = problem(draw, options.longest, count)
        by_ranks.setdefault(count, []).append(words)
    for count, problems in sorted(by_ranks.items()):
        for number, why in failures(options.program, count, problems).items():
            failed += 1
            print(f"-n {count} {shlex.join(problems[number])}\n   {why}")
    seconds = time.monotonic() - begin
    print(f"13_ring: {options.problems} problems, {failed} failed, {seconds:.0f} s")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
