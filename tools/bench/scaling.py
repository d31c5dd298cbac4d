"""Time and memory of the forward pass against the length, for ours and for standard attention while that
fits.

    python3 -m tools.bench.scaling [--longest N] [--json FILE]

bf16, one batch, 2048 / head_dim heads of N = 512 ... queries and keys, head_dim 64 and 128: the `final` of
chapter 07 and, where its kernels run, of chapter 09, and PyTorch's unfused attention, which keeps S and P in
HBM, in one process on the same tensors. Memory is what a kernel needs in addition to Q, K and V: O, LSE and
its workspace. The exponents a of N^a are fitted over the longer half.

Needs PyTorch, a GPU, and: cmake --build --preset cuda --target chapter_libraries
Exit status: 2 the arguments are unusable, 3 no GPU, no PyTorch or nothing built.
"""

from __future__ import annotations

import math
import statistics
import sys
from pathlib import Path

from ..options import Arguments, at_least
from . import machine
from .attention import OutOfMemory, Point, enough_memory, exact, peer, time_in_turns, torch, versions
from .chapter_library import ChapterLibrary

VARIANT = "final"
CHAPTERS = ("07_multi_stage", "09_hopper")
STANDARD = "unfused"
KERNELS = {**{f"{chapter[:2]} {VARIANT}": chapter for chapter in CHAPTERS}, STANDARD: None}
ROUNDS = 5


class OneSet:
    """A single set of Q, K and V, in the form that attention.peer() takes."""

    def __init__(self, point: Point):
        shape = (point.batch, point.heads, point.seq, point.head_dim)
        self.sets = [[torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in "qkv"]]


def outside_of_torch() -> int:
    """Bytes of device memory in use outside PyTorch's allocator."""
    free, total = torch.cuda.mem_get_info()
    return total - free - torch.cuda.memory_reserved()


def launch_of(name: str, point: Point, tensors: OneSet):
    """A function that launches a kernel and returns O."""
    if name == STANDARD:
        return peer(name, point, tensors)
    bound = ChapterLibrary(KERNELS[name]).bind(VARIANT, *tensors.sets[0])
    stream = torch.cuda.current_stream()

    def launch(_):
        bound.launch(stream)
        return (bound.o,)

    return launch


def measure(point: Point, name: str, tensors: OneSet) -> dict:
    """A row: time and memory of one kernel, or why it has none."""
    row = {"kernel": name, "head_dim": point.head_dim, "seq": point.seq}
    torch.cuda.reset_peak_memory_stats()
    before, outside = torch.cuda.memory_allocated(), outside_of_torch()
    try:
        with enough_memory(point):
            launch = launch_of(name, point, tensors)
            o = launch(0)[0][0, 0, -4096:].double()
            torch.cuda.synchronize()
            workspace = max(0, outside_of_torch() - outside)
            peak = torch.cuda.max_memory_allocated() - before + workspace
            median = statistics.median(time_in_turns([launch], ROUNDS)[0])
    except OutOfMemory:
        return row | {"fits": False}
    row |= {"bytes": peak, "median_ms": median}
    torch.cuda.empty_cache()
    reference = exact(point, [t[0, 0] for t in tensors.sets[0]])[0][-4096:]
    row["rel_l2"] = float((o - reference).norm() / reference.norm())
    return row | {"fits": True}


def exponent(rows: list[dict], what: str) -> float:
    """a of N^a, by least squares over the longer half of the lengths."""
    rows = [row for row in rows if row["fits"]]
    rows = rows[len(rows) // 2 :]
    x = [math.log(row["seq"]) for row in rows]
    y = [math.log(row[what]) for row in rows]
    return statistics.linear_regression(x, y).slope


def main() -> int:
    parser = Arguments(description=__doc__.split("\n\n")[0])
    parser.add_argument("--longest", type=at_least(1), default=131072, metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.longest < 1024:
        print(f"scaling: --longest {options.longest}: must be 1024 or more", file=sys.stderr)
        return 2
    if not torch.cuda.is_available():
        print("scaling: PyTorch finds no GPU", file=sys.stderr)
        return 3
    before = machine.gpu()
    rows, fits = [], []
    for head_dim in (64, 128):
        first = Point("bf16", 1, 2048 // head_dim, 512, head_dim, False)
        kernels = []
        for name in KERNELS:
            try:
                with enough_memory(first):
                    launch_of(name, first, OneSet(first))
            except (FileNotFoundError, OutOfMemory) as obstacle:
                print(f"scaling: {obstacle}", file=sys.stderr)
                return 3
            except RuntimeError as refusal:
                print(f"  {name} does not run: {refusal}", file=sys.stderr)
                continue
            kernels.append(name)
        for name in kernels:
            try:
                with enough_memory(first):
                    row = measure(first, name, OneSet(first))  # loads the libraries
                if not row["fits"]:
                    raise OutOfMemory(f"{first} does not fit into the GPU's memory")
            except (FileNotFoundError, OutOfMemory) as obstacle:
                print(f"scaling: {obstacle}", file=sys.stderr)
                return 3
        for name in kernels:
            own = []
            seq = 512
            while seq <= options.longest and (not own or own[-1]["fits"]):
                point = Point("bf16", 1, 2048 // head_dim, seq, head_dim, False)
                own.append(measure(point, name, OneSet(point)))
                torch.cuda.empty_cache()
                row = own[-1]
                told = (
                    f"{row['median_ms']:9.3f} ms {row['bytes'] / 2**20:9.1f} MiB, error {row['rel_l2']:.1e}"
                    if row["fits"]
                    else "does not fit"
                )
                print(f"{name:9} d={head_dim:<3} N={seq:<6} {told}", flush=True)
                seq *= 2
            fit = {
                "kernel": name,
                "head_dim": head_dim,
                "time": exponent(own, "median_ms"),
                "memory": exponent(own, "bytes"),
            }
            print(f"{name:9} d={head_dim:<3} time ~ N^{fit['time']:.2f}, memory ~ N^{fit['memory']:.2f}")
            rows += own
            fits.append(fit)
    result = {"device": before.get("name"), "machine": before | versions()}
    machine.write_results(options.json, result | {"rows": rows, "fits": fits})
    return 0


if __name__ == "__main__":
    sys.exit(main())
