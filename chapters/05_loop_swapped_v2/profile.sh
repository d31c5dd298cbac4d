#!/usr/bin/env bash
# What Nsight Compute measures of this chapter, beside what the simulator counts:
#   ./learn profile 05
#   ./learn profile 05 --variant register_tiled --heads 3 --seq-q 1000 --head-dim 128
# ./profile.sh --help has the options; ./learn profile builds what is missing.
#
# What to look at: the bytes, which fall with Br, and are few at the DRAM; and the wavefronts of shared memory, which
# fall with the size of the outer products.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" -m tools.profile.chapter 05_loop_swapped_v2 \
  --usual '--variant all --heads 2 --seq-q 256 --head-dim 64' \
  --large '--variant all --batch 8 --heads 16 --seq-q 1024 --head-dim 64' \
  --show requests,shared,occupancy,stalls -- "$@"
