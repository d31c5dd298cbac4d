"""The machine on which something is timed, as files of results name it."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GPU = "name,driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw"


def output_of(*command: str) -> str:
    """What a command prints; nothing if it cannot be run."""
    try:
        return subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=ROOT
        ).stdout.strip()
    except OSError:
        return ""


def gpu() -> dict:
    """The GPU as it is now: name, driver, clocks, temperature, power. Empty if there is none."""
    values = output_of("nvidia-smi", f"--query-gpu={GPU}", "--format=csv,noheader")
    first = values.splitlines()[0].split(",") if values else []
    return dict(zip(GPU.split(","), (value.strip() for value in first), strict=False))
