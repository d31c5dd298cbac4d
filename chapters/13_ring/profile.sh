#!/usr/bin/env bash
# Shows what the simulator counts for this chapter, for all ranks together, beside what its formulas predict:
#   ./learn profile 13
#   ./learn profile 13 -n 4 --variant ring,zigzag --heads 4 --seq-q 500 --head-dim 128 --causal
# ./profile.sh --help lists the options; ./learn profile builds what is missing.
#
# What to look at: what each rank's memory moves for the sums of partial results, which one GPU alone does not have. Nsight
# Compute measures the kernels of one process; the times on several GPUs come from python3 -m tools.bench.ring.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" -m tools.profile.chapter 13_ring \
  --usual '--variant all --heads 4 --seq-q 229 --head-dim 64 --causal' \
  --large '--variant all --heads 16 --seq-q 32768 --head-dim 128 --causal' \
  --show requests,shared -- "$@" --simulator-only 'ncu measures one process, and this chapter is several'
