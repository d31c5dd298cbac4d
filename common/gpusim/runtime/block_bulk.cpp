/// @file
/// The copy engine: copies between global and shared memory that a thread starts and that go on by
/// themselves.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpusim/runtime/block.hpp"

namespace gpusim {

// --- inside a fiber

void BlockRunner::start_copy(BulkCopy&& operands, const void* pc) {
  Thread& t = *current_;
  std::shared_ptr<BulkCopy> copy;
  {
    const OutsideKernel outside;
    copy = std::make_shared<BulkCopy>(std::move(operands));
    copy->thread = t.linear;
    copy->pc = pc;
    copy->group = t.bulk.committed;
  }
  check_copy(*copy, pc);
  Operation operation{.kind = Operation::Kind::kLoad, .barrier = copy->barrier};
  {
    const OutsideKernel outside;
    operation.copies.push_back(copy);
    if (copy->kind != BulkCopy::Kind::kLoad) {
      operation.kind = Operation::Kind::kStore;
      if (!t.bulk.turns.empty()) copy->turn = t.bulk.turns.back().counter;
      t.bulk.pending.push_back(copy);
    }
  }
  post(std::move(operation), pc);
}

/// Checks the operands; ends the thread if they are wrong.
void BlockRunner::check_copy(BulkCopy& copy, const void* pc) {
  const bool is_load = copy.kind == BulkCopy::Kind::kLoad;
  if (is_load) check_mbarrier(copy.barrier, pc);
  const std::size_t alignment = copy.is_tensor() ? copy.map.alignment() : 16;
  if (copy.shared - shared_base_ >= shared_bytes_)
    trap(DefectKind::kOutOfBounds, Space::kShared, copy.shared, 16, AccessKind::kRead, pc);
  if (copy.shared % alignment != 0) {
    misuse(pc, {"the copy needs a shared address that is a multiple of " + std::to_string(alignment) + ": ",
                name_of(copy.shared, pc)});
  }
  if (copy.bytes == 0 || copy.bytes % 16 != 0)
    misuse(pc,
           {"a copy of " + std::to_string(std::ptrdiff_t(copy.bytes)) + " bytes: must be a multiple of 16"});
  if (!copy.is_tensor() && copy.global % 16 != 0)
    misuse(pc, {"the copy needs a global address that is a multiple of 16"});
  StaticVariable* const variable = variable_at(copy.shared - shared_base_);
  const std::uintptr_t end = variable == nullptr ? 0 : shared_base_ + variable->offset + variable->bytes;
  if (copy.shared + copy.bytes > end) {
    trap(DefectKind::kOutOfBounds, Space::kShared, std::max(copy.shared, end), copy.bytes,
         is_load ? AccessKind::kWrite : AccessKind::kRead, pc);
  }
  variable->touched = true;
  if (is_load) check_shared(copy.shared, copy.bytes, AccessKind::kCopyLand, pc, false);
  copy.for_each_run(
      [&](std::uintptr_t global, std::size_t, std::size_t bytes) { check_run(copy, global, bytes, pc); });
}

/// Checks the part of a copy that is a run of bytes in global memory.
void BlockRunner::check_run(const BulkCopy& copy, std::uintptr_t global, std::size_t bytes, const void* pc) {
  const bool writes = copy.kind == BulkCopy::Kind::kStore;
  const bool in_arena = global - arena_base_ < arena_bytes_;
  if (!in_arena || arena_.find(global, bytes) == 0) {
    const std::uint32_t first = in_arena ? arena_.find(global, 1) : 0;
    trap(DefectKind::kOutOfBounds, Space::kGlobal, first != 0 ? arena_.allocation(first).end : global, bytes,
         writes                               ? AccessKind::kWrite
         : copy.kind == BulkCopy::Kind::kLoad ? AccessKind::kRead
                                              : AccessKind::kAtomic,
         pc);
  }
  if (writes) {
    check_global(global, bytes, AccessKind::kWrite, pc, false);
    return;
  }
  const std::size_t written = arena_.written_prefix(global, bytes);
  if (written < bytes) found_uninitialized(Space::kGlobal, global + written, bytes, pc);
}

void BlockRunner::bulk_commit(const void* pc) {
  const auto group = int(current_->bulk.committed++);
  if (record_ != nullptr) [[unlikely]]
    post({.kind = Operation::Kind::kBulkCommit, .value = group}, pc);
}

void BlockRunner::bulk_wait(int pending, bool read_only, const void* pc) {
  require(90, "cp.async.bulk", pc);
  BulkGroups& bulk = current_->bulk;
  const std::uint32_t allowed = std::uint32_t(std::max(pending, 0));
  const std::uint32_t covered = bulk.committed - std::min(bulk.committed, allowed);
  Operation operation{.kind = read_only ? Operation::Kind::kWaitRead : Operation::Kind::kWaitWrite,
                      .value = int(covered)};
  {
    const OutsideKernel outside;
    for (const auto& copy : bulk.pending) {
      if (copy->group >= covered) continue;
      if (!copy->has_read) copy->take_from_shared();
      if (read_only) continue;
      copy->put_into_global();
      operation.copies.push_back(copy);
    }
    if (!read_only) std::erase_if(bulk.pending, [&](const auto& copy) { return copy->group < covered; });
  }
  post(std::move(operation), pc);
}

// --- when the log is processed

void BlockRunner::count_copy(const BulkCopy& copy) {
  constexpr std::uintptr_t kSector = 32;
  GlobalCounters* last = nullptr;
  copy.for_each_run([&](std::uintptr_t global, std::size_t, std::size_t bytes) {
    GlobalCounters& c = tally.allocations[arena_.find(global, 1)];
    const auto sectors = std::int64_t((global + bytes - 1) / kSector - global / kSector + 1);
    const bool first = last != &c;
    last = &c;
    switch (copy.kind) {
      case BulkCopy::Kind::kLoad:
        c += {.read_bytes = std::int64_t(bytes), .read_sectors = sectors, .read_requests = first};
        break;
      case BulkCopy::Kind::kStore:
        c += {.write_bytes = std::int64_t(bytes), .write_sectors = sectors, .write_requests = first};
        break;
      case BulkCopy::Kind::kAdd:
        c += {.read_bytes = std::int64_t(bytes),
              .write_bytes = std::int64_t(bytes),
              .atomic_sectors = sectors,
              .atomic_requests = first};
        break;
      case BulkCopy::Kind::kToBlock:
      case BulkCopy::Kind::kValue: break;
    }
  });
}

void BlockRunner::begin_load(const std::shared_ptr<BulkCopy>& copy, Mbarrier& barrier, int thread,
                             const void* pc) {
  count_copy(*copy);
  if (record_ != nullptr) record_copy(*copy, &barrier, thread, pc);
  tally.ops.bulk_load_bytes += std::int64_t(copy->bytes);
  if (!barrier.fenced) {
    complain(thread, DefectKind::kMisuse, pc,
             {"the copy engine may not see that ", name_of(barrier.address, pc), " is initialised: no ",
              "fence_mbarrier_init() after ", Piece::line(barrier.init_pc)});
    barrier.fenced = true;
  }
  copy->completion = {barrier.sequence, barrier.phase};
  loading_ = &barrier;
  check_bytes(barrier, copy.get());
  const int warp = thread / kWarpSize, lane = thread % kWarpSize;
  const InstructionKey from = InstructionKey::make(pc, 16, AccessKind::kRead, Space::kGlobal);
  const Actor reader = actor_of(from, warp);
  copy->for_each_run([&](std::uintptr_t global, std::size_t, std::size_t bytes) {
    use_global(from, global, bytes, 1u << lane, reader);
  });
  const InstructionKey to = InstructionKey::make(pc, 16, AccessKind::kCopyIssue, Space::kShared);
  const Actor writer = actor_of(to, warp);
  copy->for_each_word([&](std::uintptr_t address) {
    const std::size_t offset = address - shared_base_;
    check_async_readers(address, 4, lane, writer, to);
    async_shadow_.clear_write(offset / 4);
    async_shadow_.clear_reads(offset / 4);
    shared_shadow_.begin_copy(offset, 4, lane, writer, copy->completion,
                              [&](int, const Rival& rival) { found_race(to, address, writer, lane, rival); });
  });
  loading_ = nullptr;
  barrier.in_flight.push_back(copy);
  trace_event("load", thread, pc, barrier);
}

void BlockRunner::land_load(BulkCopy& copy) {
  if (copy.is_in_cluster()) {
    copy.copy_in_cluster();
  } else {
    copy.take_from_global();
    copy.put_into_shared();
  }
  copy.data = {};
  landed_boxes_.add(copy, shared_base_, shared_bytes_);
  const InstructionKey key = InstructionKey::make(copy.pc, 16, AccessKind::kCopyLand, Space::kShared);
  const Actor actor = actor_of(key, copy.thread / kWarpSize);
  copy.for_each_word([&](std::uintptr_t address) {
    shared_shadow_.end_copy(address - shared_base_, 4, actor, copy.completion);
  });
}

void BlockRunner::begin_store(const BulkCopy& copy, int thread, const void* pc) {
  count_copy(copy);
  if (record_ != nullptr) record_copy(copy, nullptr, thread, pc);
  trace_event("store", thread, pc, copy.group);
  BulkGroups& bulk = threads_[thread].bulk;
  if (bulk.reads == 0) {
    bulk.reads = new_sequence({Sequence::Kind::kStore, thread});
    bulk.writes = new_sequence({Sequence::Kind::kStore, thread});
  }
  const int warp = thread / kWarpSize, lane = thread % kWarpSize;
  copy.for_each_chunk([&](std::uintptr_t address, std::size_t) {
    if (!trapped_) async_read(thread, {bulk.reads, copy.group}, address, 16, pc);
  });
  const bool adds = copy.kind == BulkCopy::Kind::kAdd;
  const InstructionKey to =
      InstructionKey::make(pc, 16, adds ? AccessKind::kAtomic : AccessKind::kCopyIssue, Space::kGlobal);
  const Actor writer = actor_of(to, warp);
  copy.for_each_run([&](std::uintptr_t global, std::size_t, std::size_t bytes) {
    use_global_async(to, global, bytes, lane, writer, {bulk.writes, copy.group}, copy.turn != nullptr);
  });
}

/// A bulk store is going to write to global memory.
void BlockRunner::use_global_async(InstructionKey key, std::uintptr_t address, std::size_t bytes, int lane,
                                   const Actor& actor, Completion completion, bool in_turn) {
  // For other blocks it is an ordinary write or atomic operation, or one in turn.
  const AccessKind kind = in_turn                             ? AccessKind::kInTurn
                          : key.kind() == AccessKind::kAtomic ? AccessKind::kAtomic
                                                              : AccessKind::kWrite;
  const InstructionKey plain =
      InstructionKey::make(reinterpret_cast<const void*>(key.pc()), key.size(), kind, Space::kGlobal);
  use_global(plain, address, bytes, 1u << lane, actor_of(plain, actor.warp));
  for (std::uintptr_t at = address - arena_base_, end = at + bytes; at < end; at += 4) {
    global_shadow_.page(at).begin_copy(at % GlobalShadow::kPageBytes, 4, lane, actor, completion,
                                       [](int, const Rival&) {});
  }
}

void BlockRunner::end_stores(const Operation& operation, int thread, const void* pc) {
  const BulkGroups& bulk = threads_[thread].bulk;
  if (bulk.reads == 0 || operation.value == 0) return;
  const auto last = std::uint32_t(operation.value - 1);
  trace_event(operation.kind == Operation::Kind::kWaitRead ? "stores have read" : "stores have written",
              thread, pc, last);
  learn(thread, {bulk.reads, last});
  if (operation.kind == Operation::Kind::kWaitRead) return;
  learn(thread, {bulk.writes, last});
  const Actor actor =
      actor_of(InstructionKey::make(pc, 16, AccessKind::kCopyLand, Space::kGlobal), thread / kWarpSize);
  for (const auto& copy : operation.copies) end_store(*copy, actor);
}

void BlockRunner::end_store(const BulkCopy& copy, const Actor& actor) {
  const Completion completion{threads_[copy.thread].bulk.writes, copy.group};
  copy.for_each_run([&](std::uintptr_t global, std::size_t, std::size_t bytes) {
    for (std::uintptr_t at = global - arena_base_, end = at + bytes; at < end; at += 4)
      global_shadow_.page(at).end_copy(at % GlobalShadow::kPageBytes, 4, actor, completion);
  });
}

/// At the end of the block: stores that nobody has waited for are done now.
void BlockRunner::finish_copies() {
  for (int i = 0; i < thread_count_; ++i) {
    for (const auto& copy : threads_[i].bulk.pending) {
      if (!copy->has_read) {
        complain(i, DefectKind::kMisuse, copy->pc,
                 {"the block ends while the copy may still read its shared memory: ",
                  copy->group < threads_[i].bulk.committed ? "its thread has not waited with bulk_wait_read()"
                                                           : "no bulk_commit() after it"});
        copy->take_from_shared();
      }
      copy->put_into_global();
      end_store(*copy, actor_of(InstructionKey::make(copy->pc, 16, AccessKind::kCopyLand, Space::kGlobal),
                                i / kWarpSize));
    }
    threads_[i].bulk = {};
  }
  for (Mbarrier& barrier : mbarriers_) {
    for (const auto& copy : barrier.in_flight) {
      if (!copy->is_in_cluster()) {  // of these, Cluster::find_ended() reports
        complain(copy->thread, DefectKind::kMisuse, copy->pc,
                 {"the block ends while the load is in flight: no thread has waited for ",
                  name_of(barrier.address, copy->pc)});
      }
      land_load(*copy);
    }
    barrier.in_flight.clear();
  }
}

}  // namespace gpusim
