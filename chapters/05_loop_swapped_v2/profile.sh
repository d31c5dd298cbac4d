#!/usr/bin/env bash
# Shows what Nsight Compute measures for this chapter next to what the simulator counts:
#   ./learn profile 05
#   ./learn profile 05 --variant register_tiled --heads 3 --seq-q 1000 --head-dim 128
# ./profile.sh --help has the options; ./learn profile builds what is missing.
#
# What to look at: the bytes requested, which fall as Br grows, and the few that reach DRAM; and the wavefronts of
# shared memory, which fall as the outer products grow.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" -m tools.profile.chapter 05_loop_swapped_v2 \
  --usual '--variant all --heads 2 --seq-q 256 --head-dim 64' \
  --large '--variant all --batch 8 --heads 16 --seq-q 1024 --head-dim 64' \
  --show requests,shared,occupancy,stalls -- "$@"
