"""Checks and times the final variants of the chapters; with --peers, also times PyTorch's kernels.

    python3 -m tools.bench.bench [--chapters 02,07] [--peers [--sustained]] [--repeat R] [--build DIR] --json
    FILE

Launches rotate through sets of buffers that are together larger than the L2 cache; the median is reported.
Without --peers, the chapters' own programs run. With --peers, all kernels run alternately in one process, on
the same tensors:
see attention.py, which needs PyTorch; --sustained adds what it says there. Either way, the first and the last
head of every problem are compared with float64; of a softmax, 256 rows at either end.

FILE receives the timings, the machine with its clocks and temperature before and after, and the commit.
Exit status: 1 a result is wrong, 2 the arguments are unusable, 3 no GPU, no PyTorch or nothing built.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from ..options import Arguments, at_least
from ..profile import softmax_results
from . import machine, summary
from .plans import PLANS, Plan, Point

ROOT = Path(__file__).resolve().parents[2]
SOFTMAX = softmax_results.CHAPTERS
# Final variants only.
GRID = [name for name, plan in PLANS.items() if plan.in_grid and all(names for _, names in plan.ours)]


class Stop(Exception):
    """The run cannot continue; the text is for the user, the status for the shell."""

    def __init__(self, text: str, status: int):
        super().__init__(text)
        self.status = status


class Refused(Stop):
    """A variant does not run the problem."""


def program_rows(build: Path, point: Point, chapter: str, variants: list[str], repeat: int) -> list[dict]:
    """Rows of a chapter's variants on a problem, timed by its own program."""
    command = [str(build / "bin" / f"ch{chapter}"), "--variant", ",".join(variants)]
    command += ["--dtype", point.dtype, "--batch", str(point.batch)]
    command += ["--heads", str(point.heads), "--seq-q", str(point.seq)]
    command += ["--head-dim", str(point.head_dim), "--check-ends"]
    command += ["--bench", "--repeat", str(repeat), "--json", "-"]
    command += ["--causal"] if point.causal else []
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    result = json.loads(run.stdout or "{}")
    if variant := result.get("refused", {}).get("variant"):
        text = f"{variant} cannot run this: {result['refused']['text']}"
        raise Refused(text, run.returncode)
    if "variants" not in result:
        reason = run.stderr.strip().removeprefix("error: ")
        raise Stop(reason or f"{command[0]} failed", run.returncode)
    rows = []
    for variant in result["variants"]:
        time = variant.get("time_ms")
        if time is None:
            raise Stop(f"{chapter}/{variant['name']} did not run on {point}", 1)
        check = variant["check"]
        rows.append(
            {
                **asdict(point),
                "chapter": chapter,
                "variant": variant["name"],
                **{f"{name}_ms": time[name] for name in ("median", "min", "max")},
                "rounds": time["repeats"],
                "tflops": point.flops / time["median"] / 1e9,
                "rel_l2": max(t["rel_l2"] for t in check["tensors"].values()),
                "right": check["passed"],
            }
        )
    return rows


def shown(rows: list[dict]) -> str:
    cells = []
    for row in rows:
        wrong = "" if row["right"] else " WRONG"
        spread = (row["max_ms"] - row["min_ms"]) / row["median_ms"]
        cells.append(f"{row['variant']} {row['tflops']:.1f} (+-{spread / 2:.0%}){wrong}")
    return " | ".join(cells)


def time_alone(plan: Plan, build: Path, repeat: int) -> list[dict]:
    """The rows of a plan, without the kernels of others."""
    timings = []
    for point in plan.points:
        rows, refusals = [], []
        for chapter, variants in plan.ours:
            for variant in variants:
                try:
                    rows += program_rows(build, point, chapter, [variant], repeat)
                except Refused as refused:
                    refusals.append(f"skipped: {refused}")
        print(f"{point!s:42} {shown(rows)}", flush=True)
        for refusal in refusals:
            print(f"  {refusal}", flush=True)
        timings += rows
    return timings


def plans_of(chapters: list[str]) -> dict[str, Plan]:
    """The plans of the grid, with the kernels of these chapters alone."""
    found = {}
    for name, plan in PLANS.items():
        ours = [entry for entry in plan.ours if any(entry[0].startswith(c) for c in chapters)]
        if ours and name in GRID:
            found[name] = Plan(plan.points, ours, plan.peers)
    return found


def time_attention(chapters: list[str], options: argparse.Namespace) -> dict:
    """The rows of the plans, for the kernels of these chapters and of the peers: "timings" and
    "sustained".
    """
    result: dict = {"timings": []}
    if not options.peers:
        for name, plan in plans_of(chapters).items():
            rows = time_alone(plan, options.build, options.repeat)
            result["timings"] += [{"plan": name, **row} for row in rows]
        return result
    from . import attention

    sampling = machine.Sampler() if options.sustained else contextlib.nullcontext()
    with sampling as sampler:
        for name, plan in plans_of(chapters).items():
            for point in plan.points:
                try:
                    found = attention.run_point(plan, point, options.repeat, sampler)
                except (FileNotFoundError, attention.OutOfMemory) as obstacle:
                    raise Stop(str(obstacle), 3) from obstacle
                attention.add(result, name, point, *found)
    return result


def time_softmax(chapters: list[str], peers: bool) -> list[dict]:
    """The rows of chapters 01 and 02."""
    wanted = [name for name in SOFTMAX if any(name.startswith(c) for c in chapters)]
    if not wanted:
        return []
    return softmax_results.time_all(wanted, peers)


def main() -> int:
    parser = Arguments(description=__doc__.split("\n\n")[0])
    every = "01,02,03,04,05,06,07,08,09,10"
    parser.add_argument("--chapters", default=every, metavar="NN,NN")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--sustained", action="store_true")
    parser.add_argument("--repeat", type=at_least(1), default=20, metavar="R")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "cuda")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    options = parser.parse_args()
    if options.sustained and not options.peers:
        raise Stop("--sustained needs --peers: it times all kernels in one process", 2)
    chapters = options.chapters.split(",")
    before = machine.gpu()
    if not before:
        raise Stop("nvidia-smi finds no GPU", 3)
    print(
        f"{before['name']}, driver {before['driver_version']}, {before['clocks.sm']},"
        f" {before['temperature.gpu']} C",
        flush=True,
    )
    versions = {}
    if options.peers:
        from . import attention

        versions = attention.versions()
    found = time_attention(chapters, options)
    timings = time_softmax(chapters, options.peers) + found["timings"]
    for line in summary.lines(timings):
        print(line)
    if sustained := found.get("sustained"):
        print("sustained:")
        for line in summary.lines(summary.as_timings(sustained)):
            print(line)
    result = {
        "device": before["name"],
        "machine": before | versions,
        "machine_after": machine.gpu(),
        "commit": machine.output_of("git", "describe", "--always", "--dirty"),
        "nvcc": (machine.output_of("nvcc", "--version").splitlines() or [""])[-1],
        "timings": timings,
        **({"sustained": sustained} if sustained else {}),
    }
    machine.write_results(options.json, result)
    return 0 if all(row.get("right", True) for row in timings) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Stop as stop:
        print(f"bench: {stop}", file=sys.stderr)
        sys.exit(stop.status)
