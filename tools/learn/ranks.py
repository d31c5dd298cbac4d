"""Programs that run as several processes: those that use MPI are started by mpirun, all others as they are."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from .console import LearnError

COUNT = "-n"  # the option that says how many, as mpirun's
USUAL = "2"
ALONE = ("--list", "--help", "-h")  # nothing is computed


@functools.cache
def _uses_mpi(program: Path, changed_ns: int) -> bool:
    return b"libmpi.so" in program.read_bytes()


def has(program: Path) -> bool:
    """Whether a program runs as several processes. False if it does not exist."""
    try:
        return _uses_mpi(program, program.stat().st_mtime_ns)
    except OSError:
        return False


def mpirun(count: str | int) -> list[str]:
    """What starts so many ranks of a program on this machine, whatever its number of cores."""
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", "--quiet", *root, "--oversubscribe", COUNT, str(count)]


def command(
    program: Path, options: Iterable[str], name: str | None = None
) -> list[str]:
    """The command line of a program. LearnError if it needs mpirun, and there is none.

    @param options  if it runs as several processes, `-n P` among them says how many
    @param name     how the program is called in the command, if not by its path
    """
    words = list(options)
    called = name or str(program)
    if not has(program) or any(word in ALONE for word in words):
        return [called, *words]
    count = USUAL
    if COUNT in words:
        at = words.index(COUNT)
        count = (words[at + 1 : at + 2] or [""])[0]
        del words[at : at + 2]
    if not count.isdecimal() or count == "0":
        raise LearnError(f"-n {count}: must be the number of ranks, 1 or more", 2)
    if not shutil.which("mpirun"):
        raise LearnError(
            f"{program.name} runs as several processes, and there is no mpirun: install openmpi-bin",
            3,
        )
    return [*mpirun(count), called, *words]
