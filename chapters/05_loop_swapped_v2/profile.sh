#!/usr/bin/env bash
# The Nsight Compute run of this chapter, on 16 heads of 1024 queries and keys or with the options that are given:
#   ./profile.sh --variant register_tiled --batch 8 --heads 16 --seq-q 1024 --seq-k 1024 --head-dim 64
#
# What to look at: the load sectors, which fall with Br; the wavefronts of shared memory, which fall with the size of
# the outer products; and that no variant writes more than O and LSE.
set -euo pipefail
# shellcheck disable=SC1091  # where it is depends on where this file is
source "$(dirname "${BASH_SOURCE[0]}")/../../common/profile/profile.sh"
if [[ $# -eq 0 ]]; then
  set -- --variant all --heads 16 --seq-q 1024 --seq-k 1024 --head-dim 64
fi
profile_chapter ch05_loop_swapped_v2 "$@"
