"""Times the attention kernels and PyTorch's alternately, in one process, on the same tensors.

    attention.py [--points fp32,bf16,...] [--repeat R] [--sustained] [--json FILE [--keep]]

For each point of the grid, every round times each kernel once (a short one as several launches in a row), in
another order, on other tensors than the launch before, so that no kernel finds its inputs in the L2 cache or
a cooler GPU than the others. Before that, the results are compared with float64 on two heads. The median is
printed in TFLOP/s: 4 * batch * heads
* seq^2 * head_dim operations, half of that if causal, 2.5 times that for a backward pass.

--sustained then also runs each kernel by itself until it has heated the GPU, and times the next 0.3 s: many
GPUs lower their clock once they draw as much power as they may. Clock and power are recorded with each time.

--keep leaves the other plans of FILE as they are, with the machine that timed them under "earlier".

The time of a backward pass excludes the forward pass before it: O and LSE are already there.

Needs PyTorch, a GPU, and: cmake --build --preset cuda --target chapter_libraries
Exit status: 1 a result is wrong, 2 the arguments are unusable, 3 no GPU, no PyTorch or nothing built.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from random import Random

from ..options import Arguments, at_least, needs_pytorch

needs_pytorch()
import torch

from . import machine
from .chapter_library import ChapterLibrary
from .peers import Missing, bind_peer
from .plans import PLANS, Plan, Point

# The largest relative L2 error of O on two heads, in 16 bits and in fp32. Gradients may have twice that.
ERROR_LIMIT = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}


DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


class OutOfMemory(Exception):
    """The GPU has too little memory; the text is one line for the user."""


@contextlib.contextmanager
def enough_memory(what: object) -> Iterator[None]:
    """Turns either kind of out-of-memory error that PyTorch raises into OutOfMemory."""
    try:
        yield
    except RuntimeError as error:
        if "out of memory" not in str(error):
            raise
        raise OutOfMemory(f"{what}: not enough memory on the GPU: nvidia-smi shows what uses it") from error


def variants_of(chapter: str) -> list[str]:
    """All variants of a chapter, from its program."""
    root = Path(__file__).resolve().parents[2]
    program = root / "build" / "cuda" / "bin" / f"ch{chapter}"
    listed = subprocess.run([program, "--list"], check=True, capture_output=True, text=True)
    return [line.split()[0] for line in listed.stdout.splitlines()[1:]]


def random(shape: tuple[int, ...], point: Point) -> torch.Tensor:
    """A tensor [batch, heads, seq, head_dim] that lies in memory as the point says."""
    options = {"dtype": DTYPES[point.dtype], "device": "cuda"}
    if point.layout == "bhsd":
        return torch.randn(shape, **options)
    batch, heads, seq, head_dim = shape
    return torch.randn((batch, seq, heads, head_dim), **options).transpose(1, 2)


class Tensors:
    """Sets of Q, K and V, and of dO for a backward pass; together they are larger than twice the L2 cache."""

    def __init__(self, point: Point, rounds: int):
        shapes = [(point.batch, heads, point.seq, point.head_dim) for heads in point.heads_of_tensors]
        one_set = sum(map(math.prod, shapes)) * DTYPES[point.dtype].itemsize
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        count = max(1, min(rounds, math.ceil(2 * l2 / one_set)))
        self.sets = [[random(shape, point) for shape in shapes] for _ in range(count)]


@functools.cache
def tell_once(text: str) -> None:
    """Prints a line to stderr, unless it has been printed before."""
    print(text, file=sys.stderr)


def contenders(
    plan: Plan, point: Point, tensors: Tensors
) -> Iterator[tuple[str | None, str, Callable[[int], tuple[torch.Tensor, ...]]]]:
    """Chapter, name, and a function that launches on set number n and returns O or the gradients."""
    stream = torch.cuda.current_stream()
    for chapter, names in plan.ours:
        library = ChapterLibrary(chapter)
        for name in names or variants_of(chapter):
            try:
                bound = [
                    library.bind(name, *qkv, point.causal, *do)
                    for qkv, do in ((given[:3], given[3:]) for given in tensors.sets)
                ]
            except RuntimeError as refusal:
                print(f"  {chapter}/{name} does not run: {refusal}", file=sys.stderr)
                continue

            def launch(n, bound=bound):
                ready = bound[n % len(bound)]
                ready.launch(stream)
                return (ready.dq, ready.dk, ready.dv) if point.backward else (ready.o,)

            yield chapter, name, launch
    for name in plan.peers:
        try:
            launch_peer = bind_peer(name, point, tensors.sets)
            launch_peer(0)
        except (RuntimeError, Missing) as refusal:
            tell_once(f"  {name} does not run: {str(refusal).splitlines()[0]}")
            continue
        yield None, name, launch_peer


def exact(point: Point, given: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """O of the heads that share K and V, or their gradients, in float64, a few queries at a time.

    @param given  q [heads, seq, head_dim], k, v [seq, head_dim] [, do, shaped like q]
    """
    q, k, v, *do = (t.double() for t in given)
    scale = point.head_dim**-0.5
    o, dq = torch.empty_like(q), torch.empty_like(q)
    dk, dv = torch.zeros_like(k), torch.zeros_like(v)
    for head in range(q.shape[0]):
        for first in range(0, point.seq, 4096):
            rows = slice(first, first + 4096)
            s = q[head, rows] @ k.T * scale
            if point.causal:
                query = torch.arange(first, first + s.shape[0], device=s.device)
                s.masked_fill_(torch.arange(point.seq, device=s.device) > query[:, None], -torch.inf)
            p = torch.softmax(s, -1)
            o[head, rows] = p @ v
            if not do:
                continue
            d_o = do[0][head, rows]
            ds = p * (d_o @ v.T - (d_o * o[head, rows]).sum(-1, keepdim=True))
            dq[head, rows] = ds @ k * scale
            dk += ds.T @ q[head, rows] * scale
            dv += p.T @ d_o
    return (dq, dk, dv) if do else (o,)


def error(point: Point, computed: tuple[torch.Tensor, ...], given: list[torch.Tensor]) -> float:
    """The largest relative L2 error of the results, over the first and the last head of K and V; NaN if
    either has one.
    """
    worst = 0.0
    group = point.heads // given[1].shape[1]
    for batch, kv_head in ((0, 0), (point.batch - 1, given[1].shape[1] - 1)):
        q, k, v, *do = given
        heads = slice(group * kv_head, group * (kv_head + 1))
        references = exact(
            point, [q[batch, heads], k[batch, kv_head], v[batch, kv_head], *(t[batch, heads] for t in do)]
        )
        for ours, reference in zip(computed, references, strict=True):
            ours = ours[batch, heads if reference.dim() == 3 else kv_head]
            difference = (ours.double() - reference).norm()
            relative = float(difference / reference.norm())
            worst = max(worst, relative, key=lambda x: (math.isnan(x), x))
    return worst


# Between two events there are launches of at least LEAST_MS, because a launch alone may take the host longer
# than it takes the GPU, and events are only so precise.
LEAST_MS = 1.0
MOST_LAUNCHES = 10
CYCLES_PER_S = 2e9  # at least those of the GPU's clock
HEAD_START_S = 2e-3  # for the host, while the GPU sleeps


def timed(launch: Callable, numbers: range) -> tuple:
    """Enqueues launches between two events, which it returns."""
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    for number in numbers:
        launch(number)
    after.record()
    return before, after


def launches_per_timing(one_ms: float) -> int:
    """How many launches of a kernel that takes this long are timed together."""
    return max(1, min(MOST_LAUNCHES, math.ceil(LEAST_MS / max(one_ms, 1e-6))))


def time_in_turns(launches: list[Callable], rounds: int) -> list[list[float]]:
    """Milliseconds of each launch in each round. The order changes at random from round to round: a kernel
    that always came after the same one would find the GPU at the clock at which that one has left it.
    """
    for launch in launches:
        launch(0)
    torch.cuda.synchronize()
    counts = [1] * len(launches)
    times: list[list[float]] = [[] for _ in launches]
    host_s = HEAD_START_S
    for number in range(-2, rounds):  # two rounds to warm up
        order = Random(number).sample(range(len(launches)), len(launches))
        events = {}
        # The GPU sleeps until all launches are enqueued, so that it never waits for the host.
        torch.cuda._sleep(int(1.5 * max(host_s, HEAD_START_S) * CYCLES_PER_S))
        begin = time.perf_counter()
        for entry in order:
            count = counts[entry]
            numbers = range(number * count, (number + 1) * count)
            events[entry] = timed(launches[entry], numbers)
        host_s = time.perf_counter() - begin
        torch.cuda.synchronize()
        for entry, (before, after) in events.items():
            one_ms = before.elapsed_time(after) / counts[entry]
            if number == -2:
                counts[entry] = launches_per_timing(one_ms)
            elif number >= 0:
                times[entry].append(one_ms)
        if number == -2:
            host_s *= max(counts)
    return times


SUSTAINED_S = 0.3


def time_sustained(launch: Callable, one_ms: float, sampler: machine.Sampler) -> dict:
    """Launches a kernel for SUSTAINED_S without a pause, after a third of that to warm up.

    @param one_ms  about how long a launch takes
    @return  mean_ms, launches and, where the driver tells them, clock_mhz, watts and samples
    """
    count = max(3, math.ceil(1000 * SUSTAINED_S / one_ms))
    for number in range(count // 3):
        launch(number)
    torch.cuda.synchronize()
    begin = time.monotonic()
    before, after = timed(launch, range(count))
    after.synchronize()
    told = sampler.between(begin, time.monotonic())
    return {"mean_ms": before.elapsed_time(after) / count, "launches": count} | told


def run_point(
    plan: Plan, point: Point, rounds: int, sampler: machine.Sampler | None = None
) -> tuple[list[dict], list[dict]]:
    """The rows of a point, by turns and, with a sampler, sustained. @throws OutOfMemory"""
    with enough_memory(point):
        tensors = Tensors(point, rounds)
        entries = list(contenders(plan, point, tensors))
        errors = [error(point, launch(0), tensors.sets[0]) for _, _, launch in entries]
        times = time_in_turns([launch for _, _, launch in entries], rounds)
    rows = []
    for (chapter, name, _), wrong, samples in zip(entries, errors, times, strict=True):
        median = statistics.median(samples)
        rows.append(
            {
                **asdict(point),
                "chapter": chapter,
                "variant": name,
                "median_ms": median,
                "min_ms": min(samples),
                "max_ms": max(samples),
                "rounds": rounds,
                "tflops": point.flops / median / 1e9,
                "rel_l2": wrong,
                "right": wrong <= ERROR_LIMIT[DTYPES[point.dtype]] * (1 + point.backward),
            }
        )
    launches = [launch for _, _, launch in entries]
    return rows, sustained_rows(point, rows, launches, sampler) if sampler else []


def sustained_rows(
    point: Point, rows: list[dict], launches: list[Callable], sampler: machine.Sampler
) -> list[dict]:
    """The same kernels, sustained. Who comes last finds the hottest GPU, so each point has an order of its
    own.
    """
    found: list[dict] = [{}] * len(rows)
    for entry in Random(str(point)).sample(range(len(rows)), len(rows)):
        row = rows[entry]
        kernel = {**asdict(point), "chapter": row["chapter"], "variant": row["variant"]}
        told = time_sustained(launches[entry], row["median_ms"], sampler)
        tflops = point.flops / told["mean_ms"] / 1e9
        found[entry] = {**kernel, **told, "tflops": tflops}
    return found


def versions() -> dict:
    """The versions of the libraries whose kernels are timed."""
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}


def matrix_product(dtype: torch.dtype, n: int = 8192) -> float:
    """TFLOP/s of cuBLAS for an n x n x n product."""
    a, b = (torch.randn(n, n, dtype=dtype, device="cuda") for _ in range(2))
    samples = time_in_turns([lambda _: torch.mm(a, b)], 10)[0]
    return 2 * n**3 / statistics.median(samples) / 1e9


def show(point: Point, rows: list[dict]) -> None:
    """A line for a point, with each kernel's speed relative to the first peer, which is FA2 in 16 bits."""
    base = next((r for r in rows if r["chapter"] is None), None)
    cells = []
    for row in rows:
        ratio = ""
        if base and row is not base:
            ratio = f" ({base['median_ms'] / row['median_ms']:.3f})"
        wrong = "" if row["right"] else f" WRONG {row['rel_l2']:.1e}"
        cells.append(f"{row['variant']} {row['tflops']:.1f}{ratio}{wrong}")
    print(f"{point!s:34} {' | '.join(cells)}", flush=True)


def show_sustained(rows: list[dict]) -> None:
    """A line for a point, with the clock and the power while each kernel ran."""
    cells = []
    for row in rows:
        at = ""
        if "watts" in row:
            at = f" ({row['clock_mhz']:.0f} MHz, {row['watts']:.0f} W)"
        cells.append(f"{row['variant']} {row['tflops']:.1f}{at}")
    print(f"{'  sustained':34} {' | '.join(cells)}", flush=True)


def add(result: dict, plan: str, point: Point, rows: list[dict], sustained: list[dict]) -> None:
    """Adds what run_point() returned to the results, and shows it."""
    for key, found in (("timings", rows), ("sustained", sustained)):
        if found:
            of_plan = [{"plan": plan, **row} for row in found]
            result.setdefault(key, []).extend(of_plan)
    show(point, rows)
    if sustained:
        show_sustained(sustained)
    torch.cuda.empty_cache()


def with_other_plans(result: dict, names: list[str], before: dict) -> dict:
    """The results of these plans, and those of all others from an earlier run."""
    kept: set[str] = set()
    for key in ("timings", "sustained"):
        others = [row for row in before.get(key, []) if row["plan"] not in names]
        kept.update(row["plan"] for row in others)
        if others:
            result[key] = others + result.get(key, [])
    own = ("timings", "sustained", "earlier")
    earlier = [
        run | {"plans": [plan for plan in run["plans"] if plan in kept]} for run in before.get("earlier", [])
    ]
    of_earlier = {plan for run in earlier for plan in run["plans"]}
    last = {key: value for key, value in before.items() if key not in own}
    earlier.append({"plans": sorted(kept - of_earlier)} | last)
    result["earlier"] = [run for run in earlier if run["plans"]]
    return result


def main() -> int:
    parser = Arguments(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--points", default=",".join(PLANS), help=f"from {', '.join(PLANS)}")
    parser.add_argument("--repeat", type=at_least(1), default=30, metavar="R", help="rounds")
    parser.add_argument("--sustained", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    names = options.points.split(",")
    if unknown := [name for name in names if name not in PLANS]:
        print(f"bench: --points {unknown[0]}: must be one of {', '.join(PLANS)}", file=sys.stderr)
        return 2
    kept = {}
    if options.keep:
        if not options.json or not options.json.exists():
            print("bench: --keep needs --json with a file that exists", file=sys.stderr)
            return 2
        kept = json.loads(options.json.read_text())
    if not torch.cuda.is_available():
        print("bench: PyTorch finds no GPU", file=sys.stderr)
        return 3
    torch.manual_seed(0)
    before = machine.gpu()
    if kept and kept["device"] != before.get("name"):
        print(f"bench: {options.json} is of {kept['device']}", file=sys.stderr)
        return 2
    try:
        with enough_memory("cuBLAS 8192^3"):
            products = matrix_product(torch.float32), matrix_product(torch.bfloat16)
    except OutOfMemory as obstacle:
        print(f"bench: {obstacle}", file=sys.stderr)
        return 3
    result = {
        "device": before.get("name"),
        "machine": before | versions(),
        "gemm_fp32_tflops": products[0],
        "gemm_bf16_tflops": products[1],
        "timings": [],
    }
    print(
        f"{result['device']}: cuBLAS 8192^3 fp32 {result['gemm_fp32_tflops']:.1f},"
        f" bf16 {result['gemm_bf16_tflops']:.1f} TFLOP/s",
        flush=True,
    )
    with machine.Sampler() if options.sustained else contextlib.nullcontext() as sampler:
        for name in names:
            for point in PLANS[name].points:
                try:
                    found = run_point(PLANS[name], point, options.repeat, sampler)
                except (FileNotFoundError, OutOfMemory) as obstacle:
                    print(f"bench: {obstacle}", file=sys.stderr)
                    return 3
                add(result, name, point, *found)
    result["machine_after"] = machine.gpu()
    right = all(row["right"] for row in result["timings"])
    if kept:
        result = with_other_plans(result, names, kept)
    machine.write_results(options.json, result)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
