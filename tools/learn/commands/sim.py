"""./learn sim: runs any CUDA program on the simulator."""

from __future__ import annotations

import argparse
import sys

from .. import machine, packages, phases, project
from ..console import Console, LearnError

HELP = "run a CUDA program of your own on the simulator: what it moves, and what is wrong with it"
FOLDER = project.ROOT / "build" / "sim-programs"
TOOLCHAIN = project.build_folder("sim") / "common" / "gpusim" / "toolchain.json"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="FILE.cu ...")


def build_simulator(console: Console) -> None:
    """Builds the simulator if it is not up to date. Says nothing if that is quick."""
    if not TOOLCHAIN.exists():
        packages.ensure(console, packages.PACKAGES)
        machine.require_toolchain()
        from .. import setup

        setup.configure(console, "sim")
    command = ["cmake", "--build", "--preset", "sim", "--target", "gpusim_toolchain"]
    reader = phases.NinjaReader()
    status, _ = phases.execute(console, "build", command, reader, env=phases.NINJA_ENVIRONMENT, quiet=True)
    if status != 0:
        raise LearnError("building the simulator failed: see the output above", 1)


def main(console: Console, args: argparse.Namespace) -> int:
    """Builds the simulator, and leaves the rest to its own command line."""
    sys.path.insert(0, str(project.ROOT / "common" / "gpusim"))
    from gpusim import cli

    if not {"-h", "--help"} & set(args.words[: [*args.words, "--"].index("--")]) and args.words:
        build_simulator(console)
    return cli.main(args.words, command="./learn sim", tools=TOOLCHAIN, cache=FOLDER)
