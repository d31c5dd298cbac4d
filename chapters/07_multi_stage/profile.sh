#!/usr/bin/env bash
# Shows what Nsight Compute measures for this chapter next to what the simulator counts:
#   ./learn profile 07
#   ./learn profile 07 --variant stages_1,final --heads 3 --seq-q 1000 --head-dim 128 --causal
# ./profile.sh --help lists the options; ./learn profile builds what is missing.
#
# What to look at: the bytes, which are the same in all variants and include those of cp.async; the shared memory wavefronts,
# which two_rows_of_mma halves; no bank conflicts; O in stores of 16 sectors. With --large: what the warps wait for.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" -m tools.profile.chapter 07_multi_stage \
  --usual '--variant all --heads 16 --seq-q 256 --head-dim 64' \
  --large '--variant all --batch 4 --heads 16 --seq-q 4096 --head-dim 64' \
  --show requests,shared,tensor,occupancy,stalls -- "$@"
