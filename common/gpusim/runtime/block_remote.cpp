/// @file
/// mbarriers of other blocks of the cluster, and asynchronous copies to their shared memory.
///
/// A copy belongs to the block whose mbarrier it completes on: there it lands, and there its bytes are
/// counted. What its issuer knows decides whether it may begin. All blocks of a cluster have common clocks
/// for that: see Clock.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpusim/runtime/block.hpp"
#include "gpusim/runtime/cluster.hpp"
#include "gpusim/runtime/sites.hpp"

namespace gpusim {

// --- inside a fiber

void BlockRunner::arrive_in_cluster(const void* barrier, bool relaxed, const void* pc) {
  require_cluster("mbarrier.arrive.shared::cluster", pc);
  const auto address = reinterpret_cast<std::uintptr_t>(barrier);
  check_in_cluster(address, 8, AccessKind::kAtomic, pc);
  post({.kind = Operation::Kind::kArriveInCluster, .barrier = address, .relaxed = relaxed}, pc);
}

void BlockRunner::start_copy_in_cluster(BulkCopy&& operands, const void* pc) {
  const bool is_value = operands.kind == BulkCopy::Kind::kValue;
  require_cluster(is_value ? "st.async" : "cp.async.bulk.shared::cluster", pc);
  const std::uintptr_t to = operands.shared, from = operands.source;
  const std::size_t bytes = operands.bytes;
  if (!is_value) {
    if (bytes == 0 || bytes % 16 != 0)
      misuse(pc, {"a copy of " + std::to_string(std::ptrdiff_t(bytes)) + " bytes: must be a multiple of 16"});
    const StaticVariable* const variable =
        from - shared_base_ < shared_bytes_ ? variable_at(from - shared_base_) : nullptr;
    const std::uintptr_t end = variable == nullptr ? 0 : shared_base_ + variable->offset + variable->bytes;
    if (from + bytes > end)
      trap(DefectKind::kOutOfBounds, Space::kShared, std::max(from, end), bytes, AccessKind::kRead, pc);
    if (from % 16 != 0)
      misuse(pc, {"the copy needs a source address that is a multiple of 16: ", name_of(from, pc)});
  }
  BlockRunner& owner = check_in_cluster(to, bytes, AccessKind::kWrite, pc);
  if (!is_value && to % 16 != 0) {
    misuse(pc, {"the copy needs a shared address that is a multiple of 16: ", owner.name_for(*this, to, pc),
                owner.of_block_for(*this)});
  }
  const BlockRunner& of_barrier = check_in_cluster(operands.barrier, 8, AccessKind::kAtomic, pc);
  if (&of_barrier != &owner) {
    misuse(pc, {owner.name_for(*this, to, pc), " is in " + owner.block_name() + ", and ",
                of_barrier.name_for(*this, operands.barrier, pc),
                " in " + of_barrier.block_name() + ": a copy and its mbarrier must be in the same block"});
  }
  const std::size_t first = (to - owner.shared_base_) / 4;
  for (std::size_t word = first; word < first + bytes / 4; ++word) owner.shared_state_[word] |= kWritten;
  Operation operation{.kind = is_value ? Operation::Kind::kStoreInCluster : Operation::Kind::kCopyInCluster,
                      .barrier = operands.barrier};
  {
    const OutsideKernel outside;
    auto copy = std::make_shared<BulkCopy>(std::move(operands));
    copy->thread = current_->linear;
    copy->rank = rank_;
    copy->pc = pc;
    if (is_value) {
      const auto* value = reinterpret_cast<const std::byte*>(from);
      copy->data.assign(value, value + bytes);
    }
    operation.copies.push_back(std::move(copy));
  }
  post(std::move(operation), pc);
}

/// Ends the thread if the bytes are not in a variable of one of the cluster's blocks. @return  that block
BlockRunner& BlockRunner::check_in_cluster(std::uintptr_t address, std::size_t bytes, AccessKind kind,
                                           const void* pc) {
  BlockRunner* const owner = cluster_->owner_of(address);
  if (owner == nullptr) trap(DefectKind::kOutOfBounds, Space::kShared, address, bytes, kind, pc);
  const std::size_t offset = address - owner->shared_base_;
  StaticVariable* const variable = owner->variable_at(offset);
  if (variable == nullptr || offset - variable->offset + bytes > variable->bytes)
    trap(DefectKind::kOutOfBounds, Space::kCluster, address, bytes, kind, pc);
  const std::size_t alignment = std::min<std::size_t>(bytes, 16);
  if (bytes <= 16 && std::has_single_bit(bytes) && address % alignment != 0 && kind != AccessKind::kRead)
    trap(DefectKind::kMisaligned, Space::kCluster, address, bytes, kind, pc);
  variable->touched = true;
  return *owner;
}

/// Ends the thread if an mbarrier is in another block of the cluster.
/// @param instead  what the report says then
void BlockRunner::check_own_mbarrier(std::uintptr_t address, const char* instead, const void* pc) {
  if (cluster_ == nullptr || address - shared_base_ < shared_bytes_) return;
  const BlockRunner* const owner = cluster_->owner_of(address);
  if (owner == nullptr) return;
  misuse(pc, {owner->name_for(*this, address, pc),
              " is in " + owner->block_name() + ", not in the thread's own block" + instead});
}

// --- when the log is processed

/// An arrival at an mbarrier of any block of the cluster, or a copy that completes there.
bool BlockRunner::process_in_cluster(Operation& operation, int thread, const void* pc) {
  BlockRunner& owner = *cluster_->owner_of(operation.barrier);
  Mbarrier* const barrier = owner.find_mbarrier(operation.barrier);
  if (barrier == nullptr) {
    fail(thread, DefectKind::kMisuse, pc,
         {"no thread has initialised ", owner.name_for(*this, operation.barrier, pc),
          owner.of_block_for(*this) + (&owner == this ? "" : ": no barrier of the cluster comes before")});
    return false;
  }
  if (&owner == this) {
    use_mbarrier(AccessKind::kAtomic, operation.barrier, thread, pc);
  } else if (!sees_initialisation(*barrier, owner, thread)) {
    found_early_use(*barrier, owner, thread, pc);
  }
  if (operation.kind != Operation::Kind::kArriveInCluster) {
    begin_copy_in_cluster(operation.copies[0], *barrier, owner, thread, pc);
    return false;
  }
  if (&owner != this) {
    add_remote_use(owner, {.pc = pc,
                           .address = operation.barrier,
                           .size = 8,
                           .use = {.epoch = epoch_,
                                   .arrived = threads_[thread].cluster.arrived,
                                   .tick = warps_[thread / kWarpSize].clock.tick,
                                   .thread = std::uint16_t(rank_ * kMaxThreads + thread),
                                   .kind = AccessKind::kAtomic},
                           .is_arrival = true});
  }
  return owner.arrive(*barrier, operation, *this, thread, pc);
}

bool BlockRunner::sees_initialisation(const Mbarrier& b, const BlockRunner& owner, int thread) const {
  const std::uint32_t waited = std::max(threads_[thread].cluster.waited, known_phases_);
  return (b.fence_phase != 0 && b.fence_phase <= waited) ||
         clocks_.knows(thread, std::uint16_t(b.initializer), b.init_tick, clocks_.first_of(owner.rank_));
}

/// A thread uses another block's mbarrier, and may not see that it is initialised.
void BlockRunner::found_early_use(const Mbarrier& barrier, const BlockRunner& owner, int thread,
                                  const void* pc) {
  const FindingKey key{.kind = DefectKind::kRace,
                       .pc = reinterpret_cast<std::uintptr_t>(pc),
                       .rival_pc = reinterpret_cast<std::uintptr_t>(barrier.init_pc),
                       .access = AccessKind::kAtomic,
                       .rival_access = AccessKind::kWrite,
                       .space = Space::kShared,
                       .bytes = 8};
  found(key, [&](Example& e) {
    fill(e, thread, Space::kCluster, barrier.address);
    e.rival_thread = barrier.initializer;
    e.rival_block = owner.linear_;
    e.reason = {"the mbarrier may not be initialised yet: no barrier of the cluster between the two"};
  });
}

void BlockRunner::begin_copy_in_cluster(const std::shared_ptr<BulkCopy>& copy, Mbarrier& barrier,
                                        BlockRunner& owner, int thread, const void* pc) {
  const bool is_remote = &owner != this;
  if (is_remote) {
    tally.shared.remote_bytes += std::int64_t(copy->bytes);
    barrier.from_block = {pc, rank_};
  }
  const bool by_engine = copy->kind == BulkCopy::Kind::kToBlock;
  if (by_engine && !barrier.fenced) {
    complain(thread, DefectKind::kMisuse, pc,
             {"the copy engine may not see that ", owner.name_for(*this, barrier.address, pc),
              owner.of_block_for(*this) + " is initialised: no fence_mbarrier_init() after ",
              Piece::line(barrier.init_pc)});
    barrier.fenced = true;
  }
  copy->completion = {barrier.sequence, barrier.phase};
  owner.check_bytes(barrier, copy.get());
  if (by_engine) {
    for (std::size_t at = 0; at < copy->bytes && !trapped_; at += 16)
      async_read(thread, copy->completion, copy->source + at, 16, pc);
    if (is_remote) source_uses_.push_back({pc, thread, barrier.address, copy->completion});
  }
  const int warp = thread / kWarpSize, lane = thread % kWarpSize;
  const InstructionKey key = InstructionKey::make(pc, 4, AccessKind::kCopyIssue, Space::kShared);
  Actor actor = actor_of(key, warp);
  actor.is_remote = is_remote;
  actor.first = clocks_.first_of(owner.rank_);
  actor.block_epoch = owner.block_epoch_;
  actor.epoch = owner.epoch_;
  copy->for_each_word([&](std::uintptr_t address) {
    const std::size_t word = (address - owner.shared_base_) / 4;
    const auto on_race = [&](const Rival& rival) { found_overwriting(*copy, address, owner, rival); };
    owner.async_shadow_.for_each_read(word, [&](const AsyncShadow::Read& read) {
      if (!clocks_.knows(thread, read.sequence, read.number))
        on_race({read.thread, read.site, AccessKind::kAsyncRead});
    });
    owner.async_shadow_.clear_write(word);
    owner.async_shadow_.clear_reads(word);
    owner.shared_shadow_.begin_copy(4 * word, 4, lane, actor, copy->completion,
                                    [&](int, const Rival& rival) { on_race(rival); });
  });
  // Not what the issuer has written: only what is complete, which is so when the copy lands.
  barrier.gathered.resize(clocks_.stride());
  const std::size_t first = clocks_.first_sequence();
  ThreadClocks::join(&barrier.gathered[first], clocks_.row(thread) + first, clocks_.stride() - first);
  if (is_remote) {
    add_remote_use(owner, {.pc = pc,
                           .address = copy->shared,
                           .size = copy->bytes,
                           .use = {.tick = actor.clock->tick,
                                   .thread = std::uint16_t(rank_ * kMaxThreads + thread),
                                   .kind = AccessKind::kWrite},
                           .completion = copy->completion});
  }
  if (event_trace_ != nullptr) {
    add_event("load", thread, pc, {owner.name_for(*this, barrier.address, pc), owner.of_block_for(*this)},
              barrier.phase);
  }
  if (owner.live_ == 0) return owner.land_load(*copy);  // see Cluster::find_ended()
  barrier.in_flight.push_back(copy);
}

/// A copy to a block of the cluster begins while somebody may use the bytes.
void BlockRunner::found_overwriting(const BulkCopy& copy, std::uintptr_t address, const BlockRunner& owner,
                                    const Rival& rival) {
  const FindingKey key{.kind = DefectKind::kRace,
                       .pc = reinterpret_cast<std::uintptr_t>(copy.pc),
                       .rival_pc = pc_of_site(rival.site),
                       .access = AccessKind::kCopyIssue,
                       .rival_access = rival.kind,
                       .space = Space::kShared,
                       .bytes = 4};
  found(key, [&](Example& e) {
    fill(e, copy.thread, Space::kCluster, address);
    e.rival_thread = rival.thread;
    e.rival_block = owner.linear_;
    if (rival.thread < ThreadClocks::kFirstSequence) {
      const auto number = owner.mbarrier_at_.at(copy.barrier);
      const Mbarrier& barrier = owner.mbarriers_[number];
      if (rival.kind == AccessKind::kWrite) {
        e.reason = {
            "the sender has not learned that the write is over: no barrier of the cluster between the two"};
      } else if (owner.last_wait_for(rival.thread, barrier).pc == nullptr) {
        e.reason = {"data read while its load is in flight: no wait for ",
                    owner.name_for(*this, barrier.address, copy.pc), " between the two"};
      } else {
        e.reason = {
            "the sender has not learned that the read is over: no wait for an arrival of the reader between "
            "the two"};
      }
      return;
    }
    const Sequence& sequence = sequences_[rival.thread - ThreadClocks::kFirstSequence];
    e.rival_thread = sequence.owner;
    e.reason = {"another copy to the same bytes may be in flight"};
    if (sequence.kind != Sequence::Kind::kLoad) return;
    const Mbarrier& barrier = owner.mbarriers_[std::size_t(sequence.owner)];
    e.rival_thread = barrier.initializer;
    for (const auto* copies : {&barrier.landed, &barrier.in_flight}) {
      for (const auto& other : *copies) {
        if (address - other->shared >= other->bytes) continue;
        e.rival_thread = other->thread;
        if (other->is_in_cluster()) e.rival_block = cluster_->block_number(other->rank);
      }
    }
    e.reason = {"another copy to the same bytes may be in flight: the sender has not learned that ",
                owner.name_for(*this, barrier.address, copy.pc),
                owner.of_block_for(*this) + " has completed its phase"};
  });
}

void BlockRunner::add_remote_use(BlockRunner& owner, const RemoteUse& use) {
  std::vector<RemoteUse>& uses = owner.remote_uses_;
  const auto same = std::find_if(uses.begin(), uses.end(), [&](const RemoteUse& u) {
    const bool same_sequence = !use.completion || u.completion->sequence == use.completion->sequence;
    return u.pc == use.pc && u.use.is_by_same(use.use) && same_sequence;
  });
  if (same == uses.end()) {
    uses.push_back(use);
  } else if (use.completion ? use.completion->number >= same->completion->number
                            : use.use.is_later_than(same->use)) {
    *same = use;
  }
}

/// At the end of the cluster: finds copies that may have read this block's memory after its end.
void BlockRunner::find_unread_sources() {
  for (const SourceUse& use : source_uses_) {
    bool is_over = false;
    for (int i = 0; i < thread_count_ && !is_over; ++i)
      is_over = clocks_.knows(i, use.completion.sequence, use.completion.number);
    if (is_over) continue;
    const BlockRunner& owner = *cluster_->owner_of(use.barrier);
    complain(
        use.thread, DefectKind::kMisuse, use.pc,
        {"the block may end while the copy still reads its shared memory: none of its threads learns that ",
         owner.name_for(*this, use.barrier, use.pc),
         owner.of_block_for(*this) + " has completed " + phase_name(use.completion.number)});
  }
}

BlockRunner& BlockRunner::issuer_of(const BulkCopy& copy) {
  return copy.is_in_cluster() ? *cluster_->blocks()[std::size_t(copy.rank)] : *this;
}

/// The name of something in this block's memory, as the code of another block calls it.
Piece BlockRunner::name_for(const BlockRunner& reader, std::uintptr_t address, const void* pc) const {
  return reader.name_of(reader.in_own_memory(address, *this), pc);
}

/// What has to follow that name.
std::string BlockRunner::of_block_for(const BlockRunner& reader) const {
  return &reader == this ? "" : " of " + block_name();
}

}  // namespace gpusim
