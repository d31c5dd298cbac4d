"""./learn solution: the chapter's answer to an exercise."""

from __future__ import annotations

import argparse
import textwrap

from .. import exercises, project
from ..console import Console
from .start import add_chapter, exercise_number

HELP = "show the chapter's solution of an exercise, or of all of them"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_chapter(parser)
    parser.add_argument("exercise", nargs="?", type=exercise_number, metavar="K", help="default: all")


def main(console: Console, args: argparse.Namespace) -> int:
    exercise = exercises.select_one(args.chapter)
    chosen = exercise.regions if args.exercise is None else [exercise.region(args.exercise)]
    for region in chosen:
        console.wrap(region.task, f"exercise {region.number}: ", style="bold")
        console.say(textwrap.indent(textwrap.dedent("\n".join(region.solution)), "   "))
        console.say(f"   {project.shown(exercise.source(region))}:{region.begin + 1}", "dim")
    return 0
