#!/usr/bin/env bash
# What Nsight Compute measures of this chapter, beside what the simulator counts:
#   ./learn profile 11
#   ./learn profile 11 --variant compressed --heads 3 --seq-q 1000 --causal --documents data/masks/documents_1024.npy
# ./profile.sh --help has the options; ./learn profile builds what is missing.
#
# What to look at: sectors and tensor instructions of masked_everywhere and of the others, which fall with the tiles that are
# visited; with --large, what the warps of skip_empty wait for when they look for tiles, and those of compressed do not.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" -m tools.profile.chapter 11_masks \
  --usual '--variant all --heads 4 --seq-q 512 --causal --window 100' \
  --large '--variant all --batch 4 --heads 16 --seq-q 4096 --causal --window 1024 --head-dim 128' \
  --show requests,shared,tensor,occupancy,stalls -- "$@"
