"""The tree as ./learn sees it: chapters, presets, builds, the last test run."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from .console import LearnError

ROOT = Path(__file__).resolve().parents[2]
REPORT = ROOT / "build" / "report.html"
FIRST_ATTENTION_CHAPTER = 3  # earlier chapters compute softmax and read no V
BACKWARD_CHAPTER = 8  # it reads dO; some of its variants run only in fp32, others only in 16 bits
FIRST_HOPPER_CHAPTER = 9  # from here on, kernels take a head_dim of 64 and more
DECODING_CHAPTER = 14  # it takes 16 queries at most
# What these chapters run on instead of the bundled input, whose head_dim is 32.
HOPPER_INPUT = (*("--heads", "4", "--kv-heads", "2", "--seq-q", "229", "--head-dim", "64"), "--causal")
DECODING_INPUT = (
    *("--batch", "2", "--heads", "8", "--kv-heads", "2", "--seq-k", "500"),
    *("--head-dim", "64"),
)


def shown(path: Path) -> str:
    """A path as the learner would type it at the root of the tree."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


@dataclass(frozen=True)
class Chapter:
    """A folder of chapters/."""

    path: Path

    @property
    def name(self) -> str:
        """ "02_online_softmax" """
        return self.path.name

    @property
    def number(self) -> str:
        """ "02" """
        return self.name[:2]

    @property
    def executable(self) -> str:
        """The name of the program and of its CMake target."""
        return f"ch{self.name}"

    @property
    def title(self) -> str:
        """The lesson's heading without its number; the folder's name if there is no heading yet."""
        try:
            with (self.path / "README.md").open(encoding="utf-8") as lesson:
                heading = lesson.readline().strip().lstrip("#").strip()
        except OSError:
            heading = ""
        number = rf"(chapter\s+)?0*{int(self.number)}\s*[.:)\-]*\s+"
        return re.sub(f"^{number}", "", heading, flags=re.IGNORECASE) or self.name

    def dtypes(self) -> list[str]:
        """The element types that `learn run` runs all variants with; "" is the program's default."""
        return ["fp32", "bf16"] if int(self.number) == BACKWARD_CHAPTER else [""]

    def inputs(self) -> dict[str, Path]:
        """The bundled tensors that the chapter reads, by option; none if its kernels do not take their
        head_dim.
        """
        number, names = int(self.number), ["q", "k"]
        if number >= FIRST_HOPPER_CHAPTER:
            return {}
        if number >= FIRST_ATTENTION_CHAPTER:
            names.append("v")
        if number == BACKWARD_CHAPTER:
            names.append("do")
        return {f"--{name}": ROOT / "data" / f"{name}.npy" for name in names}

    @property
    def runs_on_random_numbers(self) -> bool:
        """Whether `learn run` gives it random_input instead of the bundled input."""
        return not self.inputs()

    @property
    def random_input(self) -> tuple[str, ...]:
        """The options of that input."""
        return DECODING_INPUT if int(self.number) == DECODING_CHAPTER else HOPPER_INPUT

    @property
    def has_ranks(self) -> bool:
        """Whether its program runs as several processes, each with a GPU. It is left out where there is no
        MPI.
        """
        try:
            text = (self.path / "CMakeLists.txt").read_text(encoding="utf-8")
        except OSError:
            return False
        return re.search(r"fa_add_chapter\([^)]*\bMAIN\b", text) is not None

    @property
    def needed_capability(self) -> str | None:
        """ "9.0" if its kernels run on GPUs of this compute capability alone; None if they do on newer ones,
        too.
        """
        try:
            text = (self.path / "CMakeLists.txt").read_text(encoding="utf-8")
        except OSError:
            return None
        found = re.search(r"ARCHITECTURE (\d+)(\d)a", text)
        return f"{found[1]}.{found[2]}" if found else None


def chapters() -> list[Chapter]:
    """Every chapter that has a lesson, in order."""
    return [Chapter(lesson.parent) for lesson in sorted(ROOT.glob("chapters/[0-9][0-9]_*/README.md"))]


def select(words: list[str]) -> list[Chapter]:
    """The named chapters ("2", "02" or the folder), or all of them if none is named."""
    every = chapters()
    if not every:
        raise LearnError("chapters/ holds no chapter: this checkout is not complete", 2)
    if not words:
        return every
    wanted = []
    for word in words:
        name = Path(word).name
        same = [c for c in every if name in (c.name, c.number, c.number.lstrip("0"))]
        if not same:
            numbers = ", ".join(chapter.number for chapter in every)
            raise LearnError(f"there is no chapter {word}: the chapters are {numbers}", 2)
        wanted += same
    return [chapter for chapter in every if chapter in wanted]


def presets() -> list[str]:
    """The configure presets of CMakePresets.json, without the hidden ones."""
    path = ROOT / "CMakePresets.json"
    try:
        configure = json.loads(path.read_text(encoding="utf-8"))["configurePresets"]
    except (OSError, ValueError, KeyError) as error:
        raise LearnError(f"CMakePresets.json cannot be read: {error}", 2) from error
    return [preset["name"] for preset in configure if not preset.get("hidden")]


def build_folder(preset: str) -> Path:
    return ROOT / "build" / preset


def executable(chapter: Chapter, preset: str) -> Path:
    return build_folder(preset) / "bin" / chapter.executable


def built(chapter: Chapter, preset: str) -> bool:
    return os.access(executable(chapter, preset), os.X_OK)


def test_label(chapter: Chapter) -> str:
    """The ctest label of the chapter's tests."""
    return f"chapter{chapter.number}"


@dataclass
class TestState:
    """How many tests of a chapter passed and failed when they last ran."""

    passed: int = 0
    failed: int = 0


def _last_test_log(preset: str) -> str:
    log = build_folder(preset) / "Testing" / "Temporary" / "LastTest.log"
    try:
        return log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _test_results(preset: str) -> dict[str, bool]:
    """Which tests passed: those that ctest last ran, and those that tests/levels.py remembers."""
    try:
        text = (build_folder(preset) / "passed.json").read_text(encoding="utf-8")
        results = dict.fromkeys(json.loads(text), True)
    except (OSError, ValueError):
        results = {}
    log = re.split(r"^\d+/\d+ Testing: (.*)$", _last_test_log(preset), flags=re.MULTILINE)
    for name, section in zip(log[1::2], log[2::2], strict=True):
        if '\nCommand: ""\n' not in section:  # disabled, or its program was not built
            results[name] = "\nTest Failed.\n" not in section
    return results


def test_states(preset: str) -> dict[Chapter, TestState]:
    """The latest results of tests, by chapter.

    A chapter's tests contain the name of its program, test_ch02_online_softmax.Random, or begin with their
    label:
    chapter13.results. The test of the learner's own file, exercise.ch02_online_softmax, does not count.
    """
    states: dict[Chapter, TestState] = {}
    every = chapters()
    for name, passed in _test_results(preset).items():
        if name.startswith("exercise."):
            continue
        for chapter in every:
            label = test_label(chapter)
            if chapter.executable not in name and name.split(".")[0] != label:
                continue
            state = states.setdefault(chapter, TestState())
            state.failed += not passed
            state.passed += passed
    return states
