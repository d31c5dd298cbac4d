"""Measures chapters 01 and 02 for docs/results/, in two steps.

    softmax_results.py count     on any machine: what the simulator counts   -> softmax_simulator.json
    softmax_results.py measure   on a GPU: times, with a copy and torch.softmax in the same run, and Nsight
                                 Compute's sectors next to the simulator's             -> softmax_<gpu>.json

`count` needs build/sim, `measure` needs build/cuda, ncu and (for the comparison) PyTorch.
Exit status: 1 a result is wrong or the sectors differ by more than 1 %, 2 something is not built, 3 no GPU or
no ncu.
"""

import json
import re
import sys

from ..bench import machine
from . import sectors

CHAPTERS = ["01_safe_softmax", "02_online_softmax"]
# The shapes (rows x columns) whose sectors are compared: aligned, ragged, shorter than a warp's step, longer
# than fits on the chip. The first is larger than the L2.
COUNTED = [
    (8192, 4096),
    (2048, 1024),
    (999, 1003),
    (257, 4099),
    (61, 32771),
    (64, 32768),
    (6, 131072),
    (5, 131077),
    (3000, 33),
]
# The timed shapes: 512 MiB in, 512 MiB out.
TIMED = [(131072, 1024), (32768, 4096), (4096, 32768), (1024, 131072)]
REPEAT = 30


def problem(rows: int, cols: int) -> dict:
    """A shape as options for sectors.py."""
    return {"rows": rows, "cols": cols}


def torch_softmax(rows: int, cols: int) -> float | None:
    """Median milliseconds of torch.softmax, with launches and buffers rotated as in the harness."""
    try:
        import torch
    except ImportError:
        return None
    inputs = [torch.randn(rows, cols, device="cuda") for _ in range(3)]
    outputs = [torch.empty_like(x) for x in inputs]
    before, after = ([torch.cuda.Event(enable_timing=True) for _ in range(REPEAT)] for _ in range(2))
    for i in range(10):
        torch.softmax(inputs[i % 3], dim=-1, out=outputs[i % 3])
    torch.cuda.synchronize()
    for i in range(REPEAT):
        before[i].record()
        torch.softmax(inputs[i % 3], dim=-1, out=outputs[i % 3])
        after[i].record()
    torch.cuda.synchronize()
    times = sorted(before[i].elapsed_time(after[i]) for i in range(REPEAT))
    del inputs, outputs
    torch.cuda.empty_cache()
    return times[REPEAT // 2]


def time_chapter(chapter: str, rows: int, cols: int) -> list[dict]:
    """GB/s of every variant: x read once and y written once. Ends the program if one does not run."""
    options = ["--variant", "all", "--bench", "--repeat", str(REPEAT), "--check-ends"]
    result = sectors.run_program("cuda", chapter, *options, *sectors.as_options(problem(rows, cols)))
    timings = []
    for variant in result["variants"]:
        if failure := variant.get("failure"):
            sys.exit(f"{chapter}/{variant['name']} on {rows} x {cols}: {failure}")
        time = variant["time_ms"]
        timings.append(
            {
                "chapter": chapter,
                "variant": variant["name"],
                "rows": rows,
                "cols": cols,
                **{f"{name}_ms": time[name] for name in ("median", "min", "max")},
                "repeats": time["repeats"],
                "right": variant["check"]["passed"],
                "gb_per_s": variant["gb_per_s"],
                "share_of_copy": variant["share_of_copy"],
            }
        )
    return timings


def time_torch(rows: int, cols: int) -> list[dict]:
    """A row for torch.softmax, or none without PyTorch."""
    milliseconds = torch_softmax(rows, cols)
    if milliseconds is None:
        return []
    return [
        {
            "chapter": None,
            "variant": "torch.softmax",
            "rows": rows,
            "cols": cols,
            "median_ms": milliseconds,
            "repeats": REPEAT,
            "gb_per_s": 2 * 4 * rows * cols / milliseconds / 1e6,
        }
    ]


def time_all(chapters: list[str] = CHAPTERS, peers: bool = True) -> list[dict]:
    """The rows of every shape; prints each as soon as it is measured."""
    timings = []
    for rows, cols in TIMED:
        of_shape = [t for c in chapters for t in time_chapter(c, rows, cols)]
        of_shape += time_torch(rows, cols) if peers else []
        for t in of_shape:
            share = f", {t['share_of_copy']:.0%} of a copy" if "share_of_copy" in t else ""
            wrong = "" if t.get("right", True) else " WRONG"
            shape = f"{rows} x {cols}"
            print(f"{shape:18} {t['variant']:16} {t['gb_per_s']:8.1f} GB/s{share}{wrong}", flush=True)
        timings += of_shape
    return timings


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1] not in ("count", "measure"):
        print("softmax_results: must be followed by count or measure", file=sys.stderr)
        return 2
    if sys.argv[1] == "count":
        runs = sectors.count(CHAPTERS, [problem(*shape) for shape in COUNTED])
        sectors.write("softmax_simulator.json", {"runs": runs})
        return 0
    device = machine.gpu().get("name", "")
    timings = time_all()
    counted = json.loads((sectors.RESULTS / "softmax_simulator.json").read_text())
    compared = sectors.compare(counted["runs"], ("rows", "cols"))
    worst = sectors.largest_difference(compared, "read_sectors", "write_sectors")
    print(f"sectors, simulator against Nsight Compute: at most {worst:.2%} apart in {len(compared)} runs")
    gpu = re.search(r"[A-Z]+\d+\w*", device)  # H100 of "NVIDIA H100 80GB HBM3"
    name = gpu[0].lower() if gpu else "gpu"
    sectors.write(f"softmax_{name}.json", {"device": device, "timings": timings, "sectors": compared})
    right = all(t.get("right", True) for t in timings)
    return 0 if worst <= 0.01 and right else 1


if __name__ == "__main__":
    sys.exit(main())
