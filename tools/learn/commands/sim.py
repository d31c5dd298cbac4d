"""./learn sim: runs any CUDA program on the simulator."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ...watch import page, recording
from .. import machine, packages, phases, project, setup
from ..console import Console, LearnError
from . import watch

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
        setup.configure(console, "sim")
    command = ["cmake", "--build", "--preset", "sim", "--target", "gpusim_toolchain"]
    reader = phases.NinjaReader()
    status, _ = phases.execute(console, "build", command, reader, env=phases.NINJA_ENVIRONMENT, quiet=True)
    if status != 0:
        raise LearnError("building the simulator failed: see the output above", 1)


def main(console: Console, args: argparse.Namespace) -> int:
    """Leaves all to the simulator's own command line, which builds the simulator when it is needed."""
    sys.path.insert(0, str(project.ROOT / "common" / "gpusim"))
    from gpusim import cli

    def tools() -> Path:
        build_simulator(console)
        return TOOLCHAIN

    def write_page(record: str, source: Path) -> None:
        path = watch.FOLDER / f"{source.stem}.html"
        try:
            page.write_page(Path(record), path, title=source.name, sources=source.resolve().parent)
        except recording.WatchError as error:
            raise LearnError(str(error), 1) from error
        console.say(f"page:  {project.shown(path)}", "bold")
        watch.open_in_browser(console, path)

    return cli.main(args.words, command="./learn sim", tools=tools, cache=FOLDER, watch=write_page)
