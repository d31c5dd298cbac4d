#!/usr/bin/env bash
# What Nsight Compute measures of this chapter, beside what the simulator counts:
#   ./learn profile 14
#   ./learn profile 14 --variant one_kernel --heads 8 --kv-heads 1 --seq-k 5000 --head-dim 128
# ./profile.sh --help has the options; ./learn profile builds what is missing.
#
# What to look at: sectors of K and V, which packed_heads reads once for all heads that share them; and the parts that
# split_keys and its successors write and read again. With --large: how busy DRAM is, and what the warps wait for.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" -m tools.profile.chapter 14_decoding \
  --usual '--variant all --batch 2 --heads 8 --kv-heads 2 --seq-k 1000' \
  --large '--variant all --batch 64 --heads 32 --kv-heads 8 --seq-k 8192 --head-dim 128' \
  --show requests,shared,tensor,occupancy,stalls -- "$@"
