"""./learn profile: bytes as predicted, as counted by the simulator, and as measured by Nsight Compute."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from .. import exercises, machine, packages, project, setup
from ..console import Console, LearnError
from .run import refuse_json

HELP = "compare what Nsight Compute measures with what the simulator counts; without a GPU, show the counts"
SIM = "sim"  # the preset whose simulator counts


def add_own(parser: argparse.ArgumentParser) -> None:
    setup.add_preset(parser)
    setup.add_no_install(parser)
    parser.add_argument("--exercise", action="store_true", help="profile your own kernels, from exercises/")
    parser.add_argument(
        "--large", action="store_true", help="use a problem that fills a GPU; skip the simulator"
    )
    parser.add_argument(
        "--no-simulator",
        action="store_true",
        help="skip the simulator, for problems that would take it minutes",
    )
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="file for everything counted and measured ('-': standard output, instead of the table)",
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("chapter", metavar="NN", help="the chapter: 01")
    add_own(parser)
    setup.add_program_options(parser, "a small problem")


def reason_for_simulator_only(preset: str, why: str) -> str | None:
    """The reason why nothing can be measured here, so that only the simulator runs."""
    if not preset.startswith("cuda"):
        return f"preset {preset}: {why}"
    if not machine.gpus():
        return "nvidia-smi finds no GPU"
    if not machine.cuda_program("ncu"):
        return "ncu is not in PATH; it comes with the CUDA toolkit"
    return None


def main(console: Console, args: argparse.Namespace) -> int:
    """Builds what is missing and runs the chapter's profile.sh."""
    chapter = project.select([args.chapter])[0]
    script_of(chapter)
    target = chapter.executable
    if args.exercise:
        exercise = exercises.select_one(args.chapter)
        exercise.own_copy()  # LearnError if the chapter is not started
        target = exercise.target
    refuse_json(args.json)

    preset, why = machine.choose_preset(args.preset)
    no_gpu = reason_for_simulator_only(preset, why)
    simulator = not (args.no_simulator or args.large)
    if no_gpu and not simulator:
        option = "--large" if args.large else "--no-simulator"
        raise LearnError(f"{option} skips the simulator, and nothing can be measured: {no_gpu}", 3)
    if not args.no_install:
        packages.ensure(console)
    machine.require_toolchain()
    sim = SIM if preset.startswith("cuda") else preset
    if simulator:
        setup.build(console, sim, [target])
    if not no_gpu:
        setup.build(console, preset, [target])
    console.say()

    words = [
        f"--{name.replace('_', '-')}" for name in ("exercise", "large", "no_simulator") if getattr(args, name)
    ]
    words += ["--json", args.json] if args.json else []
    words += ["--simulator-only", no_gpu] if no_gpu else []
    folders = {"FA_BUILD": str(project.build_folder(preset)), "FA_SIM_BUILD": str(project.build_folder(sim))}
    return run_script(chapter, [*words, *args.options], folders)


def script_of(chapter: project.Chapter) -> Path:
    """The chapter's profile.sh. LearnError if it has none."""
    script = chapter.path / "profile.sh"
    if not script.is_file():
        name = project.shown(script)
        raise LearnError(f"there is no {name}: chapter {chapter.number} has no profile", 2)
    return script


def run_script(chapter: project.Chapter, words: list[str], env: dict[str, str]) -> int:
    """Runs chapters/NN_name/profile.sh in this terminal. Returns its exit status."""
    script = script_of(chapter)
    sys.stdout.flush()
    env = {**os.environ, "PYTHON": sys.executable, **env}
    return subprocess.run(["bash", str(script), *words], env=env, check=False).returncode
