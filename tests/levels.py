"""Runs the tests of a level. The tree alone determines which they are; for `changed`, the tree and a commit.

    python3 -m tests.levels quick              ./learn test: every test that is not slow
    python3 -m tests.levels changed            .ci/run: the slow tests that concern what changed since
                                               FA_CI_BASE
    python3 -m tests.levels all [--shard K/N]  .ci/all: every test, or the K-th of N parts

Where a test is defined, it is marked as slow: SLOW in CMake, or SLOW_ at the beginning of a GoogleTest case's
name. Its labels say what it is about, its COST how many seconds it takes on two idle cores.

A test that passed is not repeated until something that it depends on changes. For a GoogleTest program, that
is the program, data/ and docs/results/; for any other test, the tree, the programs and the notebooks'
results; for both, the installed packages, the compilers and the variables FA_* and GPUSIM_*.
build/PRESET/passed.json remembers. FA_TEST_AGAIN=1 runs every test again; ctest alone always does.

Exit status: ctest's; 2 for bad input.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from . import unchanged

ROOT = Path(__file__).resolve().parents[1]

# What slow tests may be about. A path that no rule names concerns everything.
CHAPTERS = tuple(sorted(p.name for p in (ROOT / "chapters").glob("[0-9]*_*")))
AREAS = {f"chapter{name[:2]}" for name in CHAPTERS} | {
    "attention",
    "baselines",
    "device",
    "devices",
    "diagnosis",
    "docs",
    "gpusim",
    "harness",
    "learn",
    "repository",
}
# Whose change concerns which areas; the first rule that matches a path counts. Chapters have a rule of their
# own.
RULES = (
    (r"(docs|notebooks|common|tests)/.*\.(md|svg|ipynb)$|[^/]*\.md$", {"docs"}),
    (r"docs/|notebooks/|tools/(docs|notebooks)/|tests/(docs|notebooks)/", {"docs", "repository"}),
    (r"tools/(bench|profile|report|watch)/|tests/(bench|profile|watch)/|python/", {"docs", "repository"}),
    (r"learn$|tools/learn/|tests/(learn|exercises)/", {"learn", "repository"}),
    (r"tests/(gpusim|sim_programs)/", {"gpusim"}),
    (r"tests/chapters/ch(\d\d)_", {r"chapter\1"}),
)
# The order in which `changed` takes tests, by what their names begin with.
IMPORTANCE = (
    "lessons.",
    "docs.",
    "test_",
    "devices.",
    "gpusim.",
    "chapter",
    "nvcc.",
    "mutants.",
    "planted",
    "soak.",
    "clang.",
    "",
)
MOST_SECONDS = 1200  # of slow tests, on two idle cores

EXERCISE = "exercise"  # depends on the learner's own files: never remembered


@dataclass(frozen=True)
class Test:
    """A test of ctest."""

    number: int
    name: str
    command: tuple[str, ...]
    areas: frozenset[str]
    slow: bool
    cost: float
    fixtures: frozenset[str]  # that it needs or sets up


def error(text: str) -> SystemExit:
    print(f"error: {text}", file=sys.stderr)
    return SystemExit(2)


def tests_of(description: dict) -> list[Test]:
    """The tests in what ctest --show-only=json-v1 prints."""
    found = []
    for number, test in enumerate(description["tests"], 1):
        values = {p["name"]: p["value"] for p in test.get("properties", [])}
        labels = [part for label in values.get("LABELS", []) for part in label.split(".")]
        fixtures = values.get("FIXTURES_REQUIRED", []) + values.get("FIXTURES_SETUP", [])
        found.append(
            Test(
                number,
                test["name"],
                tuple(test.get("command", ())),
                frozenset(labels) - {"slow"},
                "slow" in labels,
                values.get("COST", 0.0) or 1.0,
                frozenset(fixtures),
            )
        )
    return found


# --- what a level runs --------------------------------------------------------------------------------


def git(*words: str) -> str:
    done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def base_of_changes(given: str | None) -> str:
    """The commit that changes are counted from: the given one, or the newest that is six hours older than
    HEAD; "" if there is none.
    """
    if given:
        found = git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{given}^{{commit}}")
        if not found:
            raise error(f"FA_CI_BASE is '{given}': must be a commit of this repository")
        return found
    now = git("log", "-1", "--format=%ct")
    return git("log", "-1", "--format=%H", f"--before={int(now) - 6 * 3600}") if now else ""


def changed_paths(base: str) -> list[str]:
    """The files that differ from the commit, also those that are not committed."""
    return git("diff", "--name-only", base).split("\n") + git("ls-files", "-o", "--exclude-standard").split(
        "\n"
    )


@functools.cache
def included_by(chapter: str) -> frozenset[str]:
    """The chapters whose code includes that of this one, and itself."""
    direct = {
        name
        for name in CHAPTERS
        for path in (ROOT / "chapters" / name).glob("*.*")
        if path.suffix in (".cu", ".cuh", ".hpp", ".cpp") and f'#include "{chapter}/' in path.read_text()
    }
    return frozenset({chapter}).union(*(included_by(name) for name in direct if name != chapter))


def areas_of(path: str) -> set[str]:
    """What a change of the file concerns."""
    if chapter := re.match(r"chapters/(\d\d_\w+)/", path):
        if path.endswith((".md", ".svg")):
            return {"docs"}
        return {f"chapter{name[:2]}" for name in included_by(chapter[1])} | {"devices", "docs"}
    for pattern, areas in RULES:
        if match := re.match(pattern, path):
            return {match.expand(area) for area in areas}
    return AREAS


def importance(test: Test) -> tuple[int, str]:
    return next(i for i, start in enumerate(IMPORTANCE) if test.name.startswith(start)), test.name


def concerned(tests: list[Test], paths: Iterable[str]) -> tuple[list[Test], list[Test]]:
    """The slow tests that concern these files: those that fit in the time, and those that do not."""
    areas = set().union(*(areas_of(path) for path in paths if path))
    taken, left, seconds = [], [], 0.0
    for test in sorted((t for t in tests if t.slow and t.areas & areas), key=importance):
        fits = seconds + test.cost <= MOST_SECONDS
        (taken if fits else left).append(test)
        seconds += test.cost if fits else 0.0
    return taken, left


def shard(tests: list[Test], part: int, parts: int) -> list[Test]:
    """The part of the tests with this number, from 1: all parts take about as long, and tests with a common
    fixture are together.
    """
    groups = defaultdict(list)
    for test in tests:
        groups[min(test.fixtures, default=test.name)].append(test)
    shards: list[list[Test]] = [[] for _ in range(parts)]
    cost = [0.0] * parts
    for _, group in sorted(groups.items(), key=lambda item: (-sum(t.cost for t in item[1]), item[0])):
        least = cost.index(min(cost))
        shards[least] += group
        cost[least] += sum(t.cost for t in group)
    return shards[part - 1]


def problems(tests: list[Test]) -> list[str]:
    """Tests that no level would run, or that would run whatever changed."""
    found = []
    for test in tests:
        if not test.areas:
            found.append(f"{test.name}: has no label")
        elif test.slow and not test.areas & AREAS:
            found.append(f"{test.name}: its labels {sorted(test.areas)} are no areas of tests/levels.py")
    return found


# --- what need not run again --------------------------------------------------------------------------


class Memory:
    """The tests that passed, and on what."""

    def __init__(self, build: Path):
        self.build = build
        self.file = build / "passed.json"
        try:
            self.passed: dict[str, str] = json.loads(self.file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self.passed = {}
        self.environment = unchanged.digest_of(unchanged.environment())

    @functools.cache  # noqa: B019  (as long-lived as the process)
    def digest_of_paths(self, *paths: Path) -> str:
        return unchanged.digest_of(unchanged.contents(paths))

    def state(self, test: Test) -> str:
        """A hash of what the test depends on."""
        program = Path(test.command[0]) if test.command else Path()
        own = program.is_relative_to(self.build) and program.name.startswith("test_")
        given = (
            [self.digest_of_paths(program), self.digest_of_paths(ROOT / "data", ROOT / "docs" / "results")]
            if own
            else [
                self.digest_of_paths(
                    ROOT, self.build / "bin", self.build / "CMakeCache.txt", ROOT / "build" / "notebooks"
                )
            ]
        )
        return unchanged.digest_of(part.encode() for part in [self.environment, *test.command, *given])

    def forget(self) -> None:
        self.digest_of_paths.cache_clear()

    def knows(self, test: Test) -> bool:
        return not os.environ.get("FA_TEST_AGAIN") and self.passed.get(test.name) == self.state(test)

    def remember(self, ran: Iterable[str], states: dict[str, str]) -> None:
        """@param states  of those that passed"""
        self.passed = {name: state for name, state in self.passed.items() if name not in set(ran)} | states
        part = self.file.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(self.passed, indent=0), encoding="utf-8")
        part.replace(self.file)


RESULT = re.compile(r"\s*\d+/\d+ Test\s+#\d+: (\S.*?) \.+\s*(\*\*\*)?(\w+)")


def run(preset: str, build: Path, tests: list[Test], words: list[str]) -> int:
    """Runs those of the tests that have not passed on the same files, and remembers which pass."""
    memory = Memory(build)
    cache = build / "CMakeCache.txt"
    remembers = cache.exists() and "FA_COUNTS_ARE_PROMISED:INTERNAL=ON" in cache.read_text()
    states = {t.name: memory.state(t) for t in tests if remembers and EXERCISE not in t.areas}
    again = [t for t in tests if t.name not in states or not memory.knows(t)]
    if before := len(tests) - len(again):
        print(
            f"{before} of {len(tests)} tests had passed on the same files: not run again (FA_TEST_AGAIN=1 "
            f"runs them)",
            flush=True,
        )
    if not again:
        return 0
    numbers = build / "tests.txt"
    numbers.write_text(",".join(["0", "0", "1", *sorted((str(t.number) for t in again), key=int)]))
    command = ["ctest", "--preset", preset, "-I", str(numbers), *words]
    ran, passed = [], []
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        try:
            for line in process.stdout:
                print(line, end="", flush=True)
                if result := RESULT.match(line):
                    ran.append(result[1])
                    if result[3] == "Passed":
                        passed.append(result[1])
        finally:  # also if somebody interrupts it
            memory.forget()
            now = {t.name: memory.state(t) for t in again if t.name in states}
            kept = {name: now[name] for name in passed if name in now and now[name] == states[name]}
            memory.remember(ran, kept)
    return process.returncode


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests.levels", description="Runs the tests of a level.")
    parser.add_argument("level", choices=("quick", "changed", "all"))
    parser.add_argument("--preset", default="sim")
    parser.add_argument("--shard", default="1/1", metavar="K/N", help="all: the K-th of N parts")
    parser.add_argument("--area", action="append", help="only tests about this")
    parser.add_argument("--list", action="store_true", help="print the names of the tests, and run none")
    args = parser.parse_args(arguments)
    parts = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", args.shard)
    if not parts or int(parts[1]) > int(parts[2]):
        raise error(f"the shard is '{args.shard}': must be K/N, with K from 1 to N")
    base = base_of_changes(os.environ.get("FA_CI_BASE")) if args.level == "changed" else ""

    shown = subprocess.run(
        ["ctest", "--preset", args.preset, "--show-only=json-v1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if shown.returncode != 0:
        raise error(
            f"ctest --preset {args.preset} cannot list the tests: "
            f"{(shown.stderr or shown.stdout).strip()[-300:]}"
        )
    every = tests_of(json.loads(shown.stdout))
    if wrong := problems(every):
        raise error("; ".join(wrong))
    if args.level == "changed":
        paths = changed_paths(base) if base else ["everything"]
        tests, left = concerned(every, paths)
        since = (
            f"{len([p for p in paths if p])} files changed since {base[:8]}"
            if base
            else "no commit is six hours older"
        )
        seconds = sum(t.cost for t in tests)
        print(f"{since}: {len(tests)} slow tests concern them, about {seconds / 60:.0f} min on two cores")
        if left:
            print(f"left to .ci/all, {len(left)} tests: {' '.join(t.name for t in left)}")
    elif args.level == "all":
        tests = shard(every, int(parts[1]), int(parts[2]))
    else:
        tests = [t for t in every if not t.slow]
    if args.area:
        tests = [t for t in tests if t.areas & set(args.area)]
    if args.list:
        print("\n".join(t.name for t in tests))
        return 0
    if not tests and args.level != "changed":
        print("No tests were found: ./learn test builds them")
        return 1
    build = ROOT / "build" / args.preset
    return run(args.preset, build, tests, ["--output-on-failure"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
