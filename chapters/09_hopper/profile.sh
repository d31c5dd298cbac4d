#!/usr/bin/env bash
# Shows what Nsight Compute measures for this chapter next to what the simulator counts:
#   ./learn profile 09
#   ./learn profile 09 --variant specialised,overlapped --heads 3 --seq-q 1000 --head-dim 128 --causal
# ./profile.sh --help lists the options; ./learn profile builds what is missing.
#
# What to look at: the bytes at the L1, to which the copy engine's are added, because they do not pass its load and store
# unit (l1tex__m_xbar2l1tex_read_sectors_pipe_tma, l1tex__m_l1tex2xbar_write_sectors_pipe_tma): of whole tiles, exactly those
# of the formula; of ragged ones more, because zeros land as well. The products, which are the same in all variants with the
# same tiles but for the unused ones of `final`; hardly any wavefronts of shared memory, because wgmma reads it by itself.
# With --large: how busy the tensor cores are, and what the warps wait for.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}"
exec "${PYTHON:-python3}" -m tools.profile.chapter 09_hopper \
  --usual '--variant all --dtype bf16 --heads 4 --seq-q 384 --head-dim 64' \
  --large '--variant all --dtype bf16 --batch 4 --heads 16 --seq-q 4096 --head-dim 128' \
  --show copies,shared,wgmma,occupancy,stalls,stalled_wgmma -- "$@"
