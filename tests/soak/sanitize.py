"""Runs the tests of every chapter and random problems under compute-sanitizer's four tools. Needs a GPU.

    sanitize.py [--problems N] [--seed S] [--chapters NN,..] [--build DIR] [--jobs J] [--json FILE]

Each chapter's whole GoogleTest program runs under each tool; chapters 05 and 07 to 10 also run problems of
soak.cpp. With chapter 09, the tools also examine the kernels of hazards.cu, which are right or wrong on
purpose. Exit status: 1 a tool reports something in a chapter or a test fails, 2 something is not built, 3
there is no compute-sanitizer.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.bench import machine

from .soak import CHAPTERS as SOAKED
from .soak import chosen

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ["memcheck", "racecheck", "initcheck", "synccheck"]
SUMMARY = re.compile(r"=+ (?:ERROR|RACECHECK) SUMMARY: (\d+)")
PASSED = re.compile(r"\[  PASSED  \] (\d+) tests?")
HAZARDS_OF = "09_hopper"  # the chapter whose means tests/soak/hazards.cu uses
CHAPTERS = [folder.name for folder in sorted(ROOT.glob("chapters/[0-9][0-9]_*"))]


def errors_in(output: str) -> int | None:
    """What a tool counts at the end of its output. None: it did not finish."""
    found = SUMMARY.search(output)
    return int(found[1]) if found else None


def listed(program: Path) -> list[dict]:
    """The kernels of hazards.cu."""
    done = subprocess.run([program, "--list"], check=True, capture_output=True, text=True)
    lines = [text.split(" ", 2) for text in done.stdout.splitlines()]
    return [{"kernel": name, "right": verdict == "right", "what": what} for name, verdict, what in lines]


def errors_of(sanitizer: str, program: Path, kernel: dict) -> dict:
    """A kernel of hazards.cu with what each tool says about it."""
    errors = {}
    for tool in TOOLS:
        command = [sanitizer, "--tool", tool, str(program), kernel["kernel"]]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        errors[tool] = errors_in(done.stdout)
    return kernel | {"errors": errors}


def examine(sanitizer: str, program: Path, words: list[str], tool: str) -> dict:
    """A run of a program under a tool. "output" is what a reader needs if it is not clean."""
    begin = time.monotonic()
    command = [sanitizer, "--tool", tool, "--print-limit", "3", str(program), *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    passed, errors = PASSED.search(done.stdout), errors_in(done.stdout)
    run = {"program": program.name, "tool": tool, "errors": errors}
    if program.name.startswith("soak"):
        run["problems"] = int(words[1])
    else:
        run["tests"] = int(passed[1]) if passed else 0
    run["clean"] = errors == 0 and done.returncode == 0
    run["seconds"] = round(time.monotonic() - begin, 1)
    return run if run["clean"] else run | {"output": done.stdout + done.stderr}


def told(errors: int | None) -> str:
    return "did not run" if errors is None else f"{errors} errors"


def line_of_kernel(kernel: dict) -> str:
    """What the tools say about a kernel of hazards.cu, for a terminal."""
    verdict = "right" if kernel["right"] else "wrong"
    found = [f"{tool} {told(errors)}" for tool, errors in kernel["errors"].items()]
    return f"{kernel['kernel']:24} {verdict}: {', '.join(found)}"


def line(run: dict) -> str:
    """A run, for a terminal."""
    covered = f"{run['tests']} tests" if "tests" in run else f"{run['problems']} problems"
    errors = told(run["errors"])
    return f"{run['program']:28} {run['tool']:10} {errors:9} {covered:12} {run['seconds']:5.0f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--problems", type=int, default=40, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="S")
    parser.add_argument("--chapters", metavar="NN,..", help="default: all of them")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "cuda")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    try:
        chapters = chosen(options.chapters, CHAPTERS)
    except ValueError as error:
        print(f"sanitize: {error}", file=sys.stderr)
        return 2
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        print("sanitize: compute-sanitizer is not in PATH: it comes with the CUDA toolkit", file=sys.stderr)
        return 3
    random = ["--problems", str(options.problems), "--seed", str(options.seed)]
    random += ["--longest", "150"]
    programs = [(f"test_ch{chapter}", ["--gtest_brief=1"]) for chapter in chapters]
    programs += [(f"soak_ch{folder}", random) for folder in SOAKED if folder in chapters]
    small = options.build / "bin" / "hazards"
    names = [name for name, _ in programs]
    names += [small.name] if HAZARDS_OF in chapters else []
    for name in names:
        if not (options.build / "bin" / name).exists():
            print(f"sanitize: there is no {name}: cmake --workflow --preset cuda", file=sys.stderr)
            return 2

    def run(entry: tuple[str, list[str], str]) -> dict:
        name, words, tool = entry
        return examine(sanitizer, options.build / "bin" / name, words, tool)

    # The longest runs start first.
    every = [(*entry, tool) for entry in reversed(programs) for tool in TOOLS]
    with ThreadPoolExecutor(options.jobs) as pool:
        kernels = listed(small) if small.name in names else []
        kernels = list(pool.map(lambda k: errors_of(sanitizer, small, k), kernels))
        for kernel in kernels:
            print(line_of_kernel(kernel), flush=True)
        results = []
        for result in pool.map(run, every):
            output = result.pop("output", "")
            print("\n".join(filter(None, [line(result), output])), flush=True)
            results.append(result)
    clean = sum(result["clean"] for result in results)
    print(f"{clean} of {len(results)} runs are clean")
    data = {"device": machine.gpu().get("name"), "runs": results}
    data |= {"hazards": kernels} if kernels else {}
    machine.write_results(options.json, data)
    return 0 if clean == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
