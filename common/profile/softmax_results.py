"""Measures chapters 01 and 02 for docs/results/, in two steps.

    softmax_results.py count     on any machine: what the simulator counts   -> softmax_simulator.json
    softmax_results.py measure   on a GPU: times, a copy and torch.softmax in the same run, and the sectors that
                                 Nsight Compute sees beside the simulator's  -> softmax_<gpu>.json

`count` needs build/sim, `measure` needs build/cuda, ncu and (for the comparison) PyTorch.
Exit status: 1 the sectors differ by more than 1 %, 2 something is not built, 3 no GPU or no ncu.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import ncu_table

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
CHAPTERS = ["ch01_safe_softmax", "ch02_online_softmax"]
# Rows x columns whose sectors are compared: aligned, ragged, shorter than a warp's step, longer than what fits on the
# chip. The first is larger than the L2.
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
# What is timed: 512 MiB in, 512 MiB out.
TIMED = [(131072, 1024), (32768, 4096), (4096, 32768), (1024, 131072)]
REPEAT = 30


def run_program(build: str, chapter: str, *options: str) -> dict:
    """The JSON of a chapter's run."""
    program = ROOT / "build" / build / "bin" / chapter
    if not program.exists():
        sys.exit(
            f"there is no {program}: build it with cmake --workflow --preset {build}"
        )
    run = subprocess.run(
        [program, "--variant", "all", "--json", "-", *options],
        check=False,
        capture_output=True,
        text=True,
    )
    if run.returncode != 0:
        print(run.stdout, run.stderr, sep="\n", file=sys.stderr)
        sys.exit(run.returncode)
    return json.loads(run.stdout)


def shape_options(rows: int, cols: int) -> list[str]:
    """The options of a shape."""
    return ["--rows", str(rows), "--cols", str(cols)]


def count() -> dict:
    """Sectors and requests of every variant, from the simulator."""
    runs = []
    for rows, cols in COUNTED:
        for chapter in CHAPTERS:
            for variant in run_program("sim", chapter, *shape_options(rows, cols))[
                "variants"
            ]:
                counted = variant["traffic"]["counted"]
                runs.append(
                    {
                        "chapter": chapter[2:],
                        "variant": variant["name"],
                        "rows": rows,
                        "cols": cols,
                        "read_sectors": counted["read_sectors"],
                        "write_sectors": counted["write_sectors"],
                        "read_requests": counted["read_requests"],
                        "write_requests": counted["write_requests"],
                    }
                )
    return {"runs": runs}


def profile(chapter: str, rows: int, cols: int) -> list[dict]:
    """What Nsight Compute measures of each variant, in the chapter's order."""
    metrics = {
        f"{kind}_{what}": ncu_table.GLOBAL.format(what, op)
        for kind, op in (("read", "ld"), ("write", "st"))
        for what in ("sectors", "requests")
    } | {
        "dram_read_bytes": "dram__bytes_read.sum",
        "dram_write_bytes": "dram__bytes_write.sum",
    }
    program = ROOT / "build" / "cuda" / "bin" / chapter
    with tempfile.NamedTemporaryFile(suffix=".csv") as log:
        ncu = [
            "ncu",
            "--clock-control",
            "none",
            "--csv",
            "--page",
            "raw",
            "--print-units",
            "base",
        ]
        ncu += ["--log-file", log.name, "--metrics", ",".join(metrics.values())]
        options = ["--variant", "all", "--no-check", *shape_options(rows, cols)]
        try:
            subprocess.run([*ncu, program, *options], check=True, capture_output=True)
        except FileNotFoundError:
            print("ncu is not in PATH: it comes with the CUDA toolkit", file=sys.stderr)
            sys.exit(3)
        launches = ncu_table.read_launches(Path(log.name).read_text())
    return [
        {name: int(launch.values[metric]) for name, metric in metrics.items()}
        for launch in launches
    ]


def compare(simulator: dict) -> tuple[list[dict], float]:
    """Each counted run beside the measured one, and the largest relative difference of the sectors."""
    rows_out, worst = [], 0.0
    for rows, cols in COUNTED:
        for chapter in CHAPTERS:
            here = [
                run
                for run in simulator["runs"]
                if (run["chapter"], run["rows"], run["cols"])
                == (chapter[2:], rows, cols)
            ]
            for counted, measured in zip(
                here, profile(chapter, rows, cols), strict=True
            ):
                for key in ("read_sectors", "write_sectors"):
                    worst = max(worst, abs(measured[key] / counted[key] - 1))
                rows_out.append({**counted, "measured": measured})
    return rows_out, worst


def torch_softmax(rows: int, cols: int) -> float | None:
    """Median milliseconds of torch.softmax, launches and buffers rotated as the harness does."""
    try:
        import torch
    except ImportError:
        return None
    inputs = [torch.randn(rows, cols, device="cuda") for _ in range(3)]
    outputs = [torch.empty_like(x) for x in inputs]
    before, after = (
        [torch.cuda.Event(enable_timing=True) for _ in range(REPEAT)] for _ in range(2)
    )
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


def time_all() -> tuple[str, list[dict]]:
    """The device, and GB/s of every variant and of torch.softmax: x read once and y written once."""
    timings, device = [], ""
    for rows, cols in TIMED:
        for chapter in CHAPTERS:
            options = [
                "--bench",
                "--repeat",
                str(REPEAT),
                "--no-check",
                *shape_options(rows, cols),
            ]
            result = run_program("cuda", chapter, *options)
            device = result["device"]
            for variant in result["variants"]:
                timings.append(
                    {
                        "chapter": chapter[2:],
                        "variant": variant["name"],
                        "rows": rows,
                        "cols": cols,
                        "median_ms": variant["time_ms"]["median"],
                        "repeats": variant["time_ms"]["repeats"],
                        "gb_per_s": variant["gb_per_s"],
                        "share_of_copy": variant["share_of_copy"],
                    }
                )
        if (milliseconds := torch_softmax(rows, cols)) is not None:
            timings.append(
                {
                    "chapter": None,
                    "variant": "torch.softmax",
                    "rows": rows,
                    "cols": cols,
                    "median_ms": milliseconds,
                    "repeats": REPEAT,
                    "gb_per_s": 2 * 4 * rows * cols / milliseconds / 1e6,
                }
            )
    return device, timings


def write(name: str, data: dict) -> None:
    """Writes a results file, whole or not at all."""
    path = RESULTS / name
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(data, indent=1) + "\n")
    partial.replace(path)
    print(f"wrote {path.relative_to(ROOT)}")


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1] not in ("count", "measure"):
        print(__doc__, file=sys.stderr)
        return 2
    if sys.argv[1] == "count":
        write("softmax_simulator.json", count())
        return 0
    device, timings = time_all()
    for t in timings:
        share = f"{t['share_of_copy']:.3f} of copy" if "share_of_copy" in t else ""
        print(
            f"{t['rows']:7} x {t['cols']:<7} {t['variant']:16} {t['gb_per_s']:8.1f} GB/s {share}"
        )
    sectors, worst = compare(
        json.loads((RESULTS / "softmax_simulator.json").read_text())
    )
    print(
        f"sectors, simulator against Nsight Compute: {worst:.2%} apart at most, {len(sectors)} runs"
    )
    gpu = re.search(r"[A-Z]+\d+\w*", device)  # H100 of "NVIDIA H100 80GB HBM3"
    name = gpu[0].lower() if gpu else "gpu"
    write(
        f"softmax_{name}.json",
        {"device": device, "timings": timings, "sectors": sectors},
    )
    return 0 if worst <= 0.01 else 1


if __name__ == "__main__":
    sys.exit(main())
