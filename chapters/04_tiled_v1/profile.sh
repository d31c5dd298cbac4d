#!/usr/bin/env bash
# Shows what Nsight Compute measures for this chapter next to what the simulator counts:
#   ./learn profile 04
#   ./learn profile 04 --variant bc_max --heads 3 --seq-q 1000 --head-dim 32
# ./profile.sh --help lists the options; ./learn profile builds what is missing.
#
# What to look at: the sectors per load, which `cooperative` reduces from 32 to 4; the bank conflicts; and the bytes of
# the variants with larger key tiles.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" -m tools.profile.chapter 04_tiled_v1 \
  --usual '--variant all --heads 2 --seq-q 256 --head-dim 64' \
  --large '--variant all --batch 8 --heads 16 --seq-q 1024 --head-dim 64' \
  --show requests,shared,occupancy,stalls -- "$@"
