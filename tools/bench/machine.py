"""The machine that kernels are timed on, as files of results describe it."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GPU = "name,driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw"


def output_of(*command: str) -> str:
    """The output of a command; empty if it cannot be run."""
    try:
        return subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=ROOT
        ).stdout.strip()
    except OSError:
        return ""


def gpu() -> dict:
    """The current state of the GPU: name, driver, clocks, temperature, power. Empty if there is none."""
    told = output_of("nvidia-smi", f"--query-gpu={GPU}", "--format=csv,noheader")
    names, values = GPU.split(","), told.partition("\n")[0].split(",")
    if len(values) != len(names):  # nothing, or a message
        return {}
    return {name: value.strip() for name, value in zip(names, values, strict=True)}
