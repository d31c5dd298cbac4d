"""Programs that run as several processes: those that use MPI are started by mpirun, all others as they
are.
"""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Wrapped:
    """What one rank of a program runs in: a debugger, which gets what is typed."""

    command: list[str]
    rank: int


def _taken(words: list[str]) -> int:
    """Takes the number of ranks out of a program's options. LearnError if it makes no sense."""
    count = USUAL
    if COUNT in words:
        at = words.index(COUNT)
        count = (words[at + 1 : at + 2] or [""])[0]
        del words[at : at + 2]
    if not count.isdecimal() or count == "0":
        raise LearnError(f"-n {count}: must be the number of ranks, 1 or more", 2)
    return int(count)


def refuse(options: Iterable[str], rank: int, several: bool) -> None:
    """LearnError if a program with these options has no such rank. @param several  whether it runs as several
    processes
    """
    count = _taken(list(options)) if several else 1
    if not 0 <= rank < count:
        ranks = f"0 to {count - 1}" if count > 1 else "0"
        raise LearnError(f"--rank {rank}: must be {ranks}", 2)


def command(
    program: Path, options: Iterable[str], name: str | None = None, wrapped: Wrapped | None = None
) -> list[str]:
    """The command line of a program. LearnError if it needs mpirun, and there is none.

    @param options  if it runs as several processes, `-n R` among them says how many
    @param name     how the program is called in the command, if not by its path
    @param wrapped  if it runs in another program
    """
    words = list(options)
    called = name or str(program)
    within = wrapped.command if wrapped else []
    if not has(program) or any(word in ALONE for word in words):
        return [*within, called, *words]
    count = _taken(words)
    if not shutil.which("mpirun"):
        raise LearnError(
            f"{program.name} runs as several processes, and there is no mpirun: install openmpi-bin", 3
        )
    plain = [called, *words]
    if not wrapped:
        return [*mpirun(count), *plain]
    first, after = wrapped.rank, count - 1 - wrapped.rank
    begin = mpirun(first or 1)
    begin[1:1] = ["--stdin", str(first)]
    one = [*within, *plain]
    command = [*begin, *plain, ":", COUNT, "1", *one] if first else [*begin, *one]
    return command + ([":", COUNT, str(after), *plain] if after else [])
