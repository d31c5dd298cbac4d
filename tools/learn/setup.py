"""What the commands that build something have in common: options, packages, CMake."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from . import machine, packages, phases
from .console import Console, LearnError


def add_chapters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "chapters", nargs="*", metavar="NN", help="chapters, as in 01 02; default: all"
    )


def add_preset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--preset",
        metavar="NAME",
        help="CMake preset; default: $FA_PRESET, or else cuda if there is nvcc and a GPU, or else sim",
    )


def add_no_install(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-install",
        action="store_true",
        help="do not install missing packages: build with what is there",
    )


def add_program(
    parser: argparse.ArgumentParser, add_own: Callable[[argparse.ArgumentParser], None]
) -> None:
    """A chapter, and the options of its program, between which our own options may be (see own_options)."""
    parser.add_argument("chapter", metavar="NN", help="the chapter: 01")
    add_own(parser)
    rest = parser.add_argument(
        "options",
        nargs=argparse.REMAINDER,
        metavar="OPTION",
        help="options of the chapter's program: --heads 3 --seq-q 1000; default: a small problem",
    )
    rest.required = False  # so that the error message names NN alone


class Options(argparse.ArgumentParser):
    """argparse with one-line errors."""

    def error(self, message: str):
        raise LearnError(f"{message} (see {self.prog} --help)", 2)


def own_options(
    args: argparse.Namespace,
    command: str,
    add_own: Callable[[argparse.ArgumentParser], None],
) -> argparse.Namespace:
    """Takes our own options out of the words after NN; the others are for the program."""
    parser = Options(prog=f"./learn {command}", add_help=False, allow_abbrev=False)
    add_own(parser)
    later, args.options = parser.parse_known_args(args.options)
    for name, value in vars(later).items():
        setattr(args, name, value or getattr(args, name))
    return args


def prepare(
    console: Console,
    args: argparse.Namespace,
    wanted: tuple[packages.Package, ...] = packages.PACKAGES,
) -> str:
    """Makes sure that everything a build needs is there. Returns the preset."""
    preset, _ = machine.choose_preset(args.preset)
    if not args.no_install:
        packages.ensure(console, wanted)
    machine.require_toolchain()
    return preset


def configure(console: Console, preset: str) -> None:
    """Lets CMake configure the build of a preset."""
    env = machine.cuda_environment() | phases.NINJA_ENVIRONMENT
    command = ["cmake", "--preset", preset]
    status, phase = phases.execute(
        console, "configure", command, phases.Phase.activity, env=env
    )
    if status != 0:
        console.say("\n".join(phase.output))
        raise LearnError(f"configuring {preset} failed: CMake says why above", 1)


def build(console: Console, preset: str, targets: list[str]) -> None:
    """Configures, and builds the targets, or everything if none is named."""
    configure(console, preset)
    env = machine.cuda_environment() | phases.NINJA_ENVIRONMENT
    reader = phases.NinjaReader()
    target = ["--target", *targets] if targets else []
    command = ["cmake", "--build", "--preset", preset, *target]
    status, _ = phases.execute(console, "build", command, reader, env=env)
    if status != 0:
        what = reader.failed[0] if reader.failed else preset
        raise LearnError(f"building {what} failed: see the output above", 1)
