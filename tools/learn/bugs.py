"""Bug exercises: kernels that compile and are wrong in one line, which the learner finds and corrects.

A learner has the whole of the chapter's files, without marks, in exercises/NN_name/bugK. Any correction
passes that is right on all of the chapter's inputs and keeps its limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import diagnosis, opens, project, regions, trials
from .console import LearnError

if TYPE_CHECKING:
    from .exercises import Exercise


@dataclass(frozen=True)
class Bug:
    """A kernel with a mistake."""

    number: int
    task: str  # what is known of the mistake
    minutes: int
    variant: str  # which it is tried on first
    edit: opens.Edit  # from the chapter's kernels to the wrong ones
    hints: tuple[str, ...]
    why: str  # shown once it is found
    caught_by: str  # one of diagnosis.KINDS
    says: str  # words of the finding
    limits: tuple[str, ...] = ()  # in addition to those of the chapter

    @property
    def name(self) -> str:
        return f"bug{self.number}"

    def folder(self, exercise: Exercise) -> Path:
        return exercise.folder / self.name

    def files(self, exercise: Exercise) -> dict[Path, str]:
        """The learner's files with the mistake, and their texts."""
        texts = dict(exercise.sheet.texts)
        texts[self.edit.file] = texts[self.edit.file].replace(self.edit.old, self.edit.new)
        folder = self.folder(exercise)
        return {folder / name: regions.without_marks(text) for name, text in texts.items()}

    def own(self, exercise: Exercise) -> dict[str, str]:
        """The texts of the learner's files, by name. @throws LearnError  if one is missing"""
        copy = {}
        for file in self.files(exercise):
            try:
                copy[file.name] = file.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                start = f"./learn start {exercise.number} {self.name}"
                raise LearnError(f"{project.shown(file)} cannot be read: {start} writes it", 2) from error
        return copy

    def judge(
        self, bench: trials.Workbench, exercise: Exercise, copy: dict[str, str]
    ) -> diagnosis.Finding | None:
        """What is wrong with a copy; None if nothing is. @throws trials.CompileError"""
        solution = bench.solution(tuple(exercise.inputs))
        limits = [*exercise.limits, *self.limits]
        quick = trials.most_alike(exercise.inputs)
        for inputs, variant in ((quick, self.variant), (exercise.inputs, None)):
            tried = bench.try_files(copy, inputs, variant)
            attempts = [diagnosis.without_excess(attempt, exercise.free_of_any) for attempt in tried]
            if finding := diagnosis.explain(attempts, limits, solution):
                return finding
        return None
