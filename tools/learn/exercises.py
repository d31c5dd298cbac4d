"""The exercises of a chapter: the learner's files, the known wrong answers, the result of the last check."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from . import opens, project, regions, sheet
from .console import LearnError
from .sheet import Mutant
from .trials import file_hash, most_alike


@dataclass(frozen=True)
class State:
    """How far the learner has come with a chapter."""

    words: str
    style: str  # of the console
    exercise: int | None = None  # the one that fails


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
    def names(self) -> list[str]:
        """The chapter's files that contain exercises; the learner has a copy of each."""
        return self.sheet.files

    @property
    def files(self) -> list[Path]:
        """The learner's copies."""
        return [self.folder / name for name in self.names]

    @property
    def hints_file(self) -> Path:
        """The hints given so far, which the learner can read again or delete."""
        return self.folder / "hints.txt"

    @property
    def target(self) -> str:
        """The CMake target, which is also the program's name."""
        return f"{self.chapter.executable}_exercise"

    @property
    def exists(self) -> bool:
        """Whether the chapter has exercises."""
        return (self.chapter.path / sheet.NAME).is_file()

    @property
    def started(self) -> bool:
        return self.exists and any(file.exists() for file in self.files)

    @functools.cached_property
    def sheet(self) -> sheet.Sheet:
        return sheet.Sheet(self.chapter.path, project.shown(self.chapter.path))

    @property
    def regions(self) -> list[regions.Region]:
        return self.sheet.regions if self.exists else []

    def region(self, number: int) -> regions.Region:
        for region in self.regions:
            if region.number == number:
                return region
        raise LearnError(
            f"chapter {self.number} has no exercise {number}: its exercises are 1 to {len(self.regions)}", 2
        )

    def regions_of(self, name: str) -> list[regions.Region]:
        """The exercises of one file."""
        return [region for region in self.regions if region.file == name]

    def require_started(self) -> None:
        """LearnError if the learner has no files."""
        if not self.started:
            raise LearnError(f"chapter {self.number} is not started: ./learn start {self.number}", 2)

    def own_copy(self) -> dict[str, str]:
        """The text of each of the learner's files, by name. LearnError if there are none."""
        self.require_started()
        copy = {}
        for file in self.files:
            try:
                copy[file.name] = file.read_text(encoding="utf-8")
            except FileNotFoundError as error:
                raise LearnError(
                    f"{project.shown(file)} is gone: ./learn reset {self.number} writes it again, and backs "
                    f"up the others",
                    2,
                ) from error
            except (OSError, UnicodeDecodeError) as error:
                raise LearnError(f"{project.shown(file)} cannot be read: {error}", 2) from error
        return copy

    def own_places(self) -> dict[int, regions.Place]:
        """Where the exercises are in the learner's files."""
        copy = self.own_copy()
        return regions.places(copy, self.regions, project.shown(self.folder))

    def blanks(self) -> list[int]:
        """The exercises without an answer, blank or with their mistake. RegionError if marks are missing."""
        where = self.own_places()
        return [
            region.number
            for region in self.regions
            if regions.same_code(where[region.number].lines, region.stub)
        ]

    def copy_with(self, contents: Mapping[int, tuple[str, ...]]) -> dict[str, str]:
        """A learner's copy with these answers, and blanks in the other regions."""
        return {
            name: regions.blank_copy(text, self.regions_of(name), self.chapter.name, contents)
            for name, text in self.sheet.texts.items()
        }

    @property
    def blank_copy(self) -> dict[str, str]:
        """The copy as `start` writes it."""
        return self.copy_with({})

    @property
    def inputs(self) -> list[str]:
        """The command lines that an answer is tested with, from small to large."""
        return self.sheet.inputs

    def inputs_of(self, number: int | None) -> list[str]:
        """The command lines that an answer to one exercise is tested with."""
        return self.sheet.inputs_of(number) if number else self.inputs

    def variant_of(self, number: int | None) -> str | None:
        """The variant on which an answer to one exercise is tried first."""
        return self.sheet.variant_of(number) if number else None

    def quick_trial_of(self, number: int) -> tuple[list[str], str | None]:
        """Inputs of one size, and one variant: this compiles a fraction of the kernels."""
        return most_alike(self.inputs_of(number)), self.variant_of(number)

    def more_of(self, number: int | None) -> dict[str, str]:
        """What `check` adds if an answer to one exercise exceeds a limit or has a defect, by kind."""
        return self.sheet.more_of(number) if number else {}

    def free_of(self, number: int | None) -> list[str]:
        """The tensors of which an answer to one exercise may move any number of bytes."""
        return self.sheet.free_of(number) if number else []

    @property
    def free_of_any(self) -> list[str]:
        """The same for all answers together."""
        return [name for region in self.regions for name in self.free_of(region.number)]

    @property
    def watches(self) -> dict[int, sheet.Watch]:
        """The functions that an answer should not call in vain, by exercise."""
        return self.sheet.watches if self.exists else {}

    @property
    def limits(self) -> list[str]:
        """What an answer must not have more of than the solution, or less of: some of sheet.LIMITS and
        counts.LEAST.
        """
        return self.sheet.limits

    def mutants(self) -> list[Mutant]:
        return self.sheet.mutants()

    @property
    def opens(self) -> list[opens.Open]:
        """The open exercises, which have no region."""
        return self.sheet.opens

    def copy_with_edits(self, edits: Iterable[opens.Edit]) -> dict[str, str]:
        """A learner's copy with all solutions, and an answer to an open exercise."""
        copy = self.copy_with({r.number: r.solution for r in self.regions})
        for edit in edits:
            copy[edit.file] = copy[edit.file].replace(edit.old, edit.new)
        return copy

    def source(self, region: regions.Region) -> Path:
        """The chapter's file that marks an exercise."""
        return self.chapter.path / region.file

    # --- what the last check said

    def result_file(self, build: Path) -> Path:
        return build / "exercises" / f"{self.chapter.name}.json"

    def hashes(self) -> dict[str, str]:
        """A hash of each of the learner's files."""
        return {project.shown(file): file_hash(file) for file in self.files}

    def last_result(self, build: Path) -> dict | None:
        """The result of the last check, if the files have not changed since."""
        try:
            result = json.loads(self.result_file(build).read_text(encoding="utf-8"))
            return result if result["files"] == self.hashes() else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def state(self, build: Path) -> State:
        """The state that the map shows."""
        if not self.exists:
            return State("no exercises", "dim")
        if not self.started:
            return State("not started", "dim")
        result = self.last_result(build)
        if not result:
            checked = self.result_file(build).exists()
            words = "changed since the last check" if checked else "started, not checked"
            return State(words, "yellow")
        if result["passed"]:
            return State("passed", "green")
        which = result["exercise"]
        states = list(result.get("exercises", {}).values())
        state = states[which - 1] if which and states else None
        if state in (regions.BLANK, regions.GIVEN):
            right = f"{states.count('right')} of {len(states)} right"
            return State(f"{right}, exercise {which} is {state}", "yellow", which)
        return State(f"failing: exercise {which}" if which else "failing", "red", which)


HOW_TO_RESTORE = (
    "Solve the exercises in exercises/, which ./learn start creates; `git checkout -- {path}` undoes the edit"
)


def edited_chapters() -> list[str]:
    """The chapters' files with exercises that differ from git; none if there is no git."""
    chapters = filter(lambda exercise: exercise.exists, map(Exercise, project.chapters()))
    files = [f"chapters/{exercise.chapter.name}/{name}" for exercise in chapters for name in exercise.names]
    try:
        done = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=no", "--", *files],
            cwd=project.ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line[3:] for line in done.stdout.splitlines()] if done.returncode == 0 else []


def select_one(word: str) -> Exercise:
    """The exercises of the named chapter. LearnError if it has none."""
    exercise = Exercise(project.select([word])[0])
    if not exercise.exists:
        raise LearnError(f"chapter {exercise.number} has no exercises yet", 2)
    return exercise
