"""./learn debug: a chapter's program in gdb, which stops at each defect of its kernels."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from pathlib import Path

from .. import exercises, machine, packages, project, ranks, regions, setup, trials
from ..console import Console, LearnError
from .profile import SIM

HELP = "run a chapter on the simulator in gdb, which stops at each defect in the kernel's line"
COMMANDS = project.ROOT / "common" / "gpusim" / "gdb.py"


def add_own(parser: argparse.ArgumentParser) -> None:
    setup.add_no_install(parser)
    parser.add_argument("--exercise", action="store_true", help="debug your own kernels, from exercises/")
    parser.add_argument(
        "--answer",
        type=int,
        metavar="N",
        help="debug your answer to exercise N, with the solutions of all others, as check tests it",
    )
    parser.add_argument(
        "--break",
        action="append",
        default=[],
        dest="places",
        metavar="PLACE",
        help="stop there too: --break 'kernel.cuh:48 if threadIdx.x == 5 && blockIdx.x == 3'",
    )
    parser.add_argument(
        "--rank",
        type=int,
        default=0,
        metavar="R",
        help="of a chapter with several processes: the rank that runs in gdb; default: 0",
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("chapter", metavar="NN", help="the chapter: 01")
    add_own(parser)
    setup.add_program_options(parser, "a small problem")


def command_of(program: Path, places: list[str], options: list[str], rank: int = 0) -> list[str]:
    """The command that runs a program in gdb, to be started in the current folder.

    @param rank  the one that gdb runs, of a program that runs as several processes
    """
    stops = [word for place in places for word in ("-ex", f"break {place}")]
    script, executable = (os.path.relpath(path) for path in (COMMANDS, program))
    gdb = ["gdb", "-q", "-x", script, *stops, "-ex", "run", "--args"]
    return ranks.command(program, options, executable, ranks.Wrapped(gdb, rank))


def build_answer(
    exercise: exercises.Exercise,
    number: int,
    options: list[str],
    purpose: str = "debug",
    variant: str | None = None,
) -> Path:
    """Builds the program that `check` tests one answer with, for an input in the options or else for all of
    its inputs.

    The chapter's own program must have been built.

    @param purpose  "debug", or a word for another folder whose program gdb does not know the local
        variables of
    @param variant  the only one to build; None: all of them
    """
    copy, shown = exercise.own_copy(), project.shown(exercise.folder)
    alone = regions.alone(copy, exercise.regions, shown, number)
    texts = regions.for_debugger(alone, exercise.folder)
    build = project.build_folder(SIM)
    folder = build / purpose / f"{exercise.chapter.name}_{number}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    bench = trials.Workbench(build, exercise.chapter, debug=purpose == "debug")
    given = shlex.join(trials.without_variant(shlex.join(options)))
    inputs = [
        line for line in exercise.inputs if shlex.join(trials.without_variant(line)) in given
    ] or exercise.inputs
    try:
        return bench.program(texts, folder, inputs, variant)
    except trials.CompileError as error:
        said = f"your answer to exercise {number} does not compile: ./learn check {exercise.number} says why"
        raise LearnError(said, 1) from error


def variant_in(options: list[str]) -> str | None:
    """The only variant that a program's options name; None if they name several or none."""
    named = trials.variants_in(shlex.join(options))
    return named[0] if len(named) == 1 and named != ["all"] else None


def main(console: Console, args: argparse.Namespace) -> int:
    """Builds the program with local variables, and becomes gdb."""
    chapter = project.select([args.chapter])[0]
    target = chapter.executable
    if args.exercise or args.answer is not None:
        exercise = exercises.select_one(args.chapter)
        exercise.own_copy()  # LearnError if the chapter is not started
        target = exercise.target
        if args.answer is not None:
            exercise.region(args.answer)  # LearnError if there is none
    ranks.refuse(args.options, args.rank, chapter.has_ranks)
    if not args.no_install:
        packages.ensure(console, (*packages.PACKAGES, packages.GDB))
    if not shutil.which("gdb"):
        raise LearnError("gdb is not in PATH: ./learn debug needs it", 3)
    machine.require_toolchain()
    if args.answer is not None:
        setup.build(console, SIM, [chapter.executable])
        program = build_answer(exercise, args.answer, args.options, variant=variant_in(args.options))
    else:
        setup.build(console, SIM, [f"{target}_debug"])
        program = project.build_folder(SIM) / "bin" / f"{target}_debug"
    command = command_of(program, args.places, args.options, args.rank)
    console.say(shlex.join(command), "bold")
    sys.stdout.flush()
    os.execvp(command[0], command)
