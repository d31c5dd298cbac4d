#!/usr/bin/env bash
# What Nsight Compute measures for this chapter, next to what the simulator counts:
#   ./learn profile 01
#   ./learn profile 01 --rows 1024 --cols 131072
# ./profile.sh --help lists the options; ./learn profile builds what is missing.
#
# What to look at: the sectors per load. A warp that reads 32 neighbouring floats needs 4 sectors, a warp that reads one
# column of 32 rows needs 32. Also the bytes that reach the L2: the L1 absorbs repeated loads, but not stores.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" -m tools.profile.chapter 01_safe_softmax \
  --usual '--variant all --rows 2048 --cols 1024' \
  --large '--variant all --rows 8192 --cols 4096' \
  --show requests,occupancy -- "$@"
