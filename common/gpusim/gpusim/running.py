"""Runs a program that has been built."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
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
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        env["GPUSIM_PROGRESS"] = "1"
    if request.check_all:
        env["GPUSIM_CHECK_ALL"] = "1"
    if request.device:
        env["GPUSIM_DEVICE"] = request.device
    return env


def recording_of(built: Built, request: Request) -> dict[str, str]:
    """The variables that make the simulator record a block. SimError if there is no such kernel."""
    variables = {"GPUSIM_RECORD": str(built.folder / "recording")}
    if request.block:
        variables["GPUSIM_RECORD_BLOCKS"] = request.block
    launch = 0
    if request.kernel:  # a first run tells when it is launched
        quiet = run(built, request, {}, stdout=subprocess.DEVNULL)
        kernels = quiet.report["kernels"] if quiet.report else []
        named = [
            k
            for k in kernels
            if request.kernel in (k["name"], k["name"].split("<")[0], k["name"].split("::")[-1])
        ]
        if not named:
            names = ", ".join(k["name"] for k in kernels) or "none"
            raise SimError(f"--kernel {request.kernel}: no such kernel was launched; those launched: {names}")
        launch = named[0]["first_launch"]
    variables["GPUSIM_RECORD_LAUNCH"] = str(launch)
    return variables


def run(
    built: Built, request: Request, variables: dict[str, str] | None = None, stdout: int | None = None
) -> Outcome:
    """Runs the program with the terminal as its own.

    @param variables  of the environment, more of them
    """
    table = built.folder / "kernels.json"
    table.unlink(missing_ok=True)
    command = [str(built.program), *request.arguments]
    env = {**environment_of(request, str(table)), **(variables or {})}
    with subprocess.Popen(command, env=env, stdout=stdout) as process:
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
