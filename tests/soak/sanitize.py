"""Runs the tests of every chapter and random problems under compute-sanitizer's four tools. Needs a GPU.

    sanitize.py [--problems N] [--seed S] [--build DIR] [--jobs J] [--json FILE]

Each chapter's whole GoogleTest program runs under each tool; chapters 05, 07, 08 and 09 also run problems of
soak.cpp.
Exit status: 1 a tool reports something or a test fails, 2 something is not built, 3 there is no compute-sanitizer.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.bench import machine

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ["memcheck", "racecheck", "initcheck", "synccheck"]
SUMMARY = re.compile(r"=+ (?:ERROR|RACECHECK) SUMMARY: (\d+)")
PASSED = re.compile(r"\[  PASSED  \] (\d+) tests?")
SOAKED = ["05_loop_swapped_v2", "07_multi_stage", "08_backward", "09_hopper"]
CHAPTERS = [folder.name for folder in sorted(ROOT.glob("chapters/[0-9][0-9]_*"))]


def examine(sanitizer: str, program: Path, words: list[str], tool: str) -> dict:
    """A run of a program under a tool. "output" is what a reader needs if it is not clean."""
    begin = time.monotonic()
    command = [sanitizer, "--tool", tool, "--print-limit", "3", str(program), *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    found, passed = SUMMARY.search(done.stdout), PASSED.search(done.stdout)
    errors = int(found[1]) if found else None  # None: the tool did not finish
    run = {"program": program.name, "tool": tool, "errors": errors}
    if program.name.startswith("soak"):
        run["problems"] = int(words[1])
    else:
        run["tests"] = int(passed[1]) if passed else 0
    run["clean"] = errors == 0 and done.returncode == 0
    run["seconds"] = round(time.monotonic() - begin, 1)
    return run if run["clean"] else run | {"output": done.stdout + done.stderr}


def line(run: dict) -> str:
    """A run, for a terminal."""
    covered = (
        f"{run['tests']} tests" if "tests" in run else f"{run['problems']} problems"
    )
    told = "did not run" if run["errors"] is None else f"{run['errors']} errors"
    return f"{run['program']:28} {run['tool']:10} {told:9} {covered:12} {run['seconds']:5.0f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--problems", type=int, default=40, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "cuda")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        print(
            "sanitize: compute-sanitizer is not in PATH: it comes with the CUDA toolkit",
            file=sys.stderr,
        )
        return 3
    random = ["--problems", str(options.problems), "--seed", str(options.seed)]
    random += ["--longest", "150"]
    programs = [(f"test_ch{chapter}", ["--gtest_brief=1"]) for chapter in CHAPTERS]
    programs += [(f"soak_ch{chapter}", random) for chapter in SOAKED]
    for name, _ in programs:
        if not (options.build / "bin" / name).exists():
            print(
                f"sanitize: there is no {name}: cmake --workflow --preset cuda",
                file=sys.stderr,
            )
            return 2

    def run(entry: tuple[str, list[str], str]) -> dict:
        name, words, tool = entry
        return examine(sanitizer, options.build / "bin" / name, words, tool)

    # The longest runs start first.
    every = [(*entry, tool) for entry in reversed(programs) for tool in TOOLS]
    with ThreadPoolExecutor(options.jobs) as pool:
        results = []
        for result in pool.map(run, every):
            output = result.pop("output", "")
            print("\n".join(filter(None, [line(result), output])), flush=True)
            results.append(result)
    clean = sum(result["clean"] for result in results)
    print(f"{clean} of {len(results)} runs are clean")
    if options.json:
        data = {"device": machine.gpu().get("name"), "runs": results}
        partial = options.json.with_suffix(".partial")
        partial.write_text(json.dumps(data, indent=1) + "\n")
        partial.replace(options.json)
    return 0 if clean == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
