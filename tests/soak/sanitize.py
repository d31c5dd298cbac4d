"""compute-sanitizer's four tools over random problems and over every variant of every chapter. Needs a GPU.

    sanitize.py [--problems N] [--seed S] [--build DIR] [--jobs J]

Chapters 05, 07 and 08 run the problems of soak.cpp; the others run all variants on a ragged one.
Exit status: 1 a tool reports something, 2 something is not built, 3 there is no compute-sanitizer.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ["memcheck", "racecheck", "initcheck", "synccheck"]
SUMMARY = re.compile(r"=+ (?:ERROR|RACECHECK) SUMMARY: (\d+)")
SOAKED = ["05_loop_swapped_v2", "07_multi_stage", "08_backward"]
SOFTMAX = "--rows 70 --cols 1003"
ATTENTION = "--heads 4 --kv-heads 2 --seq-q 131 --seq-k 333 --head-dim 64 --causal"
WHOLE = {
    "01_safe_softmax": SOFTMAX,
    "02_online_softmax": SOFTMAX,
    "03_one_pass_attention": ATTENTION,
    "04_tiled_v1": ATTENTION,
    "06_tensor_core_mma": ATTENTION,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--problems", type=int, default=40, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "cuda")
    parser.add_argument("--jobs", type=int, default=(os.cpu_count() or 1) // 2 or 1)
    options = parser.parse_args()
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        print(
            "sanitize: compute-sanitizer is not in PATH: it comes with the CUDA toolkit",
            file=sys.stderr,
        )
        return 3
    random = f"--problems {options.problems} --seed {options.seed} --longest 150"
    runs = [(f"soak_ch{chapter}", random) for chapter in SOAKED]
    runs += [
        (f"ch{chapter}", f"--variant all {problem} --no-check")
        for chapter, problem in WHOLE.items()
    ]
    for program, _ in runs:
        if not (options.build / "bin" / program).exists():
            print(
                f"sanitize: there is no {program}: cmake --workflow --preset cuda",
                file=sys.stderr,
            )
            return 2

    def examine(run: tuple[str, str, str]) -> tuple[str, bool]:
        program, words, tool = run
        command = [sanitizer, "--tool", tool, "--print-limit", "3"]
        command += [str(options.build / "bin" / program), *words.split()]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        found = SUMMARY.search(done.stdout)
        clean = bool(found) and found[1] == "0" and done.returncode == 0
        told = f"{found[1]} errors" if found else "did not run"
        line = f"{program:26} {tool:10} {told}, {words}"
        return (line if clean else f"{line}\n{done.stdout}{done.stderr}"), clean

    every = [(*run, tool) for run in runs for tool in TOOLS]
    with ThreadPoolExecutor(options.jobs) as pool:
        results = []
        for line, clean in pool.map(examine, every):
            print(line, flush=True)
            results.append(clean)
    print(f"{sum(results)} of {len(results)} runs are clean")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
