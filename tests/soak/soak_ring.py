"""Random problems for chapter 13, each with a random number of ranks, one after another.

    soak_ring.py PROGRAM [--problems N] [--seed S] [--longest L] [--ranks P]

Every problem runs all variants that support it, forward or both passes, and is checked against float64, all bytes against
the formulas on the simulator. On GPUs, there cannot be more ranks than GPUs: --ranks says how many at most.
Exit status: 1 a problem failed, and is printed as a command line.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.learn import ranks

MOST_FAILURES = 5  # give up after this many
SECONDS = 120  # for a problem, after which its ranks wait for each other


def problem(draw: random.Random, longest: int, most_ranks: int) -> list[str]:
    """A command line. Half of all sequences are short: ranks with one token, or none."""
    count = draw.randint(1, most_ranks)
    kv_heads = draw.choice((1, 2, count))
    most = longest if draw.random() < 0.5 else 4 * count
    words = ["-n", str(count), "--variant", "all"]
    words += ["--batch", str(draw.choice((1, 1, 1, 2)))]
    words += ["--heads", str(kv_heads * draw.choice((1, 1, 2, 3)))]
    words += ["--kv-heads", str(kv_heads)]
    words += ["--seq-q", str(draw.randint(1, most))]
    words += [
        "--head-dim",
        str(draw.choice((64, 128)) if draw.random() < 0.5 else 8 * draw.randint(1, 16)),
    ]
    words += ["--dtype", draw.choice(("fp16", "bf16"))]
    words += ["--init", draw.choice(("normal", "normal", "uniform"))]
    words += ["--seed", str(draw.randint(0, 999))]
    return words + [
        option for option in ("--causal", "--backward") if draw.random() < 0.6
    ]


def failure(program: Path, words: list[str]) -> str | None:
    """What is wrong with a run; None if nothing is."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.json"
        command = ranks.command(program, [*words, "--json", str(file)])
        try:
            done = subprocess.run(
                command,
                check=False,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                env={**os.environ, "GPUSIM_THREADS": "1"},
            )
        except subprocess.TimeoutExpired:
            return f"did not end within {SECONDS} s"
        if done.returncode != 0:
            return f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
        for variant in json.loads(file.read_text())["variants"]:
            traffic = variant["traffic"]
            if "counted" in traffic and (
                traffic["counted"]["tensors"] != traffic["predicted"]["tensors"]
            ):
                return f"{variant['name']}: bytes differ from the formula"
            for step in (step for steps in variant.get("links", []) for step in steps):
                if (
                    step.get("counted_bytes", step["predicted_bytes"])
                    != (step["predicted_bytes"])
                ):
                    return f"{variant['name']}: bytes of a link differ from the formula"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--problems", type=int, default=8, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--longest", type=int, default=100, metavar="L")
    parser.add_argument("--ranks", type=int, default=4, metavar="P", help="at most")
    options = parser.parse_args()
    draw, begin, failures = random.Random(options.seed), time.monotonic(), 0
    for done in range(1, options.problems + 1):
        words = problem(draw, options.longest, options.ranks)
        if why := failure(options.program, words):
            failures += 1
            print(f"{shlex.join(ranks.command(options.program, words))}\n   {why}")
        if failures == MOST_FAILURES:
            break
    seconds = time.monotonic() - begin
    print(f"13_ring: {done} problems, {failures} failed, {seconds:.0f} s")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
