#!/usr/bin/env bash
# Shows what Nsight Compute measures for this chapter next to what the simulator counts:
#   ./learn profile 06
#   ./learn profile 06 --variant exp2 --heads 3 --seq-q 1000 --head-dim 128 --dtype fp16
# ./profile.sh --help has the options; ./learn profile builds what is missing.
#
# What to look at: the bank conflicts, which `padded` and `swizzled` remove; the wavefronts, which fall once more when
# Q stays in registers; and the tensor instructions, the same for all variants:
#   batch * heads * ceil(seq_q / 128) * ceil(seq_k / 64) * 8 warps * 2 * (64 / 8) * (head_dim / 16)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" -m tools.profile.chapter 06_tensor_core_mma \
  --usual '--variant all --heads 16 --seq-q 256 --head-dim 64' \
  --large '--variant all --batch 4 --heads 16 --seq-q 4096 --head-dim 64' \
  --show requests,shared,tensor,occupancy,stalls -- "$@"
