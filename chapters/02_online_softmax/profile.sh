#!/usr/bin/env bash
# The Nsight Compute run of this chapter, on 8192 rows of 4096 columns or with the options that are given:
#   ./profile.sh --variant all --rows 1024 --cols 131072
#
# What to look at: the sectors per request, which float4 takes from 4 to 16, and the load sectors, which
# `on_chip` halves.
set -euo pipefail
# shellcheck disable=SC1091  # where it is depends on where this file is
source "$(dirname "${BASH_SOURCE[0]}")/../../common/profile/profile.sh"
if [[ $# -eq 0 ]]; then
  set -- --variant all --rows 8192 --cols 4096
fi
profile_chapter ch02_online_softmax "$@"
