#!/usr/bin/env bash
# The Nsight Compute run of this chapter, on 16 heads of 1024 queries and keys or with the options that are given:
#   ./profile.sh --variant bc_max --batch 8 --heads 16 --seq-q 1024 --seq-k 1024 --head-dim 64
#
# What to look at: the sectors per request, which `cooperative` takes from 32 to 4; the bank conflicts; and the
# load sectors of the variants whose key tiles are larger.
set -euo pipefail
# shellcheck disable=SC1091  # where it is depends on where this file is
source "$(dirname "${BASH_SOURCE[0]}")/../../common/profile/profile.sh"
if [[ $# -eq 0 ]]; then
  set -- --variant all --heads 16 --seq-q 1024 --seq-k 1024 --head-dim 64
fi
profile_chapter ch04_tiled_v1 "$@"
