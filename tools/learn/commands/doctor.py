"""./learn doctor: what this machine has and what it lacks."""

from __future__ import annotations

import argparse
import shutil

from ...report.results import human
from .. import machine, packages, setup
from ..console import Console, LearnError

HELP = "show what this machine has and what it lacks"


def add_options(parser: argparse.ArgumentParser) -> None:
    setup.add_preset(parser)


def main(console: Console, args: argparse.Namespace) -> int:
    """Prints what this machine has, what is missing, and which preset would be used."""
    problems: list[str] = []
    to_do: list[str] = []

    def line(subject: str, text: str, problem: str | None = None) -> None:
        mark = console.paint(f"  <- {problem}", "red") if problem else ""
        console.say(f"   {subject:24}{text}{mark}")
        if problem:
            problems.append(problem)

    memory = machine.memory_bytes()
    line("system", machine.system())
    line("cores, memory", f"{machine.cores()}, {human(memory or 0, 'B')}")
    for subject, tool in (("compiler", machine.compiler()), ("cmake", machine.cmake())):
        line(subject, str(tool), tool.problem)

    missing = packages.missing()
    for package in packages.PACKAGES:
        text = "missing" if package in missing else "installed"
        line(package.name, f"{text:11}{package.purpose}")
    if missing:
        installs = "./learn run installs" if shutil.which("apt-get") else "install"
        names = ", ".join(package.name for package in missing)
        to_do.append(f"{installs} {names}")

    line("nvcc", str(machine.nvcc()))
    line("GPU", "; ".join(machine.gpus()) or "none: the simulator needs none")
    line("ncu (Nsight Compute)", machine.cuda_program("ncu") or "none")
    preset, why = machine.choose_preset(args.preset)
    line("preset", f"{preset}: {why}")

    required = [package for package in missing if not package.optional]
    if problems or required:
        raise LearnError("not ready: " + "; ".join(problems + to_do), 3)
    console.say("ready" + (f" ({'; '.join(to_do)})" if to_do else ""), "green")
    return 0
