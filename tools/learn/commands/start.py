"""./learn start: the learner's copy of a chapter's kernels, with blanks."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from .. import exercises, project
from ..console import Console, LearnError
from .run import write_whole

HELP = (
    "write exercises/NN_name/kernel.cuh: the chapter's kernels with blanks to fill in"
)


def add_chapter(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("chapter", metavar="NN", help="the chapter: 01")


def exercise_number(word: str) -> int:
    """The type of the argument K."""
    if not word.isdecimal():
        raise argparse.ArgumentTypeError(f"{word!r} must be the number of an exercise")
    return int(word)


def add_options(parser: argparse.ArgumentParser) -> None:
    add_chapter(parser)
    parser.add_argument(
        "--force", action="store_true", help="begin again: as ./learn reset NN"
    )


def back_up(file: Path) -> Path:
    """Copies a file to the first free name of kernel.cuh.1, kernel.cuh.2, ..."""
    number = 1
    while (target := file.with_name(f"{file.name}.{number}")).exists():
        number += 1
    shutil.copy2(file, target)
    return target


def write_blanks(console: Console, exercise: exercises.Exercise) -> None:
    """Writes the copy, and lists its tasks."""
    text = exercise.blank_text
    exercise.folder.mkdir(parents=True, exist_ok=True)
    write_whole(exercise.file, text)
    name = project.shown(exercise.file)
    console.say(f"{name}: {len(exercise.regions)} exercises", "bold")
    lines = text.splitlines()
    for region in exercise.regions:
        mark = f"// EXERCISE {region.number}: "
        line = next(
            at for at, code in enumerate(lines, 1) if code.strip().startswith(mark)
        )
        place = f"   {region.number}  line {line:<4}"
        console.wrap(region.task, place)
    console.say()
    console.say(f"read:  chapters/{exercise.chapter.name}/README.md")
    console.say(f"next:  fill in exercise 1, then ./learn check {exercise.number}")


def main(console: Console, args: argparse.Namespace) -> int:
    exercise = exercises.select_one(args.chapter)
    if exercise.file.exists():
        name = project.shown(exercise.file)
        if not args.force:
            raise LearnError(
                f"{name} exists: ./learn check {exercise.number} goes on with it, "
                f"./learn reset {exercise.number} begins again",
                2,
            )
        console.say(f"your file is kept as {project.shown(back_up(exercise.file))}")
    write_blanks(console, exercise)
    return 0
