#!/usr/bin/env bash
# What Nsight Compute measures of this chapter, beside what the simulator counts:
#   ./learn profile 02
#   ./learn profile 02 --rows 1024 --cols 131072
# ./profile.sh --help has the options; ./learn profile builds what is missing.
#
# What to look at: the sectors of a load, which float4 takes from 4 to 16, and the bytes at L1, of which `on_chip`
# saves the second read.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" -m tools.profile.chapter 02_online_softmax \
  --usual '--variant all --rows 2048 --cols 1024' \
  --large '--variant all --rows 8192 --cols 4096' \
  --show requests,shared,occupancy -- "$@"
