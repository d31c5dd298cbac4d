#!/usr/bin/env bash
# What Nsight Compute measures of this chapter, beside what the simulator counts:
#   ./learn profile 03
#   ./learn profile 03 --variant one_pass --heads 1 --seq-q 1000 --head-dim 128 --causal
# ./profile.sh --help has the options; ./learn profile builds what is missing.
#
# What to look at: the bytes at the L1 beside those of L2 and DRAM. Every row asks for all of K and V, and the caches
# answer most of it. `three_kernels` has a line for each of its kernels.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" -m tools.profile.chapter 03_one_pass_attention \
  --usual '--variant all --heads 2 --seq-q 256 --head-dim 64' \
  --large '--variant all --batch 8 --heads 16 --seq-q 1024 --head-dim 64' \
  --show requests,occupancy,stalls -- "$@"
