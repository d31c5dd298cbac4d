#!/usr/bin/env bash
# The Nsight Compute run of this chapter, on 16 heads of 4096 queries and keys or with the options that are given:
#   ./profile.sh --variant mma_pipelined --dtype bf16 --heads 16 --seq-q 4096 --seq-k 4096 --head-dim 128
#
# What to look at: the forward pass, D and the gradients as kernels of their own; the sectors of atomic additions, which
# fill a quarter of theirs in fp32_fused and all of them in mma_fused; tensor instructions, five products or seven.
set -euo pipefail
# shellcheck disable=SC1091  # where it is depends on where this file is
source "$(dirname "${BASH_SOURCE[0]}")/../../common/profile/profile.sh"
if [[ $# -eq 0 ]]; then
  set -- --variant mma_fused,mma_pipelined,mma_deterministic --dtype bf16 --heads 16 --seq-q 4096 --seq-k 4096 --head-dim 64
fi
profile_chapter ch08_backward "$@"
