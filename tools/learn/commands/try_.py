"""./learn try: runs the learner's kernels on any input, and shows what they print."""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .. import checking, diagnosis, exercises, phases, ranks, regions, setup, trials
from ..console import Console, LearnError
from . import check
from .run import INPUTS, refuse_json, write_json
from .start import add_chapter

HELP = "run your kernels on an input of your own, and see what they print"
SHOWN_LINES = 200  # of what the kernels print
SHOWN_COLUMNS = 500  # of each of them
MOST_CHARACTERS = 50_000_000  # after which they are taken to print forever


def add_own(parser: argparse.ArgumentParser) -> None:
    setup.add_preset(parser)
    setup.add_no_install(parser)
    parser.add_argument("--json", metavar="FILE", help="file for the result ('-': standard output)")


def add_options(parser: argparse.ArgumentParser) -> None:
    add_chapter(parser)
    add_own(parser)
    setup.add_program_options(parser, "all variants on a small input")


@dataclass
class Reader:
    """Shows the output of a chapter's program: the first lines that the kernels print, and all of the
    table.
    """

    table: str  # how the table begins, which comes last
    begin: Callable[[], None]  # called before the first line is shown
    printed: int = 0  # lines of the kernels
    characters: int = 0
    in_table: bool = False

    def begins(self) -> None:
        """The program has accepted its options, because it computes."""
        self.begin()
        self.begin = lambda: None

    def __call__(self, phase: phases.Phase, line: str) -> None:
        before, begins, _ = line.partition(self.table)
        if begins and not self.in_table:
            if before:  # a kernel has not ended its line
                self._kernel(phase, before)
            self.begins()
            self.end(phase.console)
            phase.show(line.removeprefix(before))
        elif self.in_table:  # reports of defects may be wider than a table
            phase.console.wrap(line)
        elif not line.startswith("error: "):
            self._kernel(phase, line)

    def _kernel(self, phase: phases.Phase, line: str) -> None:
        self.begins()
        self.printed += 1
        self.characters += len(line) + 1
        if self.printed <= SHOWN_LINES:
            phase.show(check.cut(line, SHOWN_COLUMNS))
        if self.characters > MOST_CHARACTERS:
            self.end(phase.console)
            raise LearnError(
                f"stopped after {self.printed} lines: is there a loop that prints and never ends?", 1
            )

    def end(self, console: Console) -> None:
        """Says how many lines were left out; what follows is the table."""
        self.in_table = True
        if (more := self.printed - SHOWN_LINES) > 0:
            console.say(f"and {check.lines_in_words(more)}", "dim")
        if self.printed:
            console.say()


def run(
    console: Console, program: Path, chapter: str, options: list[str], begin: Callable[[], None]
) -> tuple[int, dict | None]:
    """Runs the program, its blocks in order. Returns its exit status and its JSON, if any. LearnError if it
    cannot run.

    @param begin  called before the first line of its output is shown
    """
    chosen = any(word.split("=")[0] == "--variant" for word in options)
    words = [*([] if chosen else ["--variant", "all"]), *options]
    reader = Reader(f"{chapter}: ", begin)
    with tempfile.TemporaryDirectory(prefix="learn-") as name:
        result = Path(name) / "result.json"
        status, phase = phases.execute(
            console,
            "try",
            ranks.command(program, [*words, "--json", str(result)]),
            reader,
            cwd=Path.cwd(),  # options may name files
            env=trials.IN_ORDER,
            quiet=True,
        )
        data = json.loads(result.read_text()) if result.exists() else None
    if not reader.in_table:
        reader.end(console)
    if status < 0:
        reader.begins()
        ended = signal.Signals(-status).name
        why = diagnosis.SIGNALS.get(ended)
        because = f": {why}" if why else ""
        raise LearnError(f"{program.name} was ended by {ended}{because}", 1)
    if status > 1 or (status and not data):
        raise LearnError(phases.refusal(phase.output), status)
    return status, data


def say_blanks(console: Console, exercise: exercises.Exercise) -> None:
    """Says which exercises are blank or have their mistake, so that their numbers are not taken for the
    learner's.
    """
    try:
        untouched = [exercise.region(number) for number in exercise.blanks()]
    except regions.RegionError:
        return
    parts = []
    for still in dict.fromkeys(region.still for region in untouched):
        *others, last = (str(region.number) for region in untouched if region.still == still)
        which = f"exercises {', '.join(others)} and {last} are" if others else f"exercise {last} is"
        parts.append(f"{which} {still}")
    if parts:
        them = "it" if len(untouched) == 1 else "them"
        console.wrap(f"{', '.join(parts)}: what needs {them} is wrong", "note:  ", style="yellow")


def main(console: Console, args: argparse.Namespace) -> int:
    exercise = exercises.select_one(args.chapter)
    exercise.own_copy()  # LearnError if the chapter is not started
    refuse_json(args.json)
    preset = setup.prepare(console, args, chapters=[exercise.chapter])
    build = check.configured(console, preset)
    failed, warnings = checking.build_own(console, build, exercise)
    if failed:
        check.show_failure(console, exercise, failed)
        return 1
    program = build / "bin" / exercise.target

    def begin() -> None:
        check.show_warnings(console, warnings)
        say_blanks(console, exercise)

    has_input = any(word.split("=")[0] in INPUTS for word in args.options)
    usual = [] if has_input else shlex.split(exercise.sheet.try_input)
    options = [*usual, *args.options]
    status, data = run(console, program, exercise.chapter.name, options, begin)
    if args.json and data:
        write_json(args.json, data)
    return status
