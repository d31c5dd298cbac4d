#!/usr/bin/env bash
# What Nsight Compute measures of this chapter, beside what the simulator counts:
#   ./learn profile 01
#   ./learn profile 01 --rows 1024 --cols 131072
# ./profile.sh --help has the options; ./learn profile builds what is missing.
#
# What to look at: the sectors of a load. A warp that reads 32 neighbouring floats needs 4, a warp that reads a column
# of 32 rows needs 32. And the bytes at the L2, which the L1 spares for loads, and not for stores.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" -m tools.profile.chapter 01_safe_softmax \
  --usual '--variant all --rows 2048 --cols 1024' \
  --large '--variant all --rows 8192 --cols 4096' \
  --show requests,occupancy -- "$@"
