"""./learn start: writes the learner's copy of a chapter's kernels, with blanks."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from .. import exercises, project, tasks
from ..console import Console, LearnError
from .run import write_whole

HELP = "write exercises/NN_name: the chapter's kernels with blanks; bug1: a kernel with a mistake to find"


def add_chapter(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("chapter", metavar="NN", help="the chapter: 01")


def exercise_number(word: str) -> int:
    """The type of the argument K."""
    if not word.isdecimal():
        raise argparse.ArgumentTypeError(f"{word!r} must be the number of an exercise")
    return int(word)


def exercise_or_task(word: str) -> int | tasks.Named:
    """The type of an argument that may also be bug1 or predict1."""
    if named := tasks.named(word):
        return named
    if not word.isdecimal():
        raise argparse.ArgumentTypeError(f"{word!r} must be the number of an exercise, bugK or predictK")
    return int(word)


def only_task(word: str) -> tasks.Named:
    named = tasks.named(word)
    if not named:
        raise argparse.ArgumentTypeError(
            f"{word!r} must be bugK or predictK; without it, all exercises start"
        )
    return named


def add_options(parser: argparse.ArgumentParser) -> None:
    add_chapter(parser)
    parser.add_argument(
        "task",
        nargs="?",
        type=only_task,
        metavar="bugK|predictK",
        help="a kernel with a mistake to find, or numbers to predict; without it: the exercises",
    )
    parser.add_argument("--force", action="store_true", help="start over, as ./learn reset NN does")


def back_up(console: Console, exercise: exercises.Exercise) -> None:
    """Copies the learner's files to kernel.cuh.1 or the first number that is free for all of them."""
    files = [file for file in exercise.files if file.exists()]
    number = 1
    while any(file.with_name(f"{file.name}.{number}").exists() for file in files):
        number += 1
    kept = [shutil.copy2(file, f"{file}.{number}") for file in files]
    names = ", ".join(project.shown(Path(name)) for name in kept)
    console.say(f"your file is kept as {names}" if len(kept) == 1 else f"your files are kept as {names}")


def write_blanks(console: Console, exercise: exercises.Exercise) -> None:
    """Writes the copy and lists its tasks."""
    exercise.folder.mkdir(parents=True, exist_ok=True)
    for file, text in zip(exercise.files, exercise.blank_copy.values(), strict=True):
        write_whole(file, text)
    places = exercise.own_places()
    for file in exercise.files:
        tasks = exercise.regions_of(file.name)
        what = "exercise" if len(tasks) == 1 else "exercises"
        console.say(f"{project.shown(file)}: {len(tasks)} {what}", "bold")
        for region in tasks:
            line = places[region.number].begin
            console.wrap(region.task, f"   {region.number}  line {line:<4}")
    console.say()
    console.say(f"read:  chapters/{exercise.chapter.name}/README.md")
    console.say(f"next:  fill in exercise 1, then ./learn check {exercise.number}")


def main(console: Console, args: argparse.Namespace) -> int:
    exercise = exercises.select_one(args.chapter)
    if args.task:
        return tasks.start(console, exercise, args.task, args.force)
    if exercise.started:
        if not args.force:
            file = next(file for file in exercise.files if file.exists())
            raise LearnError(
                f"{project.shown(file)} exists: ./learn check {exercise.number} checks it, "
                f"./learn reset {exercise.number} starts over",
                2,
            )
        back_up(console, exercise)
    write_blanks(console, exercise)
    return 0
