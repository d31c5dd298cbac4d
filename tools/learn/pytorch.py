"""A Python that has PyTorch, for the package in python/, and the kernels that the package runs."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

from . import environments, packages, phases, project
from .console import Console, LearnError

FOLDER = project.ROOT / "python"
ENVIRONMENT = project.ROOT / "build" / "pytorch-venv"
OLDEST = "2.6"
FIND = """
import sys
from importlib.metadata import version
have, oldest = (tuple(map(int, text.split(".")[:2])) for text in (version("torch"), sys.argv[1]))
sys.exit(have < oldest)
"""
VENV = packages.Package("python3-venv", "virtual environments", module="ensurepip")


def find_python() -> str | None:
    """A Python with a PyTorch that is new enough: that of its own environment, this one, or the first on
    PATH.
    """
    own = str(environments.python_of(ENVIRONMENT))
    candidates = (own, sys.executable, shutil.which("python3"))
    for python in filter(None, candidates):
        if environments.accepts(python, FIND, OLDEST):
            return python
    return None


def require_python(console: Console, may_install: bool) -> str:
    """A Python with PyTorch. Installs PyTorch into an environment in build/ if there is none."""
    if python := find_python():
        return python
    if not may_install:
        raise LearnError(f"no Python here has PyTorch {OLDEST} or newer: pip install torch", 3)
    if not importlib.util.find_spec("ensurepip"):
        packages.ensure(console, (VENV,))
    where = project.shown(ENVIRONMENT)
    console.say(f"PyTorch with its CUDA libraries needs 5.5 GB in {where}; it takes a few minutes")
    requirements = ["--editable", f"{FOLDER}[pictures,models]"]
    problem = "PyTorch could not be installed: see above"
    environments.make(console, ENVIRONMENT, requirements, problem)
    python = find_python()
    if not python:
        raise LearnError("PyTorch is installed, but no Python finds it", 3)
    return python


def programs() -> list[str]:
    """The programs of the chapters about attention on one GPU."""
    first = project.FIRST_ATTENTION_CHAPTER
    return [c.executable for c in project.chapters() if int(c.number) >= first and not c.has_ranks]


def build_native(console: Console, python: str, build: Path) -> None:
    """Builds the operators in C++ for this PyTorch."""
    command = [python, "-m", "fa_tutorial.build_native"]
    status, phase = phases.execute(
        console,
        "build",
        command,
        lambda phase, line: None,
        shown=environments.as_typed(command),
        cwd=FOLDER,
        env=environment(build),
    )
    if status != 0:
        problem = phase.output[-1] if phase.output else "no message"
        raise LearnError(problem.removeprefix("fa_tutorial: "), 1)


def environment(build: Path) -> dict[str, str]:
    """The variables with which the package finds its kernels."""
    return {
        "FA_TUTORIAL_BUILD": str(build),
        "OMP_NUM_THREADS": "1",  # the tensors on the CPU are small
        "PYTHONDONTWRITEBYTECODE": "1",
    }
