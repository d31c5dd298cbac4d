"""Runs random problems for chapters 05, 07 to 12 and 14, as many for each, at the same time.

    python3 -m tests.soak.soak [--problems N] [--seed S] [--longest L] [--chapters NN,..] [--build DIR]
    [--json FILE]

Every problem is checked against float64; see soak.cpp. A chapter whose kernels need another GPU is left out,
in one line. Exit status: that of the worst chapter.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools import results

CHAPTERS = [
    "05_loop_swapped_v2",
    "07_multi_stage",
    "08_backward",
    "09_hopper",
    "10_hopper_backward",
    "11_masks",
    "12_large_heads",
    "14_decoding",
]
ROOT = Path(__file__).resolve().parents[2]


def chosen(numbers: str | None, folders: list[str]) -> list[str]:
    """The folders of the chapters "05,09"; all of them without numbers. @throws ValueError"""
    if numbers is None:
        return folders
    asked = numbers.split(",")
    known = [folder[:2] for folder in folders]
    if unknown := [number for number in asked if number not in known]:
        raise ValueError(f"--chapters {unknown[0]}: must be of {','.join(known)}")
    return [folder for folder in folders if folder[:2] in asked]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--problems", type=int, default=10_000, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--longest", type=int, metavar="L", help="queries and keys")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "cuda", metavar="DIR")
    parser.add_argument("--chapters", metavar="NN,..", help="default: all of them")
    parser.add_argument("--json", type=Path, metavar="FILE", help="what was covered")
    options = parser.parse_args()
    try:
        chapters = chosen(options.chapters, CHAPTERS)
    except ValueError as error:
        print(f"soak: {error}", file=sys.stderr)
        return 2
    if options.problems < len(chapters):
        print(f"soak: --problems {options.problems}: must be {len(chapters)} or more", file=sys.stderr)
        return 2
    programs = [options.build / "bin" / f"soak_ch{chapter}" for chapter in chapters]
    if missing := [program for program in programs if not program.exists()]:
        preset = options.build.name
        print(f"soak: there is no {missing[0]}: cmake --workflow --preset {preset}", file=sys.stderr)
        return 2
    shares = [(options.problems + rest) // len(chapters) for rest in range(len(chapters))]
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{chapter}.json" for chapter in chapters]
        words = ["--seed", str(options.seed)]
        if options.longest is not None:
            words += ["--longest", str(options.longest)]
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
            results.write(options.json, data)
    return max(run.returncode for run in runs)


if __name__ == "__main__":
    sys.exit(main())
