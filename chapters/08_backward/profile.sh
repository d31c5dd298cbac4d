#!/usr/bin/env bash
# What Nsight Compute measures of this chapter, beside what the simulator counts:
#   ./learn profile 08
#   ./learn profile 08 --variant mma_pipelined --heads 3 --seq-q 1000 --head-dim 128 --dtype bf16
# ./profile.sh --help has the options; ./learn profile builds what is missing.
#
# What to look at: one line each for the forward pass, D and the gradients; the sectors of atomic additions, of which
# fp32_fused uses a quarter and mma_fused all; the tensor instructions of five products or seven.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" -m tools.profile.chapter 08_backward \
  --usual '--variant all --heads 4 --seq-q 256 --head-dim 64' \
  --large '--variant mma_fused,mma_pipelined,mma_deterministic --batch 4 --heads 16 --seq-q 4096 --head-dim 64' \
  --show atomics,requests,shared,tensor,occupancy,stalls -- "$@"
