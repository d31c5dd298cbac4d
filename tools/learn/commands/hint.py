"""./learn hint: one hint at a time."""

from __future__ import annotations

import argparse

from .. import bugs, exercises, machine, project, regions, tasks
from ..console import Console, LearnError
from .start import add_chapter, exercise_or_task

HELP = "show the next hint for an exercise; each call gives one more"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_chapter(parser)
    parser.add_argument(
        "exercise",
        nargs="?",
        type=exercise_or_task,
        metavar="K",
        help="or bugK; default: the exercise that the last check named, or else the first blank one",
    )


def open_exercise(exercise: exercises.Exercise) -> int | None:
    """The exercise that the learner is working on; None if all are right."""
    preset, _ = machine.choose_preset(None)
    result = exercise.last_result(project.build_folder(preset))
    if result and result.get("passed"):
        return None
    if result and result.get("exercise"):
        return result["exercise"]
    try:
        return next(iter(exercise.blanks()), 1)
    except regions.RegionError:
        return 1


def give(
    console: Console, exercise: exercises.Exercise, what: str, task: str, hints: tuple[str, ...], end: str
) -> None:
    """Prints a hint and adds it to hints.txt, from which the next call knows how many were given.

    @param what  "exercise 3" or "bug1"    @param end  what there is after the last hint
    """
    file = exercise.hints_file
    given = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    lines = [f"{what}, hint {n}: {hint}" for n, hint in enumerate(hints, 1)]
    shown = [line for line in lines if line in given]
    rest = [line for line in lines if line not in given]

    console.wrap(task, f"{what}: ", style="bold")
    for line in shown + rest[:1]:
        title, hint = line.split(": ", 1)
        console.wrap(hint, f"   {title.split(', ')[1]}: ", style="dim" if line in shown else "plain")
    if rest:
        with file.open("a", encoding="utf-8") as stream:
            stream.write(f"{rest[0]}\n")
    if len(rest) > 1:
        left = f"{len(rest) - 1} more hint{'s' if len(rest) > 2 else ''}"
        end = f"{left}; the next one: ./learn hint {exercise.number} {what.removeprefix('exercise ')}"
    console.say(end, "dim")


def main(console: Console, args: argparse.Namespace) -> int:
    exercise = exercises.select_one(args.chapter)
    if isinstance(args.exercise, tasks.Named):
        bug = args.exercise.of(exercise)
        if not isinstance(bug, bugs.Bug):
            raise LearnError(f"{bug.name} has no hints: the lesson explains what to count", 2)
        bug.own(exercise)  # LearnError if it is not started
        end = f"no more hints; the chapter's own kernels are in chapters/{exercise.chapter.name}"
        give(console, exercise, bug.name, bug.task, bug.hints, end)
        return 0
    exercise.own_copy()  # LearnError if the chapter is not started
    number = open_exercise(exercise) if args.exercise is None else args.exercise
    if number is None:
        console.say(
            f"all exercises of chapter {exercise.number} are right; hints for exercise K: ./learn hint "
            f"{exercise.number} K"
        )
        return 0
    region = exercise.region(number)
    end = f"no more hints; the answer: ./learn solution {exercise.number} {number}"
    give(console, exercise, f"exercise {number}", region.task, region.hints, end)
    return 0
