"""Runs one external command at a time: its headline, its progress, its time, its failure."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .console import Console
from .project import ROOT

LONGEST_LINE = 1 << 16  # characters; what prints for ever may never end its line
QUIET_SECONDS = 10  # the longest silence in a log that is not a terminal


def seconds(elapsed: float) -> str:
    """3.21 -> "3.2 s", 75 -> "1 min 15 s"."""
    if elapsed < 9.95:
        return f"{elapsed:.1f} s"
    minutes, rest = divmod(round(elapsed), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


@dataclass
class Phase:
    """A running command. A reader is called with every line that it prints."""

    console: Console
    output: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    _last_said: float = field(default_factory=time.monotonic)
    _last_tenth: int = 0

    @property
    def elapsed(self) -> str:
        return seconds(time.monotonic() - self.started)

    def progress(self, done: int, total: int, what: str = "") -> None:
        """Shows how far the command is: a line that updates itself on a terminal, a line per tenth
        elsewhere.
        """
        share = f"[{done}/{total}] {100 * done // max(total, 1)} %, {self.elapsed}"
        self.console.update(f"   {share}  {what}")
        tenth = 10 * done // max(total, 1)
        if tenth > self._last_tenth and done < total:
            self._last_tenth = tenth
            self._log(share)

    def activity(self, what: str) -> None:
        """Shows the last line from time to time, for a command that does not report its progress."""
        self.console.update(f"   {self.elapsed}  {what}")
        if time.monotonic() - self._last_said > QUIET_SECONDS:
            self._log(f"{self.elapsed}  {what}"[: self.console.width - 3])

    def show(self, line: str) -> None:
        """Prints a line of the output that the learner should see."""
        self.console.say(line)

    def _log(self, text: str) -> None:
        if not self.console.live:
            self.console.say(f"   {text}")
            self._last_said = time.monotonic()


Reader = Callable[[Phase, str], None]


def _stop(process: subprocess.Popen, own_group: bool) -> None:
    """Interrupts the command as Ctrl-C would, and kills it if that is not enough."""
    for signum in (signal.SIGINT, signal.SIGKILL):
        try:
            (os.killpg if own_group else os.kill)(process.pid, signum)
            process.wait(timeout=10)
            return
        except ProcessLookupError:
            return
        except (PermissionError, subprocess.TimeoutExpired):
            continue


def execute(
    console: Console,
    title: str,
    command: list[str],
    reader: Reader = lambda phase, line: None,
    *,
    shown: list[str] | None = None,
    cwd: Path = ROOT,
    env: dict[str, str] | None = None,
    may_ask: bool = False,
    quiet: bool = False,
) -> tuple[int, Phase]:
    """Runs a command, with a headline before and the elapsed time after.

    @param shown    the command as the headline shows it, if that differs
    @param env      variables to add to the environment
    @param may_ask  the command keeps the terminal (sudo may ask for a password)
    @param quiet    without headline and time: only what the reader shows
    """
    if not quiet:
        console.say(f"-- {title}: {shlex.join(shown or command)}", "bold")
    phase = Phase(console)
    with subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=None if may_ask else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        process_group=None if may_ask else 0,
    ) as process:
        try:
            for line in iter(lambda: process.stdout.readline(LONGEST_LINE), ""):
                phase.output.append(line.rstrip("\n"))
                reader(phase, phase.output[-1])
            status = process.wait()
        except BaseException:
            _stop(process, own_group=not may_ask)
            console.clear()
            raise
    console.clear()
    if not quiet:
        outcome = "done" if status == 0 else "failed"
        console.say(f"   {outcome} after {phase.elapsed}", "dim")
    return status, phase


def refusal(output: list[str]) -> str:
    """Why a program refused its command line."""
    errors = [line for line in output if line.startswith("error: ")]
    return (errors or output or ["it said nothing"])[-1].removeprefix("error: ")


NINJA_ENVIRONMENT = {"NINJA_STATUS": "[%f/%t] "}  # NinjaReader reads this


class NinjaReader:
    """Turns Ninja's status into progress, and passes on what a compiler prints."""

    STATUS = re.compile(r"\[(\d+)/(\d+)\] (.*)")
    _FAILED = re.compile(r"FAILED: (?:\[code=\d+\] )?(\S+)")

    def __init__(self) -> None:
        self.failed: list[str] = []  # targets that could not be built
        self._command_follows = False

    def __call__(self, phase: Phase, line: str) -> None:
        if status := self.STATUS.match(line):
            phase.progress(int(status[1]), int(status[2]), status[3])
        elif failed := self._FAILED.match(line):
            self.failed.append(failed[1])
            self._command_follows = True
        elif self._command_follows:
            self._command_follows = False
        elif line and not line.startswith(("ninja: build stopped", "ninja: no work")):
            phase.show(line)


class CtestReader:
    """Turns ctest's lines into progress, and shows the output of failing tests."""

    _RESULT = re.compile(r"\s*(\d+)/(\d+) Test\s+#\d+: (\S.*?) \.+\s*(\*\*\*)?([A-Z][^\d]*?)\s+\d")
    _END = re.compile(r"\d+% tests passed")
    _UNCHANGED = re.compile(r"\d+ of \d+ tests had passed on the same files: ")

    def __init__(self) -> None:
        self.passed = 0
        self.skipped: list[str] = []
        self.failed: list[str] = []
        self.unchanged = ""  # what tests/levels.py says of tests that need not run again
        self._showing = False

    def __call__(self, phase: Phase, line: str) -> None:
        if result := self._RESULT.match(line):
            self._count(result[3], result[5])
            self._showing = self.failed[-1:] == [result[3]]
            if self._showing:
                phase.show(line.strip())
            phase.progress(int(result[1]), int(result[2]), result[3])
        elif self._END.match(line):
            self._showing = False
        elif self._UNCHANGED.match(line):
            self.unchanged = line
        elif self._showing and not re.match(r"\s+Start\s+\d+: ", line):
            phase.show(line)

    def _count(self, name: str, result: str) -> None:
        if result == "Passed":
            self.passed += 1
        elif result.startswith(("Skipped", "Not Run (Disabled)")):
            self.skipped.append(name)
        else:
            self.failed.append(name)
