#!/usr/bin/env bash
# The Nsight Compute run of this chapter, on 16 heads of 1024 queries and keys or with the options that are given:
#   ./profile.sh --variant exp2 --batch 8 --heads 16 --seq-q 1024 --seq-k 1024 --head-dim 64
#
# What to look at: the bank conflicts, which `padded` and `swizzled` take away; the wavefronts, which fall once more
# where Q stays in registers; and the tensor instructions, the same for all variants:
#   batch * heads * ceil(seq_q / 128) * ceil(seq_k / 64) * 8 warps * 2 * (64 / 8) * (head_dim / 16)
set -euo pipefail
# shellcheck disable=SC1091  # where it is depends on where this file is
source "$(dirname "${BASH_SOURCE[0]}")/../../common/profile/profile.sh"
if [[ $# -eq 0 ]]; then
  set -- --variant all --heads 16 --seq-q 1024 --seq-k 1024 --head-dim 64
fi
profile_chapter ch06_tensor_core_mma "$@"
