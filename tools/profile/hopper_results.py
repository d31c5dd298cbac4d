"""Measures chapter 09 for docs/results/, in two steps. Its copy engine does not use the L1's pipe of loads and stores,
so its sectors are compared where they leave the multiprocessor and at the L2.

    hopper_results.py count     on any machine: what the simulator counts             -> hopper_simulator.json
    hopper_results.py measure   on an H100 or H200: Nsight Compute's counts next to the simulator's
                                                                                       -> hopper_<gpu>.json

`count` needs build/sim, `measure` needs build/cuda and ncu.
Exit status: 1 the counts differ, 2 something is not built, 3 no GPU or no ncu.
"""

import json
import re
import sys

from ..bench import machine
from . import attention_results, sectors

CHAPTER = "09_hopper"
# Whole tiles; ragged, causal and grouped; the largest head_dim; ragged, with one query tile for each head.
COUNTED = [
    *(p for p in attention_results.COUNTED if p["head_dim"] >= 64),
    {"heads": 8, "seq_q": 60, "seq_k": 333, "head_dim": 128},
]
AT_L2 = ("l2_read_sectors", "l2_write_sectors", "l2_atomic_sectors")
NAMES = [*sectors.NAMES, *AT_L2, "l2_atom_sectors"]
NAMES += ["landed_sectors", "copied_out_sectors", "wgmma"]
EQUAL = ("landed_sectors", "l2_write_sectors", "l2_atomic_sectors", "mma", "wgmma")


def of_l2(row: dict) -> dict:
    """A counted row, with the names under which these counts are measured."""
    renamed = {name.removeprefix("l2_"): name for name in AT_L2}
    return {renamed.get(name, name): value for name, value in row.items()}


def differences(compared: list[dict]) -> dict[str, float]:
    """The largest relative difference of each count that must agree. The L2's own count of reads is not among them: it
    depends on who else wants the same sectors, and when."""
    return {name: sectors.largest_difference(compared, name) for name in EQUAL}


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1] not in ("count", "measure"):
        print("hopper_results: must be followed by count or measure", file=sys.stderr)
        return 2
    if sys.argv[1] == "count":
        runs = [of_l2(row) for row in sectors.count([CHAPTER], COUNTED)]
        sectors.write("hopper_simulator.json", {"runs": runs})
        return 0
    device = machine.gpu().get("name", "")
    counted = json.loads((sectors.RESULTS / "hopper_simulator.json").read_text())
    compared = sectors.compare(counted["runs"], attention_results.PROBLEM, NAMES)
    found = differences(compared)
    for name, worst in found.items():
        print(f"{name}: at most {worst:.2%} apart")
    gpu = re.search(r"[A-Z]+\d+\w*", device)  # H200 of "NVIDIA H200"
    name = gpu[0].lower() if gpu else "gpu"
    sectors.write(f"hopper_{name}.json", {"device": device, "sectors": compared})
    return 0 if max(found.values()) <= 0.01 else 1


if __name__ == "__main__":
    sys.exit(main())
