"""Measures chapters 03 to 08 for docs/results/, in three steps.

    attention_results.py count     on any machine: what the simulator counts   -> attention_simulator.json
    attention_results.py bytes     on any machine, half an hour or more: the bytes that every variant of every
                                   chapter moves for one head of the timed problems (for softmax: some
                                   rows) -> bytes.json. With chapters 09 and 10, for which hopper_results.py
                                   has the other steps
    attention_results.py measure   on a GPU: times of all variants and of PyTorch's kernels in one process
                                   (the ladders of tools/bench), and Nsight Compute's counts next to the
                                   simulator's -> attention_<gpu>.json

`count` and `bytes` need build/sim, `measure` needs build/cuda with its target chapter_libraries, ncu and
PyTorch. Exit status: 1 sectors or mma differ by more than 1 %, 2 something is not built, 3 no GPU or no ncu.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from ..bench import plans
from . import sectors, softmax_results

CHAPTERS = [
    "03_one_pass_attention",
    "04_tiled_v1",
    "05_loop_swapped_v2",
    "06_tensor_core_mma",
    "07_multi_stage",
    "08_backward",
]
# Whole tiles; ragged, causal and grouped; a few queries and many keys; the largest head_dim.
COUNTED = [
    {"heads": 2, "seq_q": 256, "seq_k": 256, "head_dim": 64},
    {"batch": 2, "heads": 6, "kv_heads": 2, "seq_q": 131, "seq_k": 333, "head_dim": 128, "causal": True},
    {"heads": 2, "seq_q": 77, "seq_k": 1000, "head_dim": 32},
    {"heads": 1, "seq_q": 300, "seq_k": 300, "head_dim": 256},
]
PROBLEM = ("batch", "heads", "kv_heads", "seq_q", "seq_k", "head_dim", "causal")

# Figure 2 of the first FlashAttention paper: the same kernel with ever larger key tiles.
BLOCK_SIZES = ["warp_per_rows", "bc_64", "bc_128", "bc_max"]
BLOCK_SIZES_PROBLEM = {"batch": 8, "heads": 16, "seq_q": 1024, "head_dim": 64}

# One head of each problem of tools/bench/plans.py, and the chapters whose variants are timed on it.
FP32 = {"heads": 1, "seq_q": 1024, "head_dim": 64, "dtype": "fp32"}
BF16 = {"heads": 1, "seq_q": 4096, "head_dim": 128, "dtype": "bf16"}
DRAWN = [
    ({"rows": 8, "cols": 4096}, softmax_results.CHAPTERS),
    (FP32, CHAPTERS[:3]),
    (BF16, [CHAPTERS[0], *CHAPTERS[3:5]]),
    (FP32, CHAPTERS[5:]),
    (BF16, CHAPTERS[5:]),
    (BF16, ["09_hopper", "10_hopper_backward"]),
]


def bytes_drawn() -> list[dict]:
    """The bytes that these problems request from HBM, counted by the simulator; in chapter 08, for both
    passes.
    """
    rows = []
    for problem, chapters in DRAWN:
        for chapter in chapters:
            options = sectors.as_options(problem)
            result = sectors.run_program("sim", chapter, "--variant", "all", "--no-check", *options)
            for variant in result["variants"]:
                counted = variant["traffic"]["counted"]
                rows.append(
                    {
                        "chapter": chapter,
                        "variant": variant["name"],
                        **problem,
                        "bytes": counted["read_bytes"] + counted["write_bytes"],
                    }
                )
    return rows


def block_sizes() -> dict:
    """Bytes and times of chapter 04 against the block size."""
    result = sectors.run_program(
        "cuda",
        "04_tiled_v1",
        *("--variant", ",".join(BLOCK_SIZES), "--bench", "--no-check"),
        *sectors.as_options(BLOCK_SIZES_PROBLEM),
    )
    rows = []
    for variant in result["variants"]:
        predicted = variant["traffic"]["predicted"]
        rows.append(
            {
                "variant": variant["name"],
                "bytes": predicted["read_bytes"] + predicted["write_bytes"],
                "median_ms": variant["time_ms"]["median"],
            }
        )
    return {"problem": BLOCK_SIZES_PROBLEM, "variants": rows}


def time_all() -> dict:
    """The times of the ladders, as tools/bench/attention.py measures them."""
    ladders = ",".join(name for name in plans.PLANS if "ladder" in name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.json"
        status = subprocess.run(
            [sys.executable, "-m", "tools.bench.attention", "--points", ladders, "--json", path],
            cwd=sectors.ROOT,
            check=False,
        ).returncode
        if not path.exists():
            sys.exit(status)
        return json.loads(path.read_text())


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1] not in ("count", "bytes", "measure"):
        print("attention_results: must be followed by count, bytes or measure", file=sys.stderr)
        return 2
    if sys.argv[1] == "count":
        runs = sectors.count(CHAPTERS, COUNTED, sectors.OF_CUBLAS)
        sectors.write("attention_simulator.json", {"runs": runs})
        return 0
    if sys.argv[1] == "bytes":
        sectors.write("bytes.json", {"runs": bytes_drawn()})
        return 0
    counted = json.loads((sectors.RESULTS / "attention_simulator.json").read_text())
    result = time_all() | {"block_sizes": block_sizes()}
    compared = sectors.compare(counted["runs"], PROBLEM)
    different = {
        what: sectors.largest_difference(compared, *names)
        for what, names in {
            "sectors": ("read_sectors", "write_sectors", "atomic_sectors"),
            "mma": ("mma",),
            "wavefronts": ("shared_load_wavefronts", "shared_store_wavefronts"),
        }.items()
    }
    for what, worst in different.items():
        print(f"{what}, simulator against Nsight Compute: at most {worst:.2%} apart in {len(compared)} runs")
    gpu = re.search(r"[A-Z]+\d+\w*", result["device"])  # H100 of "NVIDIA H100 80GB HBM3"
    sectors.write(f"attention_{gpu[0].lower() if gpu else 'gpu'}.json", {**result, "sectors": compared})
    return 0 if max(different["sectors"], different["mma"]) <= 0.01 else 1


if __name__ == "__main__":
    sys.exit(main())
