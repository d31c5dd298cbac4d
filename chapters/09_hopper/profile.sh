#!/usr/bin/env bash
# Shows what Nsight Compute measures for this chapter next to what the simulator counts:
#   ./learn profile 09
#   ./learn profile 09 --variant specialised,final --heads 3 --seq-q 1000 --head-dim 128 --causal
# ./profile.sh --help lists the options; ./learn profile builds what is missing.
#
# What to look at: the bytes at L2, because the copy engine does not pass through L1, whose counters see loads and stores of
# threads only; no bank conflicts; with --large, how busy the tensor cores are, and what the warps wait for.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" -m tools.profile.chapter 09_hopper \
  --usual '--variant all --heads 16 --seq-q 256 --head-dim 64' \
  --large '--variant all --batch 4 --heads 16 --seq-q 4096 --head-dim 128' \
  --show shared,tensor,occupancy,stalls -- "$@"
