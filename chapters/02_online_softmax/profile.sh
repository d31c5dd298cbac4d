#!/usr/bin/env bash
# What Nsight Compute measures for this chapter, next to what the simulator counts:
#   ./learn profile 02
#   ./learn profile 02 --rows 1024 --cols 131072
# ./profile.sh --help lists the options; ./learn profile builds what is missing.
#
# What to look at: the sectors per load, which a float4 raises from 4 to 16, and the bytes at the L1, where `on_chip`
# saves the second read.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" -m tools.profile.chapter 02_online_softmax \
  --usual '--variant all --rows 2048 --cols 1024' \
  --large '--variant all --rows 8192 --cols 4096' \
  --show requests,shared,occupancy -- "$@"
