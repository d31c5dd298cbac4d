"""Measures shared-memory wavefronts with Nsight Compute, for the test of the simulator's bank model.

python3 -m tests.gpusim.measure_wavefronts build/cuda/bin/shared_patterns >
docs/results/shared_wavefronts.json
"""

import csv
import subprocess
import sys

from tools import results

METRIC = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    ncu = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "--metrics", METRIC]
    try:
        text = subprocess.run([*ncu, sys.argv[1]], check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        sys.exit("ncu is not on the PATH: it comes with the CUDA toolkit")
    lines = text.splitlines()
    names = [line.split(maxsplit=2)[1:] for line in lines if line.startswith("pattern ")]
    rows = list(csv.reader(line for line in lines if line.startswith('"')))
    column = rows[0].index(METRIC)
    launches = rows[2:]  # the second row holds the units
    if len(launches) != len(names):
        sys.exit(f"{len(names)} patterns, but {len(launches)} launches in ncu's output")
    patterns = [
        {"bytes": int(size), "element": element, "wavefronts": int(float(row[column]))}
        for (size, element), row in zip(names, launches, strict=True)
    ]
    gpu = subprocess.run(
        ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
        check=True,
        capture_output=True,
        text=True,
    )
    data = {"device": gpu.stdout.strip(), "metric": METRIC, "patterns": patterns}
    sys.stdout.write(results.text_of(data))


if __name__ == "__main__":
    main()
