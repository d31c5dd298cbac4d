# shellcheck shell=bash
# What the chapters' profile.sh share. Sourced, not run.

# The metrics of every profile. Sectors of 32 bytes and requests (one warp instruction each) between the
# multiprocessors and the L1, bytes of the DRAM, passes over the banks of shared memory, instructions of tensor cores
# on 16-bit operands.
FA_METRICS=(
  l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum
  l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum
  l1tex__t_requests_pipe_lsu_mem_global_op_st.sum
  l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum
  dram__bytes_read.sum
  dram__bytes_write.sum
  l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum
  l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum
  l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum
  l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum
  sm__inst_executed_pipe_tensor_op_hmma.sum
)

# profile_chapter PROGRAM OPTION...
#
# Runs build/cuda/bin/PROGRAM under Nsight Compute and prints a table with a line per kernel launch.
# FA_BUILD names another build folder. Clocks are left as they are: nothing here depends on them, and locking
# them needs rights that most users lack.
#
# Exit status: 2 the program is not built, 3 no GPU or no Nsight Compute, or it may not read the counters.
profile_chapter() {
  local root program csv
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
  program="${FA_BUILD:-$root/build/cuda}/bin/$1"
  shift

  if ! command -v ncu > /dev/null; then
    echo "profile: ncu is not in PATH: install Nsight Compute (it comes with the CUDA toolkit)" >&2
    return 3
  fi
  if ! nvidia-smi -L 2> /dev/null | grep -q '^GPU'; then
    echo "profile: nvidia-smi finds no GPU: the simulator's counters are in the output of the sim build" >&2
    return 3
  fi
  if [[ ! -x $program ]]; then
    echo "profile: there is no $program: build it with cmake --workflow --preset cuda" >&2
    return 2
  fi

  csv=$(mktemp --suffix=.csv)
  # shellcheck disable=SC2064  # the name as it is now
  trap "rm -f '$csv'" EXIT
  # Whatever ncu complains about is in the file too, and the table repeats it.
  ncu --clock-control none --csv --page raw --print-units base --log-file "$csv" \
    --metrics "$(IFS=, && echo "${FA_METRICS[*]}")" "$program" --no-check "$@" > /dev/null || true
  python3 "$root/common/profile/ncu_table.py" "$csv"
}
