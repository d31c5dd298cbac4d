/// @file
/// The products of warpgroups: issue, groups and waits.
///
/// A warp issues its part of a product when its 32 lanes are there; it does not wait for the other warps. The
/// product is computed when the fourth warp has issued it. A wait ends when the products that it covers have
/// been computed, but tells only of what its own warp's part has read.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpusim/runtime/block.hpp"

namespace gpusim {
namespace {

using Kind = WarpgroupOp::Kind;

constexpr std::size_t kChunkBytes = 16;

const char* instruction_name(Kind kind) {
  switch (kind) {
    case Kind::kFence: return "wgmma_fence()";
    case Kind::kProduct: return "wgmma()";
    case Kind::kCommit: return "wgmma_commit()";
    case Kind::kWait: return "wgmma_wait()";
    case Kind::kDecrease: return "setmaxnreg_dec()";
    case Kind::kIncrease: return "setmaxnreg_inc()";
  }
  return "?";
}

std::string hexadecimal(std::uint64_t value) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (; value != 0 || text.empty(); value /= 16) text.insert(text.begin(), kDigits[value % 16]);
  return "0x" + text;
}

/// What two threads of a warpgroup say differently: "the descriptor of B is 0x10 in", empty if nothing.
struct Difference {
  std::string what, one, other;
};
Difference difference(const WarpgroupOp& a, const WarpgroupOp& b) {
  if (a.kind != Kind::kProduct) return {};
  if (!a.a_in_registers && a.a != b.a) return {"the descriptor of A", hexadecimal(a.a), hexadecimal(b.a)};
  if (a.b != b.b) return {"the descriptor of B", hexadecimal(a.b), hexadecimal(b.b)};
  return {};
}

}  // namespace

std::vector<Piece> with_lines(const std::string& text, const Places& places) {
  std::vector<Piece> result;
  std::size_t begin = 0;
  for (std::size_t mark = text.find('{'); mark != std::string::npos; mark = text.find('{', begin)) {
    result.emplace_back(text.substr(begin, mark - begin));
    result.push_back(Piece::line(places[std::size_t(text[mark + 1] - '0')]));
    begin = text.find('}', mark) + 1;
    if (text[mark + 2] != ':') continue;
    const std::size_t otherwise = text.find('|', mark);
    result.back().argument = std::stoi(text.substr(mark + 3));
    result.back().text = text.substr(otherwise + 1, begin - otherwise - 2);
  }
  result.emplace_back(text.substr(begin));
  return result;
}

// --- inside a fiber

void BlockRunner::warpgroup_op(WarpgroupOperand& operand) {
  Warp& w = warps_[current_->linear / kWarpSize];
  const bool waits = operand.op.kind == Kind::kWait || operand.op.kind == Kind::kIncrease;
  warp_rendezvous(~0u, waits ? device::WarpOp::kWarpgroupWait : device::WarpOp::kWarpgroup, &operand, nullptr,
                  operand.op.pc);
  if (std::exchange(w.products.has_arrived, false)) {  // the first lane that continues
    const OutsideKernel outside;
    process_warpgroup_op(current_->linear / kWarpSize);
  }
  register_time_ = w.products.time;
}

// --- for a warp, when its lanes have come

/// Whether a wait of this warp may end: the products that it covers have been computed, or the registers are
/// free.
bool BlockRunner::wait_is_over(int warp, const WarpgroupOp& wait) const {
  if (wait.kind == Kind::kIncrease) return has_registers(warp, wait.count);
  const WarpProducts& products = warps_[warp].products;
  const std::uint32_t covered = products.covered(wait.count);
  if (covered == 0) return true;
  return warpgroups_[warp / kWarpgroupWarps].products >= products.commits[covered - 1];
}

void BlockRunner::process_warpgroup_op(int warp) {
  WarpProducts& products = warps_[warp].products;
  const WarpgroupOperand& first = *products.arrived[0];
  const WarpgroupOp& op = first.op;
  if (warp / kWarpgroupWarps * kWarpgroupWarps + kWarpgroupWarps > warp_count_ ||
      thread_count_ % kWarpSize != 0) {
    product_defect(kNoWarpgroup, warp * kWarpSize, {op.pc}, [&] {
      return std::string(instruction_name(op.kind)) + " at {0} needs a warpgroup of 128 threads: warp " +
             std::to_string(warp) + " of " + block_name() + " belongs to none\n    the block has " +
             std::to_string(thread_count_) + " threads";
    });
    stop();
  }
  for (int lane = 1; lane < kWarpSize; ++lane)
    compare_operands(op, warp * kWarpSize, products.arrived[std::size_t(lane)]->op, warp * kWarpSize + lane);
  PendingOp& pending = reach(warp, op);
  if (record_ != nullptr) record_warpgroup_op(warp, op);
  switch (op.kind) {
    case Kind::kFence:
      register_uses_.cover(stacks_, kMaxThreads * kStackStride);
      products.time = register_uses_.next_time();
      break;
    case Kind::kProduct: issue_product(warp, pending); break;
    case Kind::kCommit:
      trace_event("products", warp * kWarpSize, op.pc, std::int64_t(products.commits.size()));
      products.commits.push_back(products.issued);
      break;
    case Kind::kWait: {
      const std::uint32_t covered = products.covered(op.count);
      finish_products(warp, covered, op.pc);
      for (int lane = 0; lane < kWarpSize; ++lane) threads_[warp * kWarpSize + lane].steps = 0;
      if (covered != 0) trace_event("products are done", warp * kWarpSize, op.pc, covered - 1);
      if (covered == 0 || products.commits[covered - 1] == 0) break;
      const Completion last{products.sequence, products.commits[covered - 1] - 1};
      for (int lane = 0; lane < kWarpSize; ++lane) learn(warp * kWarpSize + lane, last);
      break;
    }
    case Kind::kDecrease:
    case Kind::kIncrease: set_registers(warp, op); break;
  }
  complete_ops(warp / kWarpgroupWarps);
}

/// All threads of a warpgroup must say the same.
void BlockRunner::compare_operands(const WarpgroupOp& one, int thread, const WarpgroupOp& other,
                                   int other_thread) {
  const Difference d = difference(one, other);
  if (d.what.empty()) return;
  product_defect(kDifferentOperands, other_thread, {one.pc}, [&] {
    return "The threads of a warpgroup in " + block_name() + " issue different products at {0}\n    " +
           d.what + " is " + d.one + " in thread " + triple(block_dim_.at(std::uint64_t(thread))) + ", and " +
           d.other + " in thread " + triple(block_dim_.at(std::uint64_t(other_thread)));
  });
  stop();
}

/// The warp executes its next operation, which has to be that of the warpgroup's other warps.
PendingOp& BlockRunner::reach(int warp, const WarpgroupOp& op) {
  Warpgroup& group = warpgroups_[warp / kWarpgroupWarps];
  WarpProducts& products = warps_[warp].products;
  const std::size_t index = products.reached++ - group.done;
  const int thread = warp * kWarpSize;
  if (index == group.pending.size()) {
    group.pending.push_back({.op = op, .first_thread = thread});
  } else {
    const WarpgroupOp& known = group.pending[index].op;
    if (known.pc != op.pc) {
      product_defect(kDifferentOps, thread, {known.pc, op.pc}, [&] {
        return "The warps of warpgroup " + std::to_string(warp / kWarpgroupWarps) + " in " + block_name() +
               " do not execute the same instructions\n    warp " +
               std::to_string(group.pending[index].first_thread / kWarpSize) + " executes " +
               instruction_name(known.kind) + " at {0}, and warp " + std::to_string(warp) + " executes " +
               instruction_name(op.kind) + " at {1}";
      });
      stop();
    }
    compare_operands(known, group.pending[index].first_thread, op, thread);
  }
  PendingOp& pending = group.pending[index];
  pending.warps |= 1u << warp % kWarpgroupWarps;
  return pending;
}

void BlockRunner::issue_product(int warp, PendingOp& pending) {
  WarpProducts& products = warps_[warp].products;
  const WarpgroupOp& op = pending.op;
  if (products.time == 0 && products.issued == 0) {
    product_defect(kNoFence, warp * kWarpSize, {op.pc}, [&] {
      return "No wgmma_fence() before the first product of warp " + std::to_string(warp) + " in " +
             block_name() + ", at {0}";
    });
  }
  begin_reads(warp, pending);
  if (op.a_in_registers) take_operand_registers(warp, pending);
  std::shared_ptr<AccumulatorTile> tile = take_accumulators(warp, op);
  if (warp % kWarpgroupWarps == 0) check_factors(warp * kWarpSize, pending, *tile);
  pending.tiles[std::size_t(warp % kWarpgroupWarps)] = std::move(tile);
  ++products.issued;
}

/// Finishes the operations that all four warps have executed.
void BlockRunner::complete_ops(int warpgroup) {
  Warpgroup& group = warpgroups_[warpgroup];
  constexpr unsigned kAll = (1u << kWarpgroupWarps) - 1;
  while (!group.pending.empty() && group.pending.front().warps == kAll) {
    if (group.pending.front().op.kind == Kind::kProduct) {
      compute_product(group.pending.front());
      ++group.products;
    }
    group.pending.pop_front();
    ++group.done;
  }
}

/// Where an operand's chunks are in shared memory. @param mn  its size in the dimension that is not k
void BlockRunner::find_chunks(int thread, const WarpgroupOp& op, bool is_a, int mn,
                              std::vector<std::uintptr_t>& chunks) {
  const auto matrix = MatrixDescriptor::of(is_a ? op.a : op.b);
  const bool mn_major = is_a ? op.shape.transposed_a : op.shape.transposed_b;
  const std::uintptr_t start = address_of(shared_pointer(matrix.start));
  const std::string name = is_a ? "A" : "B";
  const StaticVariable* const variable = start != 0 ? variable_at(start - shared_base_) : nullptr;
  if (variable == nullptr) {
    product_defect(kBadDescriptor, thread, {op.pc}, [&] {
      return "The descriptor of " + name + " at {0} begins outside of shared memory, in " + block_name() +
             "\n    its start address is " + hexadecimal(matrix.start) +
             ". Has it been made from a pointer? ptx::shared_address() gives what belongs here";
    });
    stop();
  }
  constexpr std::uint64_t kUnused = 3ull << 14 | 3ull << 30 | 7ull << 46 | 0x3ffull << 52;
  if (const std::uint64_t bits = is_a ? op.a : op.b; (bits & kUnused) != 0) {
    product_defect(kBadDescriptor, thread, {op.pc}, [&] {
      return "The descriptor of " + name + " at {0} sets bits between its fields, in " + block_name() +
             "\n    it is " + hexadecimal(bits) +
             ": a field has 14 bits, and counts units of 16 bytes. Has something not been divided by 16?";
    });
    stop();
  }
  const std::uintptr_t begin = shared_base_ + variable->offset, end = begin + variable->bytes;
  const ChunkGrid grid = chunks_of(mn, mn_major);
  chunks.resize(std::size_t(grid.count));
  for (int i = 0; i < grid.count; ++i) {
    const int row = i / grid.per_row, column = i % grid.per_row;
    const std::uintptr_t chunk = start + chunk_address(matrix, mn_major, row, column) - matrix.start;
    if (chunk < begin || chunk + kChunkBytes > end) {
      product_defect(kBadDescriptor, thread, {op.pc}, [&] {
        const int x = mn_major ? 8 * column : row, k = mn_major ? row : 8 * column;
        const auto index = [](int number) { return "[" + std::to_string(number) + "]"; };
        return "The descriptor of " + name + " at {0} reaches outside of its array, in " + block_name() +
               "\n    " + name + (is_a ? index(x) + index(k) : index(k) + index(x)) + " is " +
               place_in(variable->name, begin, end, chunk);
      });
      stop();
    }
    chunks[std::size_t(i)] = chunk;
  }
}

/// From here on, a warp's part of a product reads shared memory.
void BlockRunner::begin_reads(int warp, PendingOp& pending) {
  const WarpgroupOp& op = pending.op;
  WarpProducts& products = warps_[warp].products;
  const int thread = warp * kWarpSize;
  if (products.sequence == 0) products.sequence = new_sequence({Sequence::Kind::kProduct, warp});
  if (pending.b_chunks.empty()) {
    find_chunks(thread, op, false, 2 * op.count, pending.b_chunks);
    if (!op.a_in_registers) find_chunks(thread, op, true, kWarpgroupWarps * kWgmmaRows, pending.a_chunks);
    check_tile(thread, op, false, pending.b_chunks);
    if (!op.a_in_registers) check_tile(thread, op, true, pending.a_chunks);
  }
  const Completion product{products.sequence, products.issued};
  const auto read = [&](const std::vector<std::uintptr_t>& chunks) {
    for (std::size_t i = 0; i < chunks.size();) {  // neighbours together
      std::size_t next = i + 1;
      while (next < chunks.size() && chunks[next] == chunks[next - 1] + kChunkBytes) ++next;
      async_read(thread, product, chunks[i], (next - i) * kChunkBytes, op.pc);
      i = next;
    }
  };
  read(pending.b_chunks);
  read(pending.a_chunks);  // of all four warps: PTX does not say who reads which rows
}

void BlockRunner::compute_product(const PendingOp& pending) {
  const WarpgroupOp& op = pending.op;
  const int n = 2 * op.count;
  const auto widen = [&](const std::vector<std::uintptr_t>& chunks, int mn, bool mn_major, auto&& widen_one) {
    const ChunkGrid grid = chunks_of(mn, mn_major);
    for (int i = 0; i < grid.count; ++i) {
      widen_one(reinterpret_cast<const void*>(chunks[std::size_t(i)]), i / grid.per_row, i % grid.per_row);
    }
  };
  widen(pending.b_chunks, n, op.shape.transposed_b, [&](const void* chunk, int row, int column) {
    widen_chunk(chunk, op.shape.type, op.shape.transposed_b, row, column, n, product_b_);
  });
  if (!op.a_in_registers) {
    widen(pending.a_chunks, kWarpgroupWarps * kWgmmaRows, op.shape.transposed_a,
          [&](const void* chunk, int row, int column) {
            widen_chunk(chunk, op.shape.type, op.shape.transposed_a, row, column, product_a_);
          });
  }
  const float* const a = op.a_in_registers ? pending.a.data() : product_a_.values.data();
  find_exponents(a, std::size_t(kWarpgroupWarps * kWgmmaRows * kWgmmaK), op.shape.type, a_exponents_);
  find_exponents(product_b_.values.data(), std::size_t(kWgmmaK * n), op.shape.type, b_exponents_);
  for (int warp = 0; warp < kWarpgroupWarps; ++warp) {
    std::vector<float>& d = pending.tiles[std::size_t(warp)]->values;
    if (!op.add) std::fill(d.begin(), d.end(), 0.0f);
    const int first = warp * kWgmmaRows * kWgmmaK;
    multiply_rows(a + first, a_exponents_.data() + first, product_b_.values.data(), b_exponents_.data(),
                  d.data(), n);
  }
  ++tally.ops.wgmma;
  tally.ops.mma_units += n / 2;
}

/// At the end of the block, or when none of its threads can go on: reports an operation that only some warps
/// of a warpgroup have executed. False: there is none, or the missing warps wait for something else.
bool BlockRunner::report_missing_warps() {
  const auto may_blame = [&](const Thread& t) {
    return t.state == State::kDone || t.state == State::kBlockSync;
  };
  for (int g = 0; g * kWarpgroupWarps < warp_count_; ++g) {
    if (warpgroups_[g].pending.empty()) continue;
    const PendingOp& pending = warpgroups_[g].pending.front();
    const int begin = g * kWarpgroupWarps * kWarpSize;
    bool blame = true;
    std::vector<gpusim::Group> groups{{{Whereabouts::State::kExecuted, address_of(pending.op.pc)}, {}}};
    Thread waiting;
    for (int i = begin; i < begin + kWarpgroupWarps * kWarpSize; ++i) {
      const Thread& t = threads_[i];
      const bool executed = (pending.warps >> (i - begin) / kWarpSize & 1) != 0;
      blame &= executed || may_blame(t);
      const Whereabouts where = executed ? groups[0].where : whereabouts(t, waiting);
      auto group =
          std::find_if(groups.begin(), groups.end(), [&](const Group& o) { return o.where == where; });
      if (group == groups.end()) group = groups.insert(group, {where, {}});
      group->members.push_back(i);
    }
    if (!blame) continue;
    Example found;
    found.detail = "Divergent thread(s) in warpgroup " + std::to_string(g) + " of " + block_name() + ": " +
                   std::to_string(groups[0].members.size()) + " of 128 threads";
    found.groups = std::move(groups);
    const auto elsewhere = std::find_if(found.groups.begin() + 1, found.groups.end(), [](const Group& o) {
      return o.where.state == Whereabouts::State::kWaits;
    });
    const std::uintptr_t rival_pc = elsewhere != found.groups.end() ? elsewhere->where.pc : 0;
    add_divergence(&threads_[pending.first_thread], pending.op.pc, std::move(found), rival_pc);
    return true;
  }
  return false;
}

/// Before a block, and after one that was abandoned.
void BlockRunner::reset_products() {
  bool in_flight = false;
  for (int w = 0; w < warp_count_; ++w) {
    WarpProducts& products = warps_[w].products;
    products.has_arrived = false;
    if (products.reached == 0) continue;
    in_flight |= !products.tiles.empty() || !products.a.empty();
    products = {};
  }
  for (Warpgroup& group : warpgroups_) {
    if (group.done != 0 || !group.pending.empty()) group = {};
  }
  landed_boxes_.forget();
  if (in_flight) register_uses_.clear();
  register_time_ = 0;
}

}  // namespace gpusim
