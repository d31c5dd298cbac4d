"""Runs a test, unless it has already passed with exactly the same inputs.

    python3 -m tests.unchanged STAMP [--on PATH]... [--makes PATH]... -- COMMAND...
    python3 -m tests.unchanged STATE [--on PATH]... --state

STAMP: the file that remembers. It is written if COMMAND ends with status 0, and contains a hash of everything that the
test depends on: COMMAND; the contents of each PATH, which is a file, a folder with everything below it, or "." for the tree
without what git ignores; the contents of what the test makes; the build's options; the environment variables FA_* and
GPUSIM_*; the installed packages and the compilers. FA_TEST_AGAIN=1 always runs the test.

With --state, no test runs: the hash is written to the file STATE, for case.sh.

Exit status: COMMAND's.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOT_OURS = {
    "build",
    "exercises",
    "__pycache__",
    "node_modules",
}  # and what begins with a dot, .ci aside
PROGRAMS = (
    "c++",
    "g++",
    "clang++",
    "cmake",
    "ninja",
    "python3",
    "doxygen",
    "chromium",
    "git",
)
PACKAGES = Path("/var/lib/dpkg/status")


def files_of(path: Path) -> Iterable[Path]:
    """The files that a path denotes, always in the same order."""
    if not path.is_dir():
        yield path
        return
    for folder, folders, names in os.walk(path):
        if Path(folder) == ROOT:
            folders[:] = [
                n for n in folders if n not in NOT_OURS and not n.startswith(".")
            ]
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


def digest(command: list[str], on: list[Path], makes: list[Path]) -> str:
    paths = [Path(__file__), *on, *makes]
    return digest_of([*map(str.encode, command), *environment(), *contents(paths)])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description="Runs a test, unless nothing has changed since it passed."
    )
    parser.add_argument("stamp", type=Path)
    parser.add_argument("--on", action="append", default=[], type=Path, metavar="PATH")
    parser.add_argument(
        "--makes", action="append", default=[], type=Path, metavar="PATH"
    )
    parser.add_argument("--state", action="store_true")
    at = arguments.index("--") if "--" in arguments else len(arguments)
    args, command = parser.parse_args(arguments[:at]), arguments[at + 1 :]
    on = [ROOT / path for path in args.on]
    if args.state:
        args.stamp.parent.mkdir(parents=True, exist_ok=True)
        args.stamp.write_text(f"{digest([], on, [])}\n", encoding="utf-8")
        return 0
    makes = [ROOT / path for path in args.makes]

    before = digest(command, on, [])
    if not os.environ.get("FA_TEST_AGAIN") and args.stamp.exists():
        kept, made, *words = args.stamp.read_text(encoding="utf-8").splitlines()
        if kept == before and made == digest([], [], makes):
            print(f"unchanged since it passed {words[0]}")
            return 0
    args.stamp.unlink(missing_ok=True)
    started = time.monotonic()
    status = subprocess.run(command, check=False).returncode
    # Not if a file was edited in the meantime, because it is unknown which version passed.
    if status == 0 and digest(command, on, []) == before:
        args.stamp.parent.mkdir(parents=True, exist_ok=True)
        when = time.strftime("%Y-%m-%d %H:%M:%S")
        words = f"on {when}, after {time.monotonic() - started:.0f} s"
        part = args.stamp.with_suffix(f".{os.getpid()}")
        part.write_text(
            f"{before}\n{digest([], [], makes)}\n{words}\n", encoding="utf-8"
        )
        part.replace(args.stamp)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
