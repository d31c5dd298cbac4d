#!/usr/bin/env python3
"""Compares the speed of the simulator, with all checks on, to that of Oclgrind (`oclgrind-kernel
--data-races`).

The kernel is tiled fp32 attention: N = 256, 2 heads, d = 64, blocks of 128 threads,
tiles of 32 queries and 32 keys. tiled_attention.cu and tiled_attention.cl implement it
with the same statements. Both run here, one after the other, each on all cores. Before
it prints a number, it checks three things: the outputs agree, neither found a defect,
and both counted the same number of memory accesses.

For the simulator, a launch is timed. For Oclgrind, it is the whole process minus its
start-up time: that of the same process with the same inputs and an empty kernel.

    cmake --build --preset sim --target bench_simulator
    python3 tests/bench/bench_simulator.py

Exit status: 0 measured; 1 a result is wrong; 2 the arguments are unusable;
3 Oclgrind is not installed.
"""

from __future__ import annotations

import argparse
import array
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
KERNEL = HERE / "tiled_attention.cl"

# As in tiled_attention.hpp and .cl.
HEADS, SEQ, HEAD_DIM, THREADS, BR = 2, 256, 64, 128, 32
ELEMENTS = HEADS * SEQ * HEAD_DIM
BLOCKS = HEADS * SEQ // BR

TARGET = 50.0  # times as fast as Oclgrind
TOLERANCE = 1e-4  # Oclgrind prints six digits


class Failure(Exception):
    """What went wrong, in one line, and the exit status for it."""

    def __init__(self, message: str, status: int = 1):
        super().__init__(message)
        self.status = status


@dataclass
class Process:
    """A finished command."""

    output: str
    seconds: float
    cpu_seconds: float
    peak_rss_bytes: int


def run(command: list[str], folder: Path) -> Process:
    """Runs a command; any output on standard error is a failure."""
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        start = time.monotonic()
        child = subprocess.Popen(command, cwd=folder, stdout=output, stderr=errors)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.monotonic() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        complaint = errors.read().strip()
        if child.returncode != 0 or complaint:
            complaint = complaint or f"exit status {child.returncode}"
            raise Failure(f"{Path(command[0]).name}: {complaint.splitlines()[0]}")
        cpu_seconds = usage.ru_utime + usage.ru_stime
        return Process(output.read(), seconds, cpu_seconds, usage.ru_maxrss * 1024)


def inputs(seed: int, scale: float) -> list[float]:
    """The numbers that bench_simulator.cpp generates from this seed, exact in fp32."""
    values = []
    for _ in range(ELEMENTS):
        seed = (seed * 1664525 + 1013904223) % 2**32
        values.append(scale * ((seed >> 8) / 2**23 - 1))
    return values


def simulator_file(kernel: str) -> str:
    """The input of oclgrind-kernel: source, kernel, sizes, value of each argument."""
    blocks = f"{THREADS * SEQ // BR} {HEADS} 1\n{THREADS} 1 1"
    lines = [KERNEL.name, kernel, blocks]
    for seed, scale in ((1, 4.0), (2, 1.0), (3, 1.0)):
        lines.append(f"<size={4 * ELEMENTS} float>")
        values = [f"{value:.9g}" for value in inputs(seed, scale)]
        lines += [" ".join(values[i : i + HEAD_DIM]) for i in range(0, ELEMENTS, HEAD_DIM)]
    lines.append(f"<size={4 * ELEMENTS} float fill=0 dump>")
    lines.append(f"<size=4 int> {SEQ}")
    lines.append("<size=4 float> 0.125")
    return "\n".join(lines) + "\n"


def read_dump(text: str) -> list[float]:
    """gO from the output of oclgrind-kernel. Any other output is about a defect."""
    values = []
    for line in text.splitlines():
        match = re.fullmatch(r"  gO\[(\d+)\] = (\S+)", line)
        if match:
            values.append(float(match[2]))
        elif line and not line.startswith("Argument 'gO'"):
            raise Failure(f"oclgrind-kernel: {line.strip()}")
    if len(values) != ELEMENTS:
        raise Failure(f"oclgrind-kernel printed {len(values)} values of gO, not {ELEMENTS}")
    return values


def oclgrind_accesses(oclgrind: str, folder: Path) -> int:
    """Loads and stores of global and local memory.

    All blocks do the same, so running the first and the last is enough.
    """
    text = run([oclgrind, "--inst-counts", "--quick", "attention.sim"], folder).output
    counts = re.findall(r"(\d+) - (?:load|store) (?:global|local)", text)
    return sum(map(int, counts)) * BLOCKS // 2


def compare(program: Path, oclgrind: str, repeats: int) -> dict:
    """Runs everything and returns the measurements."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(KERNEL, folder)
        (folder / "attention.sim").write_text(simulator_file("tiled_attention"))
        (folder / "nothing.sim").write_text(simulator_file("nothing"))
        load = os.getloadavg()[0]

        ours_command = [str(program), "--repeats", str(repeats), "--output", str(folder / "o.bin")]
        run(ours_command[:1] + ["--repeats", "1"], folder)  # warms up
        before = json.loads(run(ours_command, folder).output)
        start_up = run([oclgrind, "--data-races", "nothing.sim"], folder)
        theirs = run([oclgrind, "--data-races", "attention.sim"], folder)
        after = json.loads(
            run(ours_command, folder).output
        )  # again: the load of the machine may have changed

        output = array.array("f")
        with open(folder / "o.bin", "rb") as file:
            output.fromfile(file, ELEMENTS)
        difference = max(abs(a - b) for a, b in zip(output, read_dump(theirs.output), strict=True))
        if not difference <= TOLERANCE:
            raise Failure(f"the outputs differ by {difference:g}: more than {TOLERANCE:g}")
        accesses = before["memory_accesses"]["counted"]
        counted_by_oclgrind = oclgrind_accesses(oclgrind, folder)
        if accesses != counted_by_oclgrind:
            raise Failure(f"{accesses} memory accesses here, {counted_by_oclgrind} in Oclgrind")

    version = run([oclgrind, "--version"], HERE).output.split("\n\n")[0].strip()
    seconds = before["seconds"] + after["seconds"]
    ours = statistics.median(seconds)
    cpu = (before["cpu_seconds"] + after["cpu_seconds"]) / 2
    return {
        "cores": len(os.sched_getaffinity(0)),
        "load_average": load,
        "memory_accesses": accesses,
        "max_difference": difference,
        "simulator": {
            "seconds": ours,
            "seconds_of_each_launch": seconds,
            "cpu_seconds": cpu,
            "peak_rss_bytes": max(before["peak_rss_bytes"], after["peak_rss_bytes"]),
            "global_bytes": before["global_bytes"],
            "max_abs_error": before["max_abs_error"],
        },
        "oclgrind": {
            "version": version,
            "seconds": theirs.seconds,
            "start_up_seconds": start_up.seconds,
            "cpu_seconds": theirs.cpu_seconds,
            "start_up_cpu_seconds": start_up.cpu_seconds,
            "peak_rss_bytes": theirs.peak_rss_bytes,
        },
        "ratio": (theirs.seconds - start_up.seconds) / ours,
        "cpu_ratio": (theirs.cpu_seconds - start_up.cpu_seconds) / cpu,
        "target": TARGET,
    }


def table(result: dict) -> str:
    """The result as text."""
    ours, theirs = result["simulator"], result["oclgrind"]
    mib = 2**20

    def row(name: str, seconds: str, cpu: str, memory: str = "") -> str:
        return f"{name:34}{seconds:>10}{cpu:>12}{memory:>14}".rstrip()

    accesses = f"{result['memory_accesses'] / 1e6:.1f} million memory accesses"
    verdict = "reached" if result["ratio"] >= result["target"] else "missed"
    lines = [
        f"Tiled attention, {accesses} in each",
        f"outputs within {result['max_difference']:.0e} of each other",
        f"{result['cores']} cores, load average {result['load_average']:.1f} before the run",
        "",
        row("", "seconds", "CPU seconds", "peak memory"),
        row(
            "simulator, a launch, all checks",
            f"{ours['seconds']:.3f}",
            f"{ours['cpu_seconds']:.3f}",
            f"{ours['peak_rss_bytes'] / mib:.0f} MiB",
        ),
        row(
            f"{theirs['version']} --data-races",
            f"{theirs['seconds']:.3f}",
            f"{theirs['cpu_seconds']:.3f}",
            f"{theirs['peak_rss_bytes'] / mib:.0f} MiB",
        ),
        row(
            "  of that, start-up",
            f"{theirs['start_up_seconds']:.3f}",
            f"{theirs['start_up_cpu_seconds']:.3f}",
        ),
        row("ratio, without start-up", f"{result['ratio']:.1f}", f"{result['cpu_ratio']:.1f}"),
        "",
        f"target: a ratio of {result['target']:.0f}: {verdict}",
    ]
    return "\n".join(lines)


class Parser(argparse.ArgumentParser):
    """Reports in one line what is wrong with an argument."""

    def error(self, message: str):
        raise Failure(message, 2)


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 on")
    return int(text)


def main() -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = HERE.parents[1] / "build" / "sim" / "bin" / "bench_simulator"
    parser.add_argument(
        "--program", type=Path, default=default, help="default: build/sim/bin/bench_simulator"
    )
    parser.add_argument(
        "--repeats", type=positive, default=5, help="timed launches, once before and once after Oclgrind"
    )
    parser.add_argument(
        "--json", metavar="FILE", help="everything as data; '-': standard output, and no table"
    )
    try:
        options = parser.parse_args()
        oclgrind = shutil.which("oclgrind-kernel")
        if oclgrind is None:
            raise Failure("oclgrind-kernel is not installed: apt-get install oclgrind", 3)
        if not os.access(options.program, os.X_OK):
            make = "cmake --build --preset sim --target bench_simulator"
            raise Failure(f"--program {options.program}: not there; {make}", 2)
        result = compare(options.program.resolve(), oclgrind, options.repeats)
        if options.json == "-":
            print(json.dumps(result))
        else:
            print(table(result))
            if options.json:
                Path(options.json).write_text(json.dumps(result) + "\n")
    except Failure as failure:
        print(f"bench_simulator.py: {failure}", file=sys.stderr)
        return failure.status
    except OSError as error:
        print(f"bench_simulator.py: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
