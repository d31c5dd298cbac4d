"""Random problems for chapters 05, 07 and 08, a third each, at the same time.

    soak.py [--problems N] [--seed S] [--build DIR]

Every problem is checked against float64; see soak.cpp. Exit status: that of the worst chapter.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

CHAPTERS = ["05_loop_swapped_v2", "07_multi_stage", "08_backward"]
ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--problems", type=int, default=10_000, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument(
        "--build", type=Path, default=ROOT / "build" / "cuda", metavar="DIR"
    )
    options = parser.parse_args()
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
    runs = [
        subprocess.Popen(
            [program, "--problems", str(share), "--seed", str(options.seed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for program, share in zip(programs, shares, strict=True)
    ]
    for run in runs:
        print(run.communicate()[0], end="", flush=True)
    print(f"{sum(shares)} problems in {time.monotonic() - begin:.0f} s")
    return max(run.returncode for run in runs)


if __name__ == "__main__":
    sys.exit(main())
