"""Measures chapter 09, 10, 12 or 14 for docs/results/, in two steps. Their copy engine does not use the L1's
pipe of loads and stores, so their sectors are compared where they leave the multiprocessor and at the L2.

    hopper_results.py count [NN]     on any machine: what the simulator counts        -> hopper_simulator.json
    hopper_results.py measure [NN]   on an H100 or H200: Nsight Compute's counts next to the simulator's
                                                                                      -> hopper_<gpu>.json
NN is 09, unless given; the files of chapter 10 begin with hopper_backward_, those of chapter 12 with
large_heads_, those of chapter 14 with decoding_sectors_.

`count` needs build/sim, `measure` needs build/cuda and ncu.
Exit status: 1 the counts differ, 2 something is not built, 3 no GPU or no ncu.
"""

import json
import re
import sys

from ..bench import machine
from . import attention_results, sectors

# Whole tiles; ragged, causal and grouped; the largest head_dim.
OF_ATTENTION = [p for p in attention_results.COUNTED if p["head_dim"] >= 64]
# Chapter, beginning of its files, problems.
CHAPTERS = {
    "09": (
        "09_hopper",
        "hopper",
        # Ragged, with one query tile for each head.
        [*OF_ATTENTION, {"heads": 8, "seq_q": 60, "seq_k": 333, "head_dim": 128}],
    ),
    "10": ("10_hopper_backward", "hopper_backward", OF_ATTENTION),
    "12": (
        "12_large_heads",
        "large_heads",
        [
            {"heads": 1, "seq_q": 256, "seq_k": 256, "head_dim": 1024, "dtype": "bf16"},
            {
                "heads": 4,
                "kv_heads": 2,
                "seq_q": 100,
                "seq_k": 150,
                "head_dim": 576,
                "head_dim_v": 512,
                "causal": True,
                "dtype": "bf16",
            },
            {"heads": 1, "seq_q": 256, "seq_k": 256, "head_dim": 1024, "dtype": "fp32"},
        ],
    ),
    "14": (
        "14_decoding",
        "decoding_sectors",
        # Whole tiles; ragged, with several queries of one head of K and V; the largest head_dim.
        [
            {
                "batch": 2,
                "heads": 8,
                "kv_heads": 2,
                "seq_q": 1,
                "seq_k": 1024,
                "head_dim": 128,
                "dtype": "bf16",
            },
            {"heads": 8, "kv_heads": 1, "seq_q": 5, "seq_k": 3333, "head_dim": 64, "dtype": "bf16"},
            {"batch": 3, "heads": 4, "seq_q": 1, "seq_k": 777, "head_dim": 256, "dtype": "bf16"},
        ],
    ),
}
AT_L2 = ("l2_read_sectors", "l2_write_sectors", "l2_atomic_sectors")
NAMES = [*sectors.NAMES, *AT_L2, "l2_atom_sectors"]
NAMES += ["landed_sectors", "copied_out_sectors", "wgmma"]
EQUAL = ("landed_sectors", "l2_write_sectors", "l2_atomic_sectors", "mma", "wgmma")


def of_l2(row: dict) -> dict:
    """A counted row, with the names under which these counts are measured."""
    renamed = {name.removeprefix("l2_"): name for name in AT_L2}
    return {renamed.get(name, name): value for name, value in row.items()}


def differences(compared: list[dict]) -> dict[str, float]:
    """The largest relative difference of each count that must agree. The L2's own count of reads is not among
    them: it depends on who else wants the same sectors, and when."""
    return {name: sectors.largest_difference(compared, name) for name in EQUAL}


def main() -> int:
    step, number = (*sys.argv[1:], "09")[:2]
    if len(sys.argv) not in (2, 3) or step not in ("count", "measure"):
        print("hopper_results: must be followed by count or measure", file=sys.stderr)
        return 2
    if number not in CHAPTERS:
        print(f"hopper_results: {number}: must be one of {', '.join(CHAPTERS)}", file=sys.stderr)
        return 2
    chapter, files, problems = CHAPTERS[number]
    if step == "count":
        runs = [of_l2(row) for row in sectors.count([chapter], problems)]
        sectors.write(f"{files}_simulator.json", {"runs": runs})
        return 0
    device = machine.gpu().get("name", "")
    counted = json.loads((sectors.RESULTS / f"{files}_simulator.json").read_text())
    problem = (*attention_results.PROBLEM, "head_dim_v", "dtype")
    compared = sectors.compare(counted["runs"], problem, NAMES)
    found = differences(compared)
    for name, worst in found.items():
        print(f"{name}: at most {worst:.2%} apart")
    gpu = re.search(r"[A-Z]+\d+\w*", device)  # H200 of "NVIDIA H200"
    name = gpu[0].lower() if gpu else "gpu"
    sectors.write(f"{files}_{name}.json", {"device": device, "sectors": compared})
    return 0 if max(found.values()) <= 0.01 else 1


if __name__ == "__main__":
    sys.exit(main())
