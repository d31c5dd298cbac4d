/// @file
/// The registers of a block: how many each warp has, and which have been given back (setmaxnreg).
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "gpusim/runtime/block.hpp"

namespace gpusim {
namespace {

/// The rules that a report may be about.
enum RegisterRule : std::uint8_t { kWrongDirection = 1, kNeverFree };

constexpr int kRegistersOfBlock = 65536, kUnit = 8, kMostRegisters = 255;

/// Registers are allocated in units of 8 for each thread of a warp.
int units(int registers) { return (registers + kUnit - 1) / kUnit * kUnit; }

std::string instruction(const WarpgroupOp& op) {
  const bool more = op.kind == WarpgroupOp::Kind::kIncrease;
  return (more ? "setmaxnreg_inc<" : "setmaxnreg_dec<") + std::to_string(op.count) + ">()";
}

}  // namespace

/// What ptxas gives the threads of a kernel with __launch_bounds__(threads, 1) at most. The simulator does
/// not see the launch bounds, or how many registers the kernel needs.
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
    register_defect(kWrongDirection, nullptr, op.pc,
                    instruction(op) + (more ? " would take registers from" : " would give registers to") +
                        " threads that have " + std::to_string(registers));
    stop();
  }
  free_registers_ += (units(registers) - op.count) * kWarpSize;
  registers = op.count;
  trace_event("registers", warp * kWarpSize, op.pc, registers);
}

/// When no thread can go on: reports a warp that waits for registers. False: there is none.
bool BlockRunner::report_missing_registers() {
  const auto op_of = [](const Thread& t) -> const WarpgroupOp& {
    return static_cast<const WarpgroupOperand*>(t.operand)->op;
  };
  const auto is_short = [&](const Thread& t) {
    return t.state == State::kWarpSync && warps_[t.linear / kWarpSize].is_blocked &&
           op_of(t).kind == WarpgroupOp::Kind::kIncrease;
  };
  auto* const end = threads_.begin() + thread_count_;
  auto* const thread = std::find_if(threads_.begin(), end, is_short);
  if (thread == end) return false;
  const int warp = thread->linear / kWarpSize;
  std::string text = instruction(op_of(*thread)) + " waits for registers that nobody gives back";
  for (int first = 0; first < warp_count_;) {  // warps with the same number
    int last = first;
    while (last + 1 < warp_count_ && warps_[last + 1].registers == warps_[first].registers) ++last;
    text += "\n    " +
            (first == last ? "warp " + std::to_string(first) + " has "
                           : "warps " + std::to_string(first) + " to " + std::to_string(last) + " have ") +
            std::to_string(warps_[first].registers) + " registers for each thread";
    first = last + 1;
  }
  const int needed = (op_of(*thread).count - units(warps_[warp].registers)) * kWarpSize;
  text += "\n    the warp needs " + std::to_string(needed) + " more, " + std::to_string(free_registers_) +
          " are free; all threads began with " + std::to_string(launch_registers_);
  register_defect(kNeverFree, thread, thread->sync_pc, text);
  return true;
}

/// @param thread  one that waits; null: the one that runs now
void BlockRunner::register_defect(std::uint8_t rule, Thread* thread, const void* pc,
                                  const std::string& text) {
  const FindingKey key{.kind = DefectKind::kMisuse,
                       .pc = reinterpret_cast<std::uintptr_t>(pc),
                       .space = Space::kShared,
                       .rule = rule};
  Example found;
  found.thread = (thread != nullptr ? thread : current_)->linear;
  found.message = {text};
  add_finding(thread, key, std::move(found));
}

}  // namespace gpusim
