#!/usr/bin/env bash
# The Nsight Compute run of this chapter, on 8192 rows of 4096 columns or with the options that are given:
#   ./profile.sh --variant all --rows 1024 --cols 131072
#
# What to look at: the load sectors per request. A warp that reads 32 neighbouring floats needs 4, a warp that
# reads a column of 32 rows needs 32.
set -euo pipefail
# shellcheck disable=SC1091  # where it is depends on where this file is
source "$(dirname "${BASH_SOURCE[0]}")/../../common/profile/profile.sh"
if [[ $# -eq 0 ]]; then
  set -- --variant all --rows 8192 --cols 4096
fi
profile_chapter ch01_safe_softmax "$@"
