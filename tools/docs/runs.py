"""Runs each of the simulator's programs once, and stores the outputs in the build folder under a hash of the
program, its options and the files that they name."""

from __future__ import annotations

import collections
import json
import os
import subprocess
import tempfile
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.learn import ranks, trials


@dataclass(frozen=True)
class Run:
    """@param data  what the program wrote with --json; "" if nothing"""

    status: int
    out: str
    err: str
    data: str


_locks: collections.defaultdict[str, threading.Lock] = collections.defaultdict(
    threading.Lock
)  # by key: if another thread is running the same, wait for it


def _key(program: Path, options: tuple[str, ...], folder: Path, skip: str, device: str) -> str:
    files = [folder / word for word in options if (folder / word).is_file()]
    parts = [str(program), skip, device, *options, os.environ.get("GPUSIM_THREADS", "")]
    parts += map(trials.file_hash, (program, Path(__file__), *files))
    return trials.digest(map(str.encode, parts))


def run(program: Path, options: tuple[str, ...], folder: Path, skip: str = "", device: str = "") -> Run:
    """Runs BUILD/bin/PROGRAM. OSError if it cannot be run.

    @param options  without --json, which is added
    @param folder   the working directory, which contains the files that the options name
    @param skip     the __syncthreads() that the simulator skips: "01_safe_softmax/kernel.cuh:188"
    @param device   whose limits the simulator has: "a100"; "": the default one's
    """
    key = _key(program, options, folder, skip, device)
    kept = program.parents[1] / "outputs" / f"{key}.json"
    with _locks[key]:
        try:
            return Run(**json.loads(kept.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            pass
        done = _run(program, options, folder, skip, device)
        kept.parent.mkdir(exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(asdict(done)), encoding="utf-8")
        part.replace(kept)
        return done


def _run(program: Path, options: tuple[str, ...], folder: Path, skip: str, device: str) -> Run:
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "data.json"
        done = subprocess.run(
            ranks.command(program, [*options, "--json", str(data)]),
            cwd=folder,
            env=os.environ | {"GPUSIM_SKIP_BARRIER": skip, "GPUSIM_DEVICE": device},
            check=False,
            capture_output=True,
            text=True,
        )
        text = data.read_text(encoding="utf-8") if data.exists() else ""
        return Run(done.returncode, done.stdout, done.stderr, text)
