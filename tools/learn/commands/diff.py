"""./learn diff: the learner's answers compared with the solution."""

from __future__ import annotations

import argparse
import difflib
import textwrap

from .. import exercises, project, regions
from ..console import Console
from .start import add_chapter

HELP = "compare what you wrote with the solution, exercise by exercise"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_chapter(parser)
    parser.add_argument(
        "exercise", nargs="?", type=int, metavar="K", help="default: all"
    )


def show(console: Console, mine: list[str], solution: list[str], context: int) -> None:
    """Prints the lines that differ, with `context` lines around them."""
    for line in list(difflib.unified_diff(mine, solution, n=context, lineterm=""))[2:]:
        if not line.startswith("@@"):
            style = {"-": "red", "+": "green"}.get(line[0], "plain")
            console.say(f"{line[0]}  {line[1:]}".rstrip(), style)


def main(console: Console, args: argparse.Namespace) -> int:
    """Prints the learner's lines with -, the solution's with +."""
    exercise = exercises.select_one(args.chapter)
    own, where = exercise.own_copy(), exercise.own_places()
    blank = exercise.blank_copy
    chosen = (
        exercise.regions if args.exercise is None else [exercise.region(args.exercise)]
    )
    for file in exercise.files:
        tasks = [region for region in chosen if region.file == file.name]
        if not tasks:
            continue
        if file.name != chosen[0].file:
            console.say()
        console.say(f"-  {project.shown(file)}", "red")
        console.say(f"+  {project.shown(exercise.source(tasks[0]))}", "green")
        for region in tasks:
            show_region(console, region, where[region.number])
        mine, fresh = regions.outside(own[file.name]), regions.outside(blank[file.name])
        if mine != fresh and args.exercise is None:
            console.say()
            console.say("outside the exercises:", "bold")
            show(console, mine, fresh, 0)
    return 0


def show_region(console: Console, region: regions.Region, place: regions.Place) -> None:
    console.say()
    title = f"exercise {region.number}, line {place.begin + 1}: "
    console.wrap(region.task, title, style="bold")
    mine, solution = (
        textwrap.dedent("\n".join(lines)).splitlines()
        for lines in (place.lines, region.solution)
    )
    if mine == solution:
        console.say("   the same", "dim")
    else:
        show(console, mine, solution, len(mine) + len(solution))
