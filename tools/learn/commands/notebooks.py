"""./learn notebooks: runs the notebooks from scratch and writes build/notebooks/NN_name.html."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from .. import environments, machine, packages, phases, project, setup
from ..console import Console, LearnError

HELP = "run the notebooks and write each with its results to build/notebooks"
FOLDER = project.ROOT / "notebooks"
REQUIREMENTS = FOLDER / "requirements.txt"
PAGES = project.ROOT / "build" / "notebooks"
ENVIRONMENT = project.ROOT / "build" / "notebooks-venv"
SYSTEM_PYTHON = "/usr/bin/python3"
# The matrices are too small to gain from several threads.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("notebooks", nargs="*", metavar="NN", help="notebooks, as in 01 02; default: all")
    parser.add_argument(
        "--preset",
        metavar="NAME",
        help="CMake preset of a simulator, which counts for them; default: $FA_PRESET if it is one, or else sim",  # noqa: E501
    )
    setup.add_no_install(parser)


# --- selection ------------------------------------------------------------------------------------


def select(words: list[str]) -> list[Path]:
    """The named notebooks ("2", "02" or the file), or all of them if none is named."""
    every = sorted(FOLDER.glob("[0-9][0-9]_*.ipynb"))
    if not every:
        raise LearnError("notebooks/ holds no notebook: this checkout is not complete", 2)
    wanted = []
    for word in words:
        name = Path(word).name.removesuffix(".ipynb")
        numbers = {path: path.name[:2] for path in every}
        same = [p for p in every if name in (p.stem, numbers[p], numbers[p].lstrip("0"))]
        if not same:
            known = ", ".join(numbers.values())
            raise LearnError(f"there is no notebook {word}: the notebooks are {known}", 2)
        wanted += same
    return [path for path in every if path in wanted or not words]


def programs(notebooks: list[Path]) -> list[str]:
    """The targets that the notebooks run, according to their metadata. A chapter without a lesson has no
    target yet.
    """
    numbers: set[str] = set()
    for path in notebooks:
        try:
            metadata = json.loads(path.read_text(encoding="utf-8"))["metadata"]
        except (OSError, ValueError, KeyError) as error:
            name = project.shown(path)
            raise LearnError(f"{name} is not a notebook: {error}", 2) from error
        numbers.update(metadata.get("chapters", []))
    return [c.executable for c in project.chapters() if c.number in numbers]


def preset_of_simulator(asked: str | None) -> str:
    default = os.environ.get("FA_PRESET", "")
    wanted = asked or (default if default.startswith("sim") else "sim")
    preset, _ = machine.choose_preset(wanted)
    if not preset.startswith("sim"):
        why = "the notebooks show what the simulator counts"
        raise LearnError(f"--preset {preset}: {why}, so it must be sim or sim-...", 2)
    return preset


# --- the Python that runs them --------------------------------------------------------------------


def has_packages(python: str | Path) -> bool:
    modules = [package.module for package in packages.NOTEBOOK_PACKAGES]
    return environments.has_modules(python, modules)


def find_python() -> str | None:
    """A Python that has what notebooks need: that of their own environment, this one, or the system's."""
    own = str(environments.python_of(ENVIRONMENT))
    return next(filter(has_packages, (own, sys.executable, SYSTEM_PYTHON)), None)


def require_python(console: Console, may_install: bool) -> str:
    """A Python for the notebooks. Installs what it lacks: the distribution's packages, or else an
    environment.
    """
    python = find_python()
    if python:
        return python
    if not may_install:
        name = project.shown(REQUIREMENTS)
        raise LearnError(f"no Python here has the packages of {name}", 3)
    if packages.can_install():
        packages.ensure(console, packages.NOTEBOOK_PACKAGES)
    else:
        name = project.shown(REQUIREMENTS)
        problem = f"no Python here has the packages of {name}, and they could not be installed: see above"
        environments.make(console, ENVIRONMENT, ["-r", str(REQUIREMENTS)], problem)
    python = find_python()
    if not python:
        raise LearnError("the packages are installed, but no Python finds them", 3)
    return python


# --- the run --------------------------------------------------------------------------------------


class Reader:
    """Reads the lines of execute.py: where it is, and how each notebook ended."""

    def __init__(self, width: int):
        self.width = width  # of the longest name
        self.done: list[str] = []
        self.failed: list[str] = []
        self.said: list[str] = []  # lines that are no events

    def __call__(self, phase: phases.Phase, line: str) -> None:
        try:
            event = json.loads(line)
            name = event["notebook"]
        except (ValueError, TypeError, KeyError):
            self.said.append(line)
            return
        if "seconds" not in event:
            cell = f"cell {event['cell']} of {event['of']}"
            phase.console.update(f"   {name}  {cell}  {phase.elapsed}")
            return
        self.done.append(name)
        spent = f"{event['seconds']:6.1f} s"
        if "error" in event:
            where = f"cell {event['cell']} ({event['id']})"
            text = f"{where}: {event['error']}"
            self.failed.append(name)
            mark = phase.console.paint("failed", "red")
            phase.show(f"   {name:{self.width}}{spent}  {mark}  {text}")
        else:
            page = project.shown(Path(event["html"]))
            phase.show(f"   {name:{self.width}}{spent}  {page}")


def main(console: Console, args: argparse.Namespace) -> int:
    """Sets up, builds the programs that the notebooks need, and runs the notebooks."""
    notebooks = select(args.notebooks)
    args.preset = preset_of_simulator(args.preset)
    targets = programs(notebooks)
    if targets:
        setup.prepare(console, args)
    python = require_python(console, not args.no_install)
    if targets:
        setup.build(console, args.preset, targets)

    command = [python, "-m", "tools.notebooks.execute", str(PAGES), *map(str, notebooks)]
    reader = Reader(max(len(path.stem) for path in notebooks))
    status, _ = phases.execute(
        console,
        "notebooks",
        command,
        reader,
        shown=environments.as_typed(command),
        env={"FA_PRESET": args.preset, **ONE_THREAD},
    )
    if reader.failed:
        failed = ", ".join(reader.failed)
        raise LearnError(f"{len(reader.failed)} of {len(notebooks)} failed: {failed}", 1)
    if status != 0 or len(reader.done) < len(notebooks):
        console.say("\n".join(reader.said[-15:]))
        raise LearnError(f"the notebooks ended with status {status}: see the last lines above", 1)
    return 0
