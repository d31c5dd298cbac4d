#!/usr/bin/env bash
# Shows what Nsight Compute measures for this chapter next to what the simulator counts:
#   ./learn profile 10
#   ./learn profile 10 --variant register_sums,decoupled --heads 3 --seq-q 1000 --head-dim 128 --causal
# ./profile.sh --help lists the options; ./learn profile builds what is missing.
#
# What to look at: the additions to dQ's sums, which are most of what goes to the L2; wavefronts of shared memory, which are dS on
# its way to the product. With --large: how busy the tensor cores are, and what the warps wait for.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" -m tools.profile.chapter 10_hopper_backward \
  --usual '--variant all --dtype bf16 --heads 4 --seq-q 384 --head-dim 64' \
  --large '--variant all --dtype bf16 --batch 4 --heads 16 --seq-q 4096 --head-dim 128' \
  --show shared,wgmma,occupancy,stalls -- "$@"
