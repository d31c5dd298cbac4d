"""The command line of ./learn."""

from __future__ import annotations

import argparse
import difflib
import os
import signal
import sys
from collections.abc import Callable

from .commands import (
    bench,
    check,
    debug,
    diff,
    docs,
    doctor,
    hint,
    look,
    notebooks,
    overview,
    profile,
    reset,
    run,
    sim,
    solution,
    start,
    test,
    train,
    try_,
    watch,
)
from .console import Console, LearnError

COMMANDS = {
    "run": run,
    "test": test,
    "start": start,
    "check": check,
    "try": try_,
    "hint": hint,
    "look": look,
    "watch": watch,
    "sim": sim,
    "diff": diff,
    "reset": reset,
    "solution": solution,
    "docs": docs,
    "debug": debug,
    "profile": profile,
    "bench": bench,
    "train": train,
    "notebooks": notebooks,
    "doctor": doctor,
}


class Parser(argparse.ArgumentParser):
    """argparse with one-line errors."""

    def __init__(self, **settings):
        width = Console().width

        def formatter(prog: str) -> argparse.HelpFormatter:
            return argparse.HelpFormatter(prog, max_help_position=16, width=width)

        super().__init__(formatter_class=formatter, allow_abbrev=False, **settings)

    def error(self, message: str):
        raise LearnError(f"{message} (see {self.prog} --help)", 2)


def parse(words: list[str]) -> argparse.Namespace:
    """Parses the command line. LearnError if it makes no sense."""
    if words and not words[0].startswith("-") and words[0] not in COMMANDS:
        close = difflib.get_close_matches(words[0], COMMANDS, n=1)
        every = ", ".join(COMMANDS)
        hint = f"did you mean {close[0]}?" if close else f"the commands are {every}"
        raise LearnError(f"{words[0]} is not a command: {hint}", 2)
    if words and words[0] == "sim":  # it has a command line of its own, with the options of nvcc
        return argparse.Namespace(main=sim.main, words=words[1:], json=None)
    parser = Parser(
        prog="./learn", description="Without a command: a map of the chapters, and what to do next."
    )
    parser.set_defaults(main=overview.main, json=None)
    overview.add_options(parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    subs = {}
    for name, module in COMMANDS.items():
        sub = commands.add_parser(name, help=module.HELP, description=module.HELP)
        sub.set_defaults(main=module.main)
        module.add_options(sub)
        subs[name] = sub
    args, unknown = parser.parse_known_args(words)
    add_own = getattr(COMMANDS.get(words[0]) if words else None, "add_own", None)
    if unknown:
        if words[0] in COMMANDS:
            parser.prog += f" {words[0]}"
        what = f"unrecognized arguments: {' '.join(unknown)}"
        if add_own:
            what = f"{unknown[0]} is no option of this command; those of a chapter's program come after NN"
        parser.error(what)
    if args.map_json and args.main is not overview.main:
        raise LearnError("--json goes after the command, if that command takes it", 2)
    if add_own:
        take_own(args, words[0], add_own)
        if {"-h", "--help"} & set(args.options):
            subs[words[0]].print_help()
            subs[words[0]].exit()
    args.json = args.json or args.map_json
    return args


def take_own(
    args: argparse.Namespace, command: str, add_own: Callable[[argparse.ArgumentParser], None]
) -> None:
    """Takes the options of a command out of the words after NN, where they may stand among those of a
    program.
    """
    parser = Parser(prog=f"./learn {command}", add_help=False)
    add_own(parser)
    own, args.options = parser.parse_known_args(args.options)
    for name, value in vars(own).items():
        if not (value is None or value is False or value == []):
            setattr(args, name, value)


def end_by_signal(signum: int, frame: object) -> None:
    sys.exit(128 + signum)


def main(words: list[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # a terminal may know less than UTF-8
    for signum in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, end_by_signal)
    try:
        try:
            args = parse(words)
            console = Console(sys.stderr if args.json == "-" else sys.stdout)
            return args.main(console, args)
        finally:
            sys.stdout.flush()
    except LearnError as error:
        print(f"learn: {error}", file=sys.stderr)
        return error.status
    except KeyboardInterrupt:
        print("learn: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader has gone (./learn | head), so nobody would see an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
