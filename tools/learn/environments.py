"""Virtual environments in build/, for packages that the distribution does not have."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from . import phases, project
from .console import Console, LearnError

FIND = "import sys; from importlib.util import find_spec; sys.exit(not all(map(find_spec, sys.argv[1:])))"


def python_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def accepts(python: str | Path, code: str, *words: str) -> bool:
    """Whether a Python exists in which this code ends without an error."""
    try:
        done = subprocess.run(
            [python, "-c", code, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def has_modules(python: str | Path, modules: Sequence[str]) -> bool:
    """Whether a Python exists and finds these modules."""
    return accepts(python, FIND, *modules)


def as_typed(command: list[str]) -> list[str]:
    """A command as one would type it at the root of the tree."""
    root = str(project.ROOT)
    return [project.shown(Path(w)) if w.startswith(root) else w for w in command]


def make(console: Console, environment: Path, requirements: list[str], problem: str) -> None:
    """Makes a virtual environment and installs what pip understands. LearnError with the problem if that
    fails.
    """
    pip = [str(python_of(environment)), "-m", "pip", "install", "--quiet"]
    steps = {
        "environment": [sys.executable, "-m", "venv", str(environment)],
        "packages": [*pip, *requirements],
    }
    for title, command in steps.items():
        status, phase = phases.execute(
            console, title, command, phases.Phase.activity, shown=as_typed(command)
        )
        if status != 0:
            for line in phase.output[-15:]:
                console.say(line)
            raise LearnError(problem, 3)
