"""What the commands that build something have in common: options, packages, CMake."""

from __future__ import annotations

import argparse
import os
import re

from . import machine, packages, phases, project
from .console import Console, LearnError


def add_chapters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("chapters", nargs="*", metavar="NN", help="chapters, as in 01 02; default: all")


def add_preset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--preset",
        metavar="NAME",
        help="CMake preset; default: $FA_PRESET, or else cuda if there is nvcc and a GPU, or else sim",
    )


def add_no_install(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-install", action="store_true", help="do not install missing packages: build with what is there"
    )


def add_program_options(parser: argparse.ArgumentParser, default: str) -> None:
    """Adds the words after NN, for the chapter's program. Those that are ours are taken out again by
    cli.parse().
    """
    rest = parser.add_argument(
        "options",
        nargs=argparse.REMAINDER,
        metavar="OPTION",
        help=f"options of the chapter's program: --rows 3 --cols 5; default: {default}. "
        "build/sim/bin/ch01_safe_softmax --help lists those of chapter 01",
    )
    rest.required = False  # so that the error message names NN alone


def why_too_few_gpus(chapters: list[project.Chapter], ranks: int) -> str | None:
    """Why these chapters, of which each rank needs a GPU, cannot run on this machine's GPUs; None if one of
    them can.
    """
    gpus = len(machine.gpus())
    if not chapters or gpus >= ranks or not all(c.has_ranks for c in chapters):
        return None
    numbers = ", ".join(chapter.number for chapter in chapters)
    return f"{numbers}: needs {ranks} GPUs, this machine has {gpus}: runs on the simulator"


def why_on_simulator(chapters: list[project.Chapter], ranks: int = 2) -> str | None:
    """Why none of these chapters can run on this machine's GPU; None if one can.

    @param ranks  how many GPUs a chapter with several processes needs
    """
    if why := why_too_few_gpus(chapters, ranks):
        return why
    needed = {chapter.needed_capability for chapter in chapters}
    here = machine.compute_capability() if needed and None not in needed else None
    if here is None or here in needed:
        return None
    numbers = ", ".join(chapter.number for chapter in chapters)
    return f"{numbers}: needs compute capability {max(needed)} exactly, this GPU has {here}: runs on the simulator"  # noqa: E501


def prepare(
    console: Console,
    args: argparse.Namespace,
    wanted: tuple[packages.Package, ...] = packages.PACKAGES,
    chapters: list[project.Chapter] | None = None,
    ranks: int = 2,
) -> str:
    """Makes sure that everything a build needs is there. Returns the preset.

    @param chapters  unless the user has chosen a preset, it is sim if none of them can run on this machine's
        GPU
    @param ranks     how many GPUs a chapter with several processes needs
    """
    preset, _ = machine.choose_preset(args.preset)
    chosen = args.preset or os.environ.get("FA_PRESET")
    if preset == "cuda" and not chosen and (why := why_on_simulator(chapters or [], ranks)):
        console.say(why)
        preset = "sim"
    if not args.no_install:
        packages.ensure(console, wanted)
    machine.require_toolchain()
    return preset


# What CMake says of a chapter that needs something that is not installed.
LEFT_OUT = re.compile(r"-- ((\d\d_\w+) is left out: .*)")


def configure(console: Console, preset: str) -> dict[str, str]:
    """Lets CMake configure the build of a preset. Returns the folders of chapters that cannot be built, and
    why.
    """
    env = machine.cuda_environment() | phases.NINJA_ENVIRONMENT
    command = ["cmake", "--preset", preset]
    status, phase = phases.execute(console, "configure", command, phases.Phase.activity, env=env)
    if status != 0:
        console.say("\n".join(phase.output))
        raise LearnError(f"configuring {preset} failed: CMake says why above", 1)
    return {said[2]: said[1] for said in map(LEFT_OUT.match, phase.output) if said}


def why_left_out(left_out: dict[str, str], target: str) -> str | None:
    """Why a target's chapter cannot be built, or None if it can. @param left_out  from configure()"""
    return next((line for folder, line in left_out.items() if target.startswith(f"ch{folder}")), None)


def build(console: Console, preset: str, targets: list[str]) -> list[str]:
    """Configures, and builds the targets, or everything if none is named.

    Returns the targets that are there: those of chapters that cannot be built are left out, with a line for
    each. LearnError if all are.
    """
    left_out = configure(console, preset)
    lines = {target: line for target in targets if (line := why_left_out(left_out, target))}
    for line in lines.values() if targets else left_out.values():
        console.say(line)
    if targets and len(lines) == len(targets):
        raise LearnError("nothing is left to build: see above", 3)
    targets = [target for target in targets if target not in lines]
    env = machine.cuda_environment() | phases.NINJA_ENVIRONMENT
    reader = phases.NinjaReader()
    target = ["--target", *targets] if targets else []
    command = ["cmake", "--build", "--preset", preset, *target]
    status, _ = phases.execute(console, "build", command, reader, env=env)
    if status != 0:
        what = reader.failed[0] if reader.failed else preset
        raise LearnError(f"building {what} failed: see the output above", 1)
    return targets
