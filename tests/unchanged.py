"""Hashes of what tests depend on: files, the installed packages and compilers, the variables FA_* and
GPUSIM_*.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOT_OURS = {"build", "exercises", "__pycache__", "node_modules"}  # and what begins with a dot, .ci aside
PROGRAMS = ("c++", "g++", "clang++", "cmake", "ninja", "python3", "doxygen", "chromium", "git")
PACKAGES = Path("/var/lib/dpkg/status")


def files_of(path: Path) -> Iterable[Path]:
    """The files that a path denotes, always in the same order."""
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        if Path(folder) == ROOT:
            folders[:] = [n for n in folders if n not in NOT_OURS and not n.startswith(".")]
            folders += [".ci"]
        folders[:] = sorted(n for n in folders if n != "__pycache__")
        yield from (Path(folder) / name for name in sorted(names))


def contents(paths: Iterable[Path]) -> Iterable[bytes]:
    for path in paths:
        for file in files_of(path):
            yield str(file).encode()
            try:
                with file.open("rb") as stream:
                    yield hashlib.file_digest(stream, "sha256").digest()
            except OSError as error:
                yield f"cannot be read: {error.strerror}".encode()


def environment() -> Iterable[bytes]:
    """What a test depends on apart from files of the tree."""
    ours = ("FA_", "GPUSIM_")
    for name in sorted(os.environ.keys() - {"FA_TEST_AGAIN"}):
        if name in ("PATH", "LANG", "LC_ALL") or name.startswith(ours):
            yield f"{name}={os.environ[name]}".encode()
    yield from installed(PACKAGES)


@functools.cache
def installed(packages: Path) -> tuple[bytes, ...]:
    """Python, its packages, those of the distribution, and the programs that tests call."""
    found = [f"{sys.version} {platform.platform()}"]
    found += sorted(f"{d.name} {d.version}" for d in importlib.metadata.distributions())
    for name in PROGRAMS:
        if path := shutil.which(name):
            state = Path(path).resolve().stat()
            found.append(f"{path} {state.st_size} {state.st_mtime_ns}")
    return (*map(str.encode, found), *contents([packages]))


def digest_of(parts: Iterable[bytes]) -> str:
    """A hash of the parts and their lengths."""
    total = hashlib.sha256()
    for part in parts:
        total.update(b"%d:" % len(part))
        total.update(part)
    return total.hexdigest()
