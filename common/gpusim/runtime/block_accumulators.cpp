/// @file
/// The registers of products in flight: accumulators and operand A, from the issue to the wait.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpusim/runtime/block.hpp"
#include "gpusim/runtime/local_reads.hpp"

namespace gpusim {
namespace {

std::string element(const char* array, std::size_t index) {
  return std::string(array) + "[" + std::to_string(index) + "]";
}

}  // namespace

// --- inside a fiber

/// A wait has named these registers: they may be used from here on.
void BlockRunner::wgmma_finished(const float* registers, int count, int argument, const void* pc) {
  if (register_time_ == 0) return;
  bool told = argument < 0;
  for (int i = 0; i < count; ++i) {
    if (!register_uses_.contains(registers + i)) return;
    RegisterUse& use = register_uses_.at(registers + i);
    if (use.time() == RegisterUse::kUnnamed) {
      use = RegisterUse::make(RegisterUse::kFresh, false, pc);
    } else if (use.time() == RegisterUse::kInFlight && !std::exchange(told, true)) {
      const OutsideKernel outside;
      const InFlight product = product_of(current_->linear, address_of(registers + i));
      product_defect(kNamedInFlight, current_->linear, {pc, product.pc, product.left_by}, [&] {
        return "wgmma_wait() at {0} names {0:" + std::to_string(argument) +
               "|an array}, which is still in flight after it, in thread " + triple(current_->index) +
               " of " + block_name() + "\n    the product was issued at {1}" +
               why_in_flight(product, current_->linear);
      });
    }
  }
}

/// An access to a local variable of a thread of a warpgroup that uses products.
void BlockRunner::note_register(std::uintptr_t address, std::size_t size, AccessKind kind, const void* pc) {
  if (!register_uses_.contains(address)) return;
  const auto now = RegisterUse::make(register_time_, kind != AccessKind::kRead, pc);
  const std::uintptr_t end = address + size;
  for (address -= address % RegisterUses::kWord; address < end; address += RegisterUses::kWord) {
    RegisterUse& use = register_uses_.at(address);
    if (use.time() >= RegisterUse::kUnnamed) [[unlikely]] {
      found_early_use(address, use, kind, pc);
    } else if (use.time() == RegisterUse::kFresh) [[unlikely]] {
      found_first_use(address);
      use = now;
    } else if (use.time() != register_time_ || !use.is_write()) {
      use = now;
    }
  }
}

/// What the thread knows of the registers at this address is stale, or a product is at work on them.
void BlockRunner::found_early_use(std::uintptr_t address, RegisterUse use, AccessKind kind, const void* pc) {
  const OutsideKernel outside;
  const char* const verb = kind == AccessKind::kRead ? " read" : " written";
  const int thread = current_->linear;
  if (use.time() == RegisterUse::kUnnamed) {
    const auto issue = use.pc(address_of(pc));
    product_defect(kUnnamedAccumulator, thread, {pc, reinterpret_cast<const void*>(issue)}, [&] {
      return "Accumulator" + std::string(verb) + " at {0}, but no wgmma_wait() names it, by thread " +
             triple(current_->index) + " in " + block_name() +
             "\n    the product was issued at {1}: the compiler may move this access above the wait";
    });
    return;
  }
  const InFlight product = product_of(thread, address);
  if (product.array == nullptr) return;
  const bool is_a = product.of_a;
  const Places places{pc, product.pc, product.left_by};
  product_defect(is_a ? kOperandInFlight : kAccumulatorInFlight, thread, places, [&] {
    return (is_a ? "Register " : "Accumulator ") + element(product.array, product.index) +
           (is_a ? " of A" : "") + verb + " at {0} before the wait, by thread " + triple(current_->index) +
           " in " + block_name() + "\n    the product was issued at {1}" + why_in_flight(product, thread);
  });
}

/// The first access of a thread to accumulators since they have been waited for.
void BlockRunner::found_first_use(std::uintptr_t address) {
  const OutsideKernel outside;
  const auto lane = std::size_t(current_->linear % kWarpSize);
  for (FinishedTile& tile : warps_[current_->linear / kWarpSize].products.finished) {
    float* const d = tile.arrays[lane];
    if (address - address_of(d) >= std::size_t(tile.count) * sizeof(float)) continue;
    for (int i = 0; i < tile.count; ++i) {
      RegisterUse& use = register_uses_.at(d + i);
      if (use.time() == RegisterUse::kFresh) use = {};
    }
    return use_finished(tile);
  }
}

/// A thread or another product uses what a wait has finished.
void BlockRunner::use_finished(FinishedTile& tile) {
  if (std::exchange(tile.used, true) || !tile.waited_twice) return;
  ++tally.ops.over_waited;
  ++tally.early_waits[address_of(tile.wait_pc)];
}

// --- for a warp, when its lanes have come

/// The product in flight that uses the registers of a thread at an address.
BlockRunner::InFlight BlockRunner::product_of(int thread, std::uintptr_t address) const {
  const WarpProducts& products = warps_[thread / kWarpSize].products;
  const auto lane = std::size_t(thread % kWarpSize);
  for (const auto& tile : products.tiles) {
    const std::uintptr_t offset = address - address_of(tile->arrays[lane]);
    if (offset < std::size_t(tile->count) * sizeof(float))
      return {"{1:0|d}", offset / sizeof(float), false, tile->group, tile->pc, tile->left_by};
  }
  for (const OperandRegisters& a : products.a) {
    const std::uintptr_t offset = address - address_of(a.arrays[lane]);
    if (offset < 4 * sizeof(std::uint32_t))
      return {"{1:1|a}", offset / sizeof(std::uint32_t), true, a.group, a.pc, a.left_by};
  }
  return {};
}

/// The end of a report, in which {2} is product.left_by.
std::string BlockRunner::why_in_flight(const InFlight& product, int thread) const {
  const WarpProducts& products = warps_[thread / kWarpSize].products;
  if (product.group >= products.group()) return ", and no wgmma_commit() has followed";
  if (product.left_by == nullptr) return ", and no wgmma_wait() has followed";
  return "; the wgmma_wait() at {2} leaves its group in flight";
}

/// Checks that no ordinary access to a register comes between the latest fence and the product.
void BlockRunner::check_fence(int thread, const void* registers, int index, bool of_a,
                              const WarpgroupOp& op) {
  const RegisterUse use = register_uses_.at(registers);
  if (use.time() != warps_[thread / kWarpSize].products.time) return;
  if (of_a && !use.is_write()) return;
  const auto* const used = reinterpret_cast<const void*>(use.pc(address_of(op.pc)));
  product_defect(kNoFence, thread, {op.pc, used}, [&] {
    const std::string what = of_a ? "register " + element("{0:1|a}", std::size_t(index)) + " of A"
                                  : "accumulator " + element("{0:0|d}", std::size_t(index));
    return "No wgmma_fence() between the " + std::string(use.is_write() ? "write" : "read") + " of " + what +
           " at {1} and the product at {0}, by thread " + triple(block_dim_.at(std::uint64_t(thread))) +
           " in " + block_name();
  });
}

/// The accumulators of a warp are in flight from here on: their arrays hold NaN.
std::shared_ptr<AccumulatorTile> BlockRunner::take_accumulators(int warp, const WarpgroupOp& op) {
  WarpProducts& products = warps_[warp].products;
  const float* const first = products.arrived[0]->d;
  const auto known = std::find_if(products.tiles.begin(), products.tiles.end(), [&](const auto& t) {
    return t->arrays[0] == first && t->count == op.count;
  });
  if (known != products.tiles.end()) {
    (*known)->group = products.group();
    (*known)->pc = op.pc;
    (*known)->left_by = nullptr;
    return *known;
  }
  std::erase_if(products.finished, [&](FinishedTile& tile) {
    if (tile.arrays[0] != first) return false;
    if (op.add) use_finished(tile);
    return true;
  });
  register_uses_.cover(stacks_, kMaxThreads * kStackStride);
  auto tile = std::make_shared<AccumulatorTile>();
  tile->count = op.count;
  tile->group = products.group();
  tile->pc = op.pc;
  tile->values.resize(std::size_t(kWgmmaRows * tile->n()));
  const auto in_flight = RegisterUse::make(RegisterUse::kInFlight, true, op.pc);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const int thread = warp * kWarpSize + lane;
    float* const d = products.arrived[std::size_t(lane)]->d;
    tile->arrays[std::size_t(lane)] = d;
    if (op.add && is_any_unwritten(d, op.count)) read_unwritten_local(op.pc, thread);
    for (int i = 0; i < op.count; ++i) {
      tile->values[std::size_t(accumulator_row(lane, i) * tile->n() + accumulator_column(lane, i))] = d[i];
      RegisterUse& use = register_uses_.at(d + i);
      if (use.time() == RegisterUse::kInFlight) {
        const InFlight product = product_of(thread, address_of(d + i));
        product_defect(kOtherShape, thread, {op.pc, product.pc, product.left_by}, [&] {
          return "The product at {0} uses registers that are in flight in thread " +
                 triple(block_dim_.at(std::uint64_t(thread))) + " of " + block_name() +
                 "\n    another product, of another shape, was issued at {1}" +
                 why_in_flight(product, thread);
        });
        stop();
      }
      if (op.add && products.time != 0)
        check_fence(thread, d + i, i, false, op);  // otherwise, it is overwritten
      use = in_flight;
    }
    std::memset(d, 0xff, std::size_t(op.count) * sizeof(float));
  }
  products.tiles.push_back(std::move(tile));
  return products.tiles.back();
}

/// Copies the warp's rows of A from its registers, which are in flight from here on.
void BlockRunner::take_operand_registers(int warp, PendingOp& pending) {
  WarpProducts& products = warps_[warp].products;
  const WarpgroupOp& op = pending.op;
  pending.a.resize(std::size_t(kWarpgroupWarps * kWgmmaRows * kWgmmaK));
  float* const rows = &pending.a[std::size_t(warp % kWarpgroupWarps * kWgmmaRows * kWgmmaK)];
  const auto known = std::find_if(products.a.begin(), products.a.end(), [&](const OperandRegisters& a) {
    return a.arrays[0] == products.arrived[0]->a;
  });
  OperandRegisters& registers = known != products.a.end() ? *known : products.a.emplace_back();
  registers.group = products.group();
  registers.pc = op.pc;
  registers.left_by = nullptr;
  register_uses_.cover(stacks_, kMaxThreads * kStackStride);
  const auto in_flight = RegisterUse::make(RegisterUse::kInFlight, false, op.pc);
  for (int lane = 0; lane < kWarpSize; ++lane) {
    const std::uint32_t* const a = products.arrived[std::size_t(lane)]->a;
    registers.arrays[std::size_t(lane)] = a;
    if (is_any_unwritten(a, 4)) read_unwritten_local(op.pc, warp * kWarpSize + lane);
    std::uint32_t values[4];
    std::copy_n(a, 4, values);
    widen_registers(values, op.shape.type, lane, rows);
    for (int i = 0; i < 4; ++i) {
      if (!register_uses_.contains(a + i)) break;  // constants of the program
      RegisterUse& use = register_uses_.at(a + i);
      if (products.time != 0) check_fence(warp * kWarpSize + lane, a + i, i, true, op);
      use = in_flight;
    }
  }
}

/// A wait: the accumulators that no later group uses get their values.
void BlockRunner::finish_products(int warp, std::uint32_t covered, const void* pc) {
  WarpProducts& products = warps_[warp].products;
  for (FinishedTile& tile : products.finished) tile.waited_twice |= tile.group < covered;
  const auto landed = [&](AccumulatorTile& tile) {
    if (tile.group >= covered) {
      tile.left_by = pc;
      return false;
    }
    const auto unnamed = waits_cover_registers_ ? RegisterUse::make(RegisterUse::kFresh, false, pc)
                                                : RegisterUse::make(RegisterUse::kUnnamed, true, tile.pc);
    for (int lane = 0; lane < kWarpSize; ++lane) {
      float* const d = tile.arrays[std::size_t(lane)];
      for (int i = 0; i < tile.count; ++i) {
        d[i] = tile.values[std::size_t(accumulator_row(lane, i) * tile.n() + accumulator_column(lane, i))];
        register_uses_.at(d + i) = unnamed;
      }
    }
    if (tile.group > products.covered_groups)
      products.finished.push_back({tile.arrays, tile.count, tile.group, pc});
    return true;
  };
  std::erase_if(products.tiles, [&](const auto& tile) { return landed(*tile); });
  products.covered_groups = std::max(products.covered_groups, covered);
  std::erase_if(products.a, [&](OperandRegisters& a) {
    if (a.group >= covered) {
      a.left_by = pc;
      return false;
    }
    for (const std::uint32_t* registers : a.arrays) {
      for (int i = 0; i < 4 && register_uses_.contains(registers); ++i) register_uses_.at(registers + i) = {};
    }
    return true;
  });
}

/// The last thread of a warp ends.
void BlockRunner::end_products(int warp) {
  WarpProducts& products = warps_[warp].products;
  for (const auto& tile : products.tiles) {
    const bool committed = tile->group < products.group();
    product_defect(kNeverWaited, warp * kWarpSize, {tile->pc}, [&] {
      return "Warp " + std::to_string(warp) + " of " + block_name() +
             " ends while a product is in flight\n    it was issued at {0}, and " +
             (committed ? "no wgmma_wait() covers its group" : "no wgmma_commit() has followed");
    });
    for (float* d : tile->arrays) {
      for (int i = 0; i < tile->count; ++i) register_uses_.at(d + i) = {};
    }
  }
  for (const OperandRegisters& a : products.a) {
    for (const std::uint32_t* registers : a.arrays) {
      for (int i = 0; i < 4 && register_uses_.contains(registers); ++i) register_uses_.at(registers + i) = {};
    }
  }
  products.tiles.clear();
  products.a.clear();
}

}  // namespace gpusim
