"""The machine that kernels are timed on, as files of results describe it."""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import threading
import time
from pathlib import Path
from typing import Self

from .. import results

ROOT = Path(__file__).resolve().parents[2]
GPU = "name,driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw"


def output_of(*command: str) -> str:
    """The output of a command; empty if it cannot be run."""
    try:
        return subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT).stdout.strip()
    except OSError:
        return ""


def write_results(file: Path | None, result: dict) -> None:
    """Writes a file of docs/results, if there is to be one."""
    if file:
        results.write(file, result)


def gpu() -> dict:
    """The current state of the GPU: name, driver, clocks, temperature, power. Empty if there is none."""
    told = output_of("nvidia-smi", f"--query-gpu={GPU}", "--format=csv,noheader")
    names, values = GPU.split(","), told.partition("\n")[0].split(",")
    if len(values) != len(names):  # nothing, or a message
        return {}
    return {name: value.strip() for name, value in zip(names, values, strict=True)}


class Sampler:
    """Reads the clock and the power of the first GPU every 20 ms, as long as the `with` block runs."""

    def __init__(self):
        self.samples: list[tuple[float, float, float]] = []  # time.monotonic(), MHz, W
        self._process: subprocess.Popen | None = None

    def __enter__(self) -> Self:
        power = "power.draw.instant"  # power.draw is the mean of a second
        told = output_of(*self._query(power))
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                [*self._query(power if _numbers(told) else "power.draw"), "-lms", "20"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            self._reader = threading.Thread(target=self._read, daemon=True)
            self._reader.start()
            deadline = time.monotonic() + 3
            while not self.samples and time.monotonic() < deadline:
                if self._process.poll() is not None:
                    break
                time.sleep(0.02)
        return self

    def __exit__(self, *error: object) -> None:
        if self._process:
            self._process.terminate()
            self._process.wait()
            self._reader.join(timeout=1)
            self._process.stdout.close()

    @staticmethod
    def _query(power: str) -> list[str]:
        words = ["nvidia-smi", "-i", "0", f"--query-gpu=clocks.sm,{power}"]
        return [*words, "--format=csv,noheader,nounits"]

    def _read(self) -> None:
        for line in self._process.stdout:
            if numbers := _numbers(line):
                self.samples.append((time.monotonic(), *numbers))

    def between(self, begin: float, end: float) -> dict:
        """The medians from one time.monotonic() to another: clock_mhz, watts and samples. Empty if there are
        none.
        """
        found = [(mhz, watts) for at, mhz, watts in self.samples if begin <= at <= end]
        if not found:
            return {}
        mhz, watts = (statistics.median(values) for values in zip(*found, strict=True))
        return {"clock_mhz": mhz, "watts": watts, "samples": len(found)}


def _numbers(line: str) -> tuple[float, float] | None:
    """ "1980, 652.31" as numbers; None if the driver does not tell both."""
    try:
        mhz, watts = map(float, line.split(","))
    except ValueError:
        return None
    return mhz, watts
