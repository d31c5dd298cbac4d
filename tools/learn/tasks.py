"""Tasks beside the exercises: bugs to find, and numbers to predict."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass

from . import project
from .bugs import Bug
from .console import Console, LearnError
from .exercises import Exercise
from .predictions import Prediction


@dataclass(frozen=True)
class Named:
    """What a command line calls "bug1" or "predict2"."""

    kind: str
    number: int

    def of(self, exercise: Exercise) -> Bug | Prediction:
        """@throws LearnError  if the chapter has no such task"""
        found = of_chapter(exercise, self.kind)
        if not 0 < self.number <= len(found):
            known = ", ".join(task.name for task in found) or "none"
            raise LearnError(f"chapter {exercise.number} has no {self.kind}{self.number}: it has {known}", 2)
        return found[self.number - 1]


def named(word: str) -> Named | None:
    """ "bug1" or "predict2"; None for any other word."""
    match = re.fullmatch(r"(bug|predict)(\d+)", word)
    return Named(match[1], int(match[2])) if match else None


def of_chapter(exercise: Exercise, kind: str) -> list[Bug] | list[Prediction]:
    if not exercise.exists:
        return []
    return exercise.sheet.bugs if kind == "bug" else exercise.sheet.predictions


def start(console: Console, exercise: Exercise, which: Named, force: bool) -> int:
    """Writes the files of a task. @param force  also over the learner's, of which a backup is kept"""
    task = which.of(exercise)
    files = task.files(exercise)
    for file, text in files.items():
        if file.exists() and not force:
            raise LearnError(
                f"{project.shown(file)} exists: ./learn check {exercise.number} {task.name} checks it, "
                f"--force writes it again",
                2,
            )
        if file.exists():
            shutil.copy2(file, f"{file}.1")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    shown = ", ".join(project.shown(file) for file in files)
    console.say(f"{shown}: {task.minutes} minutes", "bold")
    console.wrap(task.question if isinstance(task, Prediction) else task.task, "task:  ")
    console.say(f"next:  ./learn check {exercise.number} {task.name}")
    return 0
