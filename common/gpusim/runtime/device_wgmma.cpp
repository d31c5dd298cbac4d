/// @file
/// What the shim's functions for warpgroups ask of the block.
#include "gpusim/runtime/device_wgmma.hpp"

#include "gpusim/runtime/block.hpp"

namespace gpusim::device {
namespace {

using Kind = WarpgroupOp::Kind;

void execute(const char* instruction, WarpgroupOperand operand) {
  current_runner->require(90, instruction, operand.op.pc);
  current_runner->warpgroup_op(operand);
}
/// Only 9.0 has these: they are instructions of sm_90a.
void execute_wgmma(WarpgroupOperand operand) {
  current_runner->require_no_later(90, "wgmma", operand.op.pc);
  execute("wgmma", operand);
}

}  // namespace

#define GPUSIM_CALLER __builtin_return_address(0)

void wgmma_fence() { execute_wgmma({.op = {.kind = Kind::kFence, .pc = GPUSIM_CALLER}}); }
void wgmma_commit() { execute_wgmma({.op = {.kind = Kind::kCommit, .pc = GPUSIM_CALLER}}); }
void wgmma_wait(int pending) {
  execute_wgmma({.op = {.kind = Kind::kWait, .pc = GPUSIM_CALLER, .count = pending}});
}
void wgmma_finished(const float* registers, int count, int argument) {
  current_runner->wgmma_finished(registers, count, argument, GPUSIM_CALLER);
}
void keep_in_place(const float* registers, int count) {
  current_runner->wgmma_finished(registers, count, -1, GPUSIM_CALLER);
}

void wgmma(ProductShape shape, float* d, int count, std::uint64_t a, std::uint64_t b, bool add) {
  execute_wgmma({.op = {.kind = Kind::kProduct,
                        .pc = GPUSIM_CALLER,
                        .shape = shape,
                        .add = add,
                        .count = count,
                        .a = a,
                        .b = b},
                 .d = d});
}
void wgmma(ProductShape shape, float* d, int count, const std::uint32_t* a, std::uint64_t b, bool add) {
  execute_wgmma({.op = {.kind = Kind::kProduct,
                        .pc = GPUSIM_CALLER,
                        .shape = shape,
                        .add = add,
                        .a_in_registers = true,
                        .count = count,
                        .b = b},
                 .d = d,
                 .a = a});
}

void setmaxnreg_dec(int registers) {
  execute("setmaxnreg", {.op = {.kind = Kind::kDecrease, .pc = GPUSIM_CALLER, .count = registers}});
}
void setmaxnreg_inc(int registers) {
  execute("setmaxnreg", {.op = {.kind = Kind::kIncrease, .pc = GPUSIM_CALLER, .count = registers}});
}

#undef GPUSIM_CALLER

}  // namespace gpusim::device
