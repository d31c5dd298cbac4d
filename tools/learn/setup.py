"""What the commands that build something have in common: options, packages, CMake."""

from __future__ import annotations

import argparse

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


def add_program_options(parser: argparse.ArgumentParser, default: str) -> None:
    """Adds the words after NN, for the chapter's program. Those that are ours are taken out again by cli.parse()."""
    rest = parser.add_argument(
        "options",
        nargs=argparse.REMAINDER,
        metavar="OPTION",
        help=f"options of the chapter's program: --rows 3 --cols 5; default: {default}; --help after NN lists them",
    )
    rest.required = False  # so that the error message names NN alone


def asks_for_help(options: list[str]) -> bool:
    """Whether the options are a request for the help of the chapter's program."""
    return bool({"-h", "--help"} & set(options))


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
