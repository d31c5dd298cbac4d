/// @file
/// The registers of a block: how many each warp has, and which have been given back (setmaxnreg).
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gpusim/runtime/block.hpp"

namespace gpusim {
namespace {

/// The rules that a report of DefectKind::kRegisters may be about.
enum RegisterRule : std::uint8_t { kWrongDirection = 1, kNeverFree };

constexpr int kRegistersOfBlock = 65536, kUnit = 8, kMostRegisters = 255;

/// A warp takes registers in units of 8 for each of its threads.
int units(int registers) { return (registers + kUnit - 1) / kUnit * kUnit; }

}  // namespace

/// What ptxas gives a kernel with __launch_bounds__(threads, 1) at most. The simulator does not see launch bounds, or how
/// many of them the kernel needs.
void BlockRunner::reset_registers() {
  launch_registers_ = std::min(kMostRegisters, kRegistersOfBlock / thread_count_ / kUnit * kUnit);
  free_registers_ = 0;
  for (int w = 0; w < warp_count_; ++w) warps_[w].registers = launch_registers_;
}

bool BlockRunner::has_registers(int warp, int registers) const {
  return (registers - units(warps_[warp].registers)) * kWarpSize <= free_registers_;
}

void BlockRunner::set_registers(int warp, const WarpgroupOp& op) {
  const bool more = op.kind == WarpgroupOp::Kind::kIncrease;
  int& registers = warps_[warp].registers;
  if (more ? op.count < registers : op.count > registers) {
    const FindingKey key{.kind = DefectKind::kRegisters,
                         .pc = reinterpret_cast<std::uintptr_t>(op.pc),
                         .rule = kWrongDirection};
    found(key, [&](Example& e) {
      fill(e, warp * kWarpSize, Space::kShared, shared_base_);
      e.places = {key.pc};
      const std::string name = more ? "setmaxnreg_inc" : "setmaxnreg_dec";
      e.detail = name + "<" + std::to_string(op.count) + ">() at {0} would " +
                 (more ? "take registers away from" : "give registers to") + " warp " + std::to_string(warp) +
                 " of " + block_name() + "\n    its threads have " + std::to_string(registers) + " each";
    });
    stop();
  }
  free_registers_ += (units(registers) - op.count) * kWarpSize;
  registers = op.count;
}

/// When no thread can go on: reports a warp that waits for registers. False: there is none.
bool BlockRunner::report_missing_registers() {
  const auto is_short = [&](const Thread& t) {
    return t.state == State::kWarpSync && warps_[t.linear / kWarpSize].is_blocked &&
           static_cast<const WarpgroupOperand*>(t.operand)->op.kind == WarpgroupOp::Kind::kIncrease;
  };
  const auto thread = std::find_if(threads_.begin(), threads_.begin() + thread_count_, is_short);
  if (thread == threads_.begin() + thread_count_) return false;
  const int warp = thread->linear / kWarpSize;
  const int wanted = static_cast<const WarpgroupOperand*>(thread->operand)->op.count;
  Example found;
  found.thread = thread->linear;
  found.places = {reinterpret_cast<std::uintptr_t>(thread->sync_pc)};
  found.detail = "setmaxnreg_inc<" + std::to_string(wanted) +
                 ">() at {0} waits for registers that nobody gives back, in warp " + std::to_string(warp) +
                 " of " + block_name();
  for (int first = 0; first < warp_count_;) {  // warps with the same number
    int last = first;
    while (last + 1 < warp_count_ && warps_[last + 1].registers == warps_[first].registers) ++last;
    found.detail +=
        "\n    " +
        (first == last ? "warp " + std::to_string(first) + " has "
                       : "warps " + std::to_string(first) + " to " + std::to_string(last) + " have ") +
        std::to_string(warps_[first].registers) + " for each thread";
    first = last + 1;
  }
  found.detail += "\n    the block began with " + std::to_string(launch_registers_) + " for each of " +
                  std::to_string(thread_count_) + " threads; " + std::to_string(free_registers_) +
                  " are free, the warp needs " +
                  std::to_string((wanted - units(warps_[warp].registers)) * kWarpSize);
  const FindingKey key{.kind = DefectKind::kRegisters, .pc = found.places[0], .rule = kNeverFree};
  add_finding(thread, key, std::move(found));
  return true;
}

}  // namespace gpusim
