#!/usr/bin/env bash
# The Nsight Compute run of this chapter, on 16 heads of 4096 queries and keys or with the options that are given:
#   ./profile.sh --variant final --batch 4 --heads 16 --seq-q 4096 --seq-k 4096 --head-dim 128
#
# What to look at: the load sectors, which include those of cp.async and are the same in all variants; the wavefronts of
# shared memory, which two_rows_of_mma halves; no bank conflicts; and O in requests of 16 sectors.
set -euo pipefail
# shellcheck disable=SC1091  # where it is depends on where this file is
source "$(dirname "${BASH_SOURCE[0]}")/../../common/profile/profile.sh"
if [[ $# -eq 0 ]]; then
  set -- --variant all --heads 16 --seq-q 4096 --seq-k 4096 --head-dim 64
fi
profile_chapter ch07_multi_stage "$@"
