"""Runs a program that has been built."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import dataclass

from .compiling import Built
from .errors import SimError
from .options import Request


@dataclass
class Outcome:
    status: int  # the program's own, or minus the signal that has ended it
    report: dict | None  # None if no kernel ran


def environment_of(request: Request, table: str) -> dict[str, str]:
    env = {**os.environ, "GPUSIM_KERNELS": table, "GPUSIM_TIMEOUT": str(request.timeout)}
    if request.device:
        env["GPUSIM_DEVICE"] = request.device
    return env


def run(built: Built, request: Request) -> Outcome:
    """Runs the program with the terminal as its own."""
    table = built.folder / "kernels.json"
    table.unlink(missing_ok=True)
    command = [str(built.program), *request.arguments]
    with subprocess.Popen(command, env=environment_of(request, str(table))) as process:
        while True:
            try:
                status = process.wait()
                break
            except KeyboardInterrupt:
                continue  # the program gets it, too
            except BaseException:
                process.kill()
                raise
    report = None
    if table.exists():
        report = json.loads(table.read_text(encoding="utf-8", errors="replace"))
    return Outcome(status, report)


def why_ended(status: int) -> SimError | None:
    """What a program has died of; None if it has ended by itself."""
    if status >= 0:
        return None
    name = signal.Signals(-status).name
    reasons = {
        "SIGKILL": "was killed: it may have needed more memory than there is",
        "SIGSEGV": "has crashed on the host: it has used an invalid address (SIGSEGV)",
        "SIGABRT": "has ended itself with abort(), as a failed assert() does",
        "SIGFPE": "has crashed on the host: it has divided by zero (SIGFPE)",
    }
    return SimError(f"the program {reasons.get(name, f'was ended by {name}')}")
