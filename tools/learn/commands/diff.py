"""./learn diff: the learner's answers compared with the solution."""

from __future__ import annotations

import argparse
import difflib

from .. import exercises, project, regions
from ..console import Console
from .start import add_chapter

HELP = "compare what you wrote with the solution, exercise by exercise"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_chapter(parser)
    parser.add_argument("exercise", nargs="?", type=int, metavar="K", help="default: all")


def code(line: str) -> str:
    """A line without its indentation, and with one blank wherever there are several."""
    return " ".join(line.split())


def same(mine: list[str], solution: list[str]) -> bool:
    return list(map(code, mine)) == list(map(code, solution))


def show(console: Console, mine: list[str], solution: list[str], context: int) -> None:
    """Prints the lines whose code differs, with `context` lines around them."""
    own, right = (list(map(code, lines)) for lines in (mine, solution))
    matcher = difflib.SequenceMatcher(None, own, right, autojunk=False)
    for group in matcher.get_grouped_opcodes(context):
        for kind, begin, end, first, last in group:
            if kind == "equal":
                show_lines(console, " ", mine[begin:end], "plain")
            else:
                show_lines(console, "-", mine[begin:end], "red")
                show_lines(console, "+", solution[first:last], "green")


def show_lines(console: Console, sign: str, lines: list[str], style: str) -> None:
    for line in lines:
        console.say(f"{sign}  {line}".rstrip(), style)


def main(console: Console, args: argparse.Namespace) -> int:
    """Prints the learner's lines with -, the solution's with +."""
    exercise = exercises.select_one(args.chapter)
    own, where = exercise.own_copy(), exercise.own_places()
    blank = exercise.blank_copy
    chosen = exercise.regions if args.exercise is None else [exercise.region(args.exercise)]
    for file in exercise.files:
        tasks = [region for region in chosen if region.file == file.name]
        if not tasks:
            continue
        if file.name != chosen[0].file:
            console.say()
        console.say(f"-  {project.shown(file)}", "red")
        console.say(f"+  {project.shown(exercise.source(tasks[0]))}", "green")
        for region in tasks:
            show_region(console, exercise, region, where[region.number], args.exercise)
        mine, fresh = regions.outside(own[file.name]), regions.outside(blank[file.name])
        if not same(mine, fresh) and args.exercise is None:
            console.say()
            console.say("outside the exercises:", "bold")
            show(console, mine, fresh, 0)
    return 0


def show_region(
    console: Console,
    exercise: exercises.Exercise,
    region: regions.Region,
    place: regions.Place,
    asked: int | None,
) -> None:
    """Prints one exercise. The solution of an untouched one is shown only if its number was asked for."""
    console.say()
    title = f"exercise {region.number}, line {place.begin + 1}: "
    console.wrap(region.task, title, style="bold")
    mine, solution = (
        [line.removeprefix(region.indent) for line in lines] for lines in (place.lines, region.solution)
    )
    if asked is None and regions.same_code(place.lines, region.stub):
        command = f"./learn diff {exercise.number} {region.number}"
        console.say(f"   {region.still}; the solution: {command}", "dim")
    elif same(mine, solution):
        console.say("   the same", "dim")
    else:
        show(console, mine, solution, len(mine) + len(solution))
