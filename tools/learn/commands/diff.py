"""./learn diff: what the learner wrote beside the solution."""

from __future__ import annotations

import argparse
import difflib
import textwrap

from .. import exercises, project, regions
from ..console import Console, LearnError
from .start import add_chapter

HELP = "what you wrote beside the solution, exercise by exercise"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_chapter(parser)
    parser.add_argument(
        "exercise", nargs="?", type=int, metavar="K", help="default: all"
    )


def show(console: Console, mine: list[str], solution: list[str], context: int) -> None:
    """What differs, with so many lines around it."""
    for line in list(difflib.unified_diff(mine, solution, n=context, lineterm=""))[2:]:
        if not line.startswith("@@"):
            style = {"-": "red", "+": "green"}.get(line[0], "plain")
            console.say(f"{line[0]}  {line[1:]}".rstrip(), style)


def main(console: Console, args: argparse.Namespace) -> int:
    """Lines of the learner with -, of the solution with +."""
    exercise = exercises.select_one(args.chapter)
    name, own = project.shown(exercise.file), exercise.own_text()
    try:
        where = regions.places(own, exercise.regions, name)
    except regions.RegionError as error:
        raise LearnError(str(error), 2) from error
    chosen = (
        exercise.regions if args.exercise is None else [exercise.region(args.exercise)]
    )
    console.say(f"-  {name}", "red")
    console.say(f"+  {project.shown(exercise.source)}", "green")
    for region in chosen:
        place = where[region.number]
        console.say()
        console.wrap(
            region.task,
            f"exercise {region.number}, line {place.begin + 1}: ",
            style="bold",
        )
        mine, solution = (
            textwrap.dedent("\n".join(lines)).splitlines()
            for lines in (place.lines, region.solution)
        )
        if mine == solution:
            console.say("   the same", "dim")
            continue
        show(console, mine, solution, len(mine) + len(solution))
    mine, fresh = regions.outside(own), regions.outside(exercise.blank_text)
    if mine != fresh and args.exercise is None:
        console.say()
        console.say("outside of the exercises:", "bold")
        show(console, mine, fresh, 0)
    return 0
