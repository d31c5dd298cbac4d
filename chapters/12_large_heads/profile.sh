#!/usr/bin/env bash
# Shows what Nsight Compute measures for this chapter next to what the simulator counts:
#   ./learn profile 12
#   ./learn profile 12 --variant o_shared,cluster --heads 2 --seq-q 1000 --head-dim 576 --head-dim-v 512 --causal
# ./profile.sh --help lists the options; ./learn profile builds what is missing.
#
# What to look at: the sectors that land, which are K once for each part of the columns of O; and how many
# wgmma there are: more, if the same scores are computed again. With --large: how busy the tensor cores are, and what the
# warps wait for.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" -m tools.profile.chapter 12_large_heads \
  --usual '--variant slices_of_d,spilled,o_shared,cluster,overlapped --dtype bf16 --heads 2 --seq-q 256 --head-dim 512' \
  --large '--variant slices_of_d,spilled,o_shared,cluster,overlapped --dtype bf16 --batch 2 --heads 4 --seq-q 8192 --head-dim 512' \
  --show shared,wgmma,occupancy,stalls -- "$@"
