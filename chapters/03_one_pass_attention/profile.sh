#!/usr/bin/env bash
# The Nsight Compute run of this chapter, on 16 heads of 1024 queries and keys or with the options that are given:
#   ./profile.sh --variant one_pass --heads 1 --seq-q 8192 --seq-k 8192 --head-dim 64
#
# What to look at: the load sectors beside the megabytes of the DRAM. Every row asks for all of K and V, and the
# caches answer most of it.
set -euo pipefail
# shellcheck disable=SC1091  # where it is depends on where this file is
source "$(dirname "${BASH_SOURCE[0]}")/../../common/profile/profile.sh"
if [[ $# -eq 0 ]]; then
  set -- --variant all --heads 16 --seq-q 1024 --seq-k 1024 --head-dim 64
fi
profile_chapter ch03_one_pass_attention "$@"
