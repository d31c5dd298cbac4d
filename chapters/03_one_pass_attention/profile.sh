#!/usr/bin/env bash
# Shows what Nsight Compute measures for this chapter next to what the simulator counts:
#   ./learn profile 03
#   ./learn profile 03 --variant one_pass --heads 1 --seq-q 1000 --head-dim 128 --causal
# ./profile.sh --help lists the options; ./learn profile builds what is missing.
#
# What to look at: the bytes at the L1 compared with those at the L2 and the DRAM. Every row requests all of K and V,
# and the caches supply most of them. `three_kernels` has one line per kernel.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" -m tools.profile.chapter 03_one_pass_attention \
  --usual '--variant all --heads 2 --seq-q 256 --head-dim 64' \
  --large '--variant all --batch 8 --heads 16 --seq-q 1024 --head-dim 64' \
  --show requests,occupancy,stalls -- "$@"
