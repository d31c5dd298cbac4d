"""Programs in the styles of other people get the right verdict from the simulator.

verdicts_test.py TOOLCHAIN [K/N] [NAME...]
verdicts_test.py --write FOLDER

TOOLCHAIN is the toolchain.json of a build; K/N the K-th of N parts; NAME chooses programs.

The first line of a program in tests/sim_programs says what is right: `// verdict: clean`, or
`// verdict: race or misuse at line 7 or 9`, where one of the words and one of the lines is enough. A file
can be named: `at fill.cu line 5`. Programs that are another one with a mistake are in mistakes.toml; --write
writes them to FOLDER.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import unittest
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "tests" / "sim_programs"
MISTAKES = tomllib.loads((PROGRAMS / "mistakes.toml").read_text(encoding="utf-8"))
SOURCES = {".cu", ".cpp", ".c"}
SECONDS = 120
COMMAND = "import sys; from gpusim.cli import main; sys.exit(main(sys.argv[1:]))"  # gpusim run

# A word of a verdict, and what the report says then.
REPORTED = {
    "race": r"^race reported|^missing fence",
    "invalid": r"^invalid ",
    "invalid read": r"^invalid __\w+__ read",
    "invalid write": r"^invalid __\w+__ (write|atomic)",
    "uninitialized": r"^uninitialized ",
    "divergent": r"^barrier error detected\. divergent thread",
    "misaligned": r"^misaligned ",
    "misuse": r"^misuse ",
    "shuffle": r"__shfl_\w+|shuffle",
}


@dataclass(frozen=True)
class Program:
    name: str
    sources: tuple[Path, ...]
    options: tuple[str, ...]
    words: tuple[str, ...]  # empty: clean
    places: tuple[str, ...]  # file:line


def program_at(path: Path) -> Program:
    sources = tuple(sorted(p for p in path.iterdir() if p.suffix in SOURCES)) if path.is_dir() else (path,)
    for source in sources:
        lines = source.read_text(encoding="utf-8").splitlines()
        if not (verdict := re.fullmatch(r"// verdict: (.+?)(?: at (?:(\S+) )?line ([\d or]+))?", lines[0])):
            continue
        words, file, numbers = verdict.groups()
        flags = re.fullmatch(r"// flags: (.+)", lines[1])
        options = tuple(flags[1].split()) if flags else ()
        if words == "clean":
            return Program(path.stem, sources, options, (), ())
        places = tuple(f"{file or source.name}:{number}" for number in numbers.split(" or "))
        return Program(path.stem, sources, options, tuple(words.split(" or ")), places)
    raise ValueError(f"{path} has no verdict in its first line")


def end_of(part: str, text: str, name: str) -> int:
    """Where a part of a text ends. ValueError if it is not there exactly once."""
    if text.count(part) != 1:
        raise ValueError(f"mistakes.toml, {name}: the program must have once: {part}")
    return text.index(part) + len(part)


def with_mistake(name: str, program: str, edits: list[dict[str, str]], verdict: str, at: list[str]) -> str:
    """The right program after the edits, with the verdict in its first line: an entry of mistakes.toml."""
    text = (PROGRAMS / f"{program}.cu").read_text(encoding="utf-8")
    for edit in edits:
        end = end_of(edit["from"], text, name)
        text = text[: end - len(edit["from"])] + edit["to"] + text[end:]
    lines = " or ".join(str(text.count("\n", 0, end_of(part, text, name)) + 1) for part in at)
    clean = end_of("// verdict: clean\n", text, name)
    return f"// verdict: {verdict} at line {lines}\n{text[clean:]}"


def programs(folder: Path) -> list[Program]:
    """All programs. Those of mistakes.toml are written to the folder."""
    for name, entry in MISTAKES.items():
        (folder / f"{name}.cu").write_text(with_mistake(name, **entry), encoding="utf-8")
    paths = [p for p in PROGRAMS.iterdir() if p.is_dir() or p.suffix in SOURCES]
    paths += [folder / f"{name}.cu" for name in MISTAKES]
    return [program_at(path) for path in sorted(paths, key=lambda path: path.name)]


@dataclass(frozen=True)
class Run:
    status: int
    output: str
    messages: tuple[str, ...]
    seconds: float


def run(program: Program, toolchain: str) -> Run:
    """Runs a program as `gpusim run` does."""
    with tempfile.TemporaryDirectory(prefix="gpusim-program-") as folder:
        report = Path(folder) / "report.json"
        words = [*map(str, program.sources), *program.options, "--timeout", "20", "--json", str(report)]
        env = {**os.environ, "GPUSIM_TOOLCHAIN": toolchain, "PYTHONPATH": str(ROOT / "common" / "gpusim")}
        start = time.monotonic()
        try:
            done = subprocess.run(
                [sys.executable, "-c", COMMAND, *words],
                check=False,
                env=env,
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            return Run(124, str(error.stdout), (), SECONDS)
        seconds = time.monotonic() - start
        messages: tuple[str, ...] = ()
        if report.exists():
            defects = json.loads(report.read_text(encoding="utf-8"))["defects"]
            messages = tuple(defect["message"] for defect in defects)
        return Run(done.returncode, done.stdout, messages, seconds)


def what_is_wrong(program: Program, result: Run) -> str | None:
    """Why this is not the verdict; None if it is."""
    if not program.words:
        is_clean = result.status == 0 and not result.messages
        return None if is_clean else f"status {result.status}, must be clean"
    if result.status != 1:
        return f"status {result.status}, must be 1"
    for message in result.messages:
        said = any(re.search(REPORTED[word], message, re.IGNORECASE) for word in program.words)
        if said and any(re.search(rf"\b{re.escape(place)}\b", message) for place in program.places):
            return None
    return f"no report of {' or '.join(program.words)} at {' or '.join(program.places)}"


class Programs(unittest.TestCase):
    toolchain: str
    part: tuple[int, int] = (1, 1)
    names: frozenset[str] = frozenset()

    def test_verdicts(self) -> None:
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="gpusim-mistakes-"))
        chosen = [p for p in programs(Path(folder)) if not self.names or p.name in self.names]
        first, step = self.part
        chosen = chosen[first - 1 :: step]
        self.assertTrue(chosen)
        with ThreadPoolExecutor(2) as pool:
            for program, result in zip(chosen, pool.map(lambda p: run(p, self.toolchain), chosen)):
                wrong = what_is_wrong(program, result)
                print(f"{result.seconds:5.1f} s  {program.name}: {wrong or 'ok'}", flush=True)
                with self.subTest(program.name):
                    self.assertIsNone(wrong, f"\n{result.output[-4000:]}")


class Collection(unittest.TestCase):
    def test_enough_of_each_kind(self) -> None:
        with tempfile.TemporaryDirectory(prefix="gpusim-mistakes-") as folder:
            found = programs(Path(folder))
        verdicts = [bool(p.words) for p in found]
        self.assertGreaterEqual(verdicts.count(False), 40)
        self.assertGreaterEqual(verdicts.count(True), 24)
        self.assertEqual(len({p.name for p in found}), len(found))

    def test_a_mistake_that_does_not_fit_is_refused(self) -> None:
        entry = MISTAKES["max_past_end"]
        for change in {"at": ["no such text"]}, {"edits": [{"from": "float", "to": "half"}]}:
            with self.assertRaisesRegex(ValueError, "x: the program must have once: (no such text|float)$"):
                with_mistake("x", **entry | change)


if __name__ == "__main__":
    if sys.argv[1] == "--write":
        Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
        programs(Path(sys.argv[2]))
        sys.exit()
    Programs.toolchain, rest = os.path.abspath(sys.argv[1]), sys.argv[2:]
    if rest and (shard := re.fullmatch(r"(\d+)/(\d+)", rest[0])):
        Programs.part = (int(shard[1]), int(shard[2]))
        rest = rest[1:]
    Programs.names = frozenset(rest)
    unittest.main(argv=sys.argv[:1])
