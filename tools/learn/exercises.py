"""The exercises of a chapter: the learner's file, the known wrong answers, what the last check said."""

from __future__ import annotations

import functools
import json
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import project, regions
from .console import LearnError
from .trials import file_hash


@dataclass(frozen=True)
class Mutant:
    """A wrong answer that people really give, and how it must be found."""

    exercise: int
    name: str
    solution: tuple[str, ...]  # wrong
    caught_by: str  # one of diagnosis.KINDS
    says: str  # what `check` tells, word for word


@dataclass(frozen=True)
class State:
    """How far the learner is with a chapter."""

    words: str
    style: str  # of the console
    exercise: int | None = None  # that fails


@dataclass(frozen=True)
class Exercise:
    """The exercises of one chapter."""

    chapter: project.Chapter

    @property
    def number(self) -> str:
        return self.chapter.number

    @property
    def folder(self) -> Path:
        return project.ROOT / "exercises" / self.chapter.name

    @property
    def file(self) -> Path:
        """The learner's copy of kernel.cuh."""
        return self.folder / "kernel.cuh"

    @property
    def hints_file(self) -> Path:
        """The hints that were given so far, for the learner to read again, or to delete."""
        return self.folder / "hints.txt"

    @property
    def target(self) -> str:
        """The CMake target, which is the program's name as well."""
        return f"{self.chapter.executable}_exercise"

    @property
    def started(self) -> bool:
        return self.file.is_file()

    @property
    def source(self) -> Path:
        return self.chapter.path / "kernel.cuh"

    @functools.cached_property
    def text(self) -> str:
        """The chapter's kernel.cuh."""
        try:
            return self.source.read_text(encoding="utf-8")
        except OSError:
            return ""

    @property
    def exists(self) -> bool:
        """Whether the chapter has exercises, and inputs to try answers on."""
        return bool(self.regions) and self.table.is_file()

    @functools.cached_property
    def regions(self) -> list[regions.Region]:
        try:
            return regions.parse(self.text, project.shown(self.source))
        except regions.RegionError as error:
            raise LearnError(str(error), 2) from error

    def region(self, number: int) -> regions.Region:
        for region in self.regions:
            if region.number == number:
                return region
        raise LearnError(
            f"chapter {self.number} has no exercise {number}: they are 1 to {len(self.regions)}",
            2,
        )

    def own_text(self) -> str:
        """What the learner's file holds; LearnError where there is none."""
        if not self.started:
            raise LearnError(
                f"chapter {self.number} is not started: ./learn start {self.number}", 2
            )
        try:
            return self.file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise LearnError(
                f"{project.shown(self.file)} cannot be read: {error}", 2
            ) from error

    def copy_with(self, contents: Mapping[int, tuple[str, ...]]) -> str:
        """A learner's copy with these answers, and blanks in the other regions."""
        name = project.shown(self.source)
        return regions.blank_copy(self.text, name, self.chapter.name, contents)

    @property
    def blank_text(self) -> str:
        """The copy as `start` writes it."""
        return self.copy_with({})

    # --- mutants.toml

    @property
    def table(self) -> Path:
        return self.chapter.path / "mutants.toml"

    @functools.cached_property
    def _table(self) -> dict:
        try:
            return tomllib.loads(self.table.read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise LearnError(f"{project.shown(self.table)}: {error}", 2) from error

    @property
    def inputs(self) -> list[str]:
        """The command lines on which an answer is tried, from small to large."""
        return self._table["inputs"]

    @property
    def limits(self) -> list[str]:
        """Of what an answer must not have more than the solution: "sectors", "conflicts"."""
        limited = ("sectors", "conflicts")
        return [name for name in limited if self._table.get(f"limit_{name}", False)]

    def mutants(self) -> list[Mutant]:
        mutants = []
        for entry in self._table["mutant"]:
            region = self.region(entry["exercise"])
            solution = "\n".join(region.solution)
            count = solution.count(entry["from"])
            if count != 1:
                raise LearnError(
                    f"{project.shown(self.table)}: {entry['name']}: `from` is {count} times in the "
                    f"solution of exercise {region.number}, must be once",
                    2,
                )
            wrong = solution.replace(entry["from"], entry["to"])
            fields = (
                entry["name"],
                tuple(wrong.splitlines()),
                entry["caught_by"],
                entry["says"],
            )
            mutants.append(Mutant(region.number, *fields))
        return mutants

    # --- what the last check said

    def result_file(self, build: Path) -> Path:
        return build / "exercises" / f"{self.chapter.name}.json"

    def last_result(self, build: Path) -> dict | None:
        """The last check's result, if it is about the file as it is now."""
        try:
            result = json.loads(self.result_file(build).read_text(encoding="utf-8"))
            return result if result["sha256"] == file_hash(self.file) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def state(self, build: Path) -> State:
        """What the map shows."""
        if not self.exists:
            return State("no exercises", "dim")
        if not self.started:
            return State("not started", "dim")
        result = self.last_result(build)
        if not result:
            checked = self.result_file(build).exists()
            words = (
                "changed since the last check" if checked else "started, not checked"
            )
            return State(words, "yellow")
        if result["passed"]:
            return State("passed", "green")
        which = result["exercise"]
        return State(f"failing: exercise {which}" if which else "failing", "red", which)


HOW_TO_RESTORE = "Exercises are solved in exercises/, which ./learn start makes; `git checkout -- {path}` takes the edit back"


def edited_chapters() -> list[str]:
    """The files chapters/*/kernel.cuh that differ from git, where there is git."""
    try:
        done = subprocess.run(
            [
                "git",
                "status",
                "--porcelain",
                "--untracked-files=no",
                "--",
                "chapters/*/kernel.cuh",
            ],
            cwd=project.ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return (
        [line[3:] for line in done.stdout.splitlines()] if done.returncode == 0 else []
    )


def select_one(word: str) -> Exercise:
    """The exercises of the chapter that was named; LearnError if it has none."""
    exercise = Exercise(project.select([word])[0])
    if not exercise.exists:
        raise LearnError(f"chapter {exercise.number} has no exercises yet", 2)
    return exercise
