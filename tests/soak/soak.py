"""Runs random problems for chapters 05, 07, 08 and 09, as many for each, at the same time.

    soak.py [--problems N] [--seed S] [--build DIR] [--json FILE]

Every problem is checked against float64; see soak.cpp. A chapter whose kernels need another GPU is left out, in one line.
Exit status: that of the worst chapter.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CHAPTERS = ["05_loop_swapped_v2", "07_multi_stage", "08_backward", "09_hopper"]
ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--problems", type=int, default=10_000, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument(
        "--build", type=Path, default=ROOT / "build" / "cuda", metavar="DIR"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="what was covered")
    options = parser.parse_args()
    if options.problems < len(CHAPTERS):
        print(
            f"soak: --problems {options.problems}: must be {len(CHAPTERS)} or more",
            file=sys.stderr,
        )
        return 2
    programs = [options.build / "bin" / f"soak_ch{chapter}" for chapter in CHAPTERS]
    if missing := [program for program in programs if not program.exists()]:
        preset = options.build.name
        print(
            f"soak: there is no {missing[0]}: cmake --workflow --preset {preset}",
            file=sys.stderr,
        )
        return 2
    shares = [
        (options.problems + rest) // len(CHAPTERS) for rest in range(len(CHAPTERS))
    ]
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{chapter}.json" for chapter in CHAPTERS]
        words = ["--seed", str(options.seed)]
        runs = [
            subprocess.Popen(
                [program, "--problems", str(share), *words, "--json", file],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for program, share, file in zip(programs, shares, files, strict=True)
        ]
        for run in runs:
            print(run.communicate()[0], end="", flush=True)
        seconds = time.monotonic() - begin
        print(f"{sum(shares)} problems in {seconds:.0f} s")
        covered = [json.loads(file.read_text()) for file in files if file.exists()]
        if options.json and covered:
            data = {"device": covered[0]["device"], "chapters": covered}
            partial = options.json.with_suffix(".partial")
            partial.write_text(json.dumps(data, indent=1) + "\n")
            partial.replace(options.json)
    return max(run.returncode for run in runs)


if __name__ == "__main__":
    sys.exit(main())
