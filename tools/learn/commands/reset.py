"""./learn reset: back to the blanks."""

from __future__ import annotations

import argparse

from .. import exercises
from ..console import Console
from .start import add_chapter, back_up, write_blanks

HELP = "go back to the blanks; what you wrote is kept as kernel.cuh.1"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_chapter(parser)


def main(console: Console, args: argparse.Namespace) -> int:
    exercise = exercises.select_one(args.chapter)
    exercise.require_started()
    back_up(console, exercise)
    exercise.hints_file.unlink(missing_ok=True)
    write_blanks(console, exercise)
    return 0
