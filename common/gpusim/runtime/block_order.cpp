/// @file
/// What orders a block after other blocks of its launch, and after the kernel before.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "gpusim/runtime/block.hpp"
#include "gpusim/runtime/host_memory.hpp"

namespace gpusim {

void BlockRunner::note_arrival(Arrival&& arrival) {
  const void* const pc = arrival.pc;
  const std::size_t number = arrived_.size();
  {
    const OutsideKernel outside;
    if (debugging_) return process_arrival(std::move(arrival), current_->linear);
    arrived_.push_back(std::move(arrival));
  }
  const InstructionKey key = InstructionKey::make(pc, 0, AccessKind::kArrival, Space::kGlobal);
  while (!log_.append(key, current_->loops, number)) suspend();
}

void BlockRunner::process_arrivals(const WarpAccess& access, int warp) {
  for (std::uint32_t rest = access.lanes; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    process_arrival(std::move(arrived_[access.addresses[lane]]), warp * kWarpSize + lane);
  }
}

void BlockRunner::process_arrival(Arrival&& arrival, int thread) {
  const int warp = thread / kWarpSize, lane = thread % kWarpSize;
  const Actor actor = actor_of(InstructionKey::make(arrival.pc, 4, AccessKind::kRead, Space::kGlobal), warp);
  arrival.when = {thread, epoch_, warps_[warp].clock.tick};
  arrival.known = latest_arrival(actor, lane);
  global_shadow_.for_each_page([&](std::uintptr_t begin, RaceShadow& page) {
    for (std::size_t offset = 0; offset < GlobalShadow::kPageBytes; offset += 4) {
      bool is_unreleased = false;
      page.check_read(offset, 4, lane, actor,
                      [&](int, const Rival& rival) { is_unreleased |= rival.kind != AccessKind::kAtomic; });
      if (is_unreleased) arrival.unreleased.push_back(begin + offset);
    }
  });
  arrivals_.push_back(std::move(arrival));
  if (debugging_) set_arrivals();
}

/// Before the races between blocks are looked for.
void BlockRunner::set_arrivals() {
  if (!arrivals_.empty()) arena_.grid_order().set(User::make(number_, rank_ * kMaxThreads, 0), arrivals_);
}

// --- Locks that threads of a block take in turn. Accesses by threads that had the same lock are ordered, one
// way or the other. The log does not say which of its locks a thread had when: it may have been any of them.

void BlockRunner::note_lock(const void* word, bool takes) {
  const OutsideKernel outside;
  constexpr std::size_t kMost = 64;
  const auto lock = reinterpret_cast<std::uintptr_t>(word);
  std::vector<std::uintptr_t>& locks = current_->locks;
  const bool is_known = std::find(locks.begin(), locks.end(), lock) != locks.end();
  if (!takes) {
    has_locks_ |= is_known;
  } else if (!is_known && locks.size() < kMost) {
    locks.push_back(lock);
  }
}

void BlockRunner::guard_words(const WarpAccess& access, int warp) {
  for (std::uint32_t rest = access.lanes; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const std::vector<std::uintptr_t>& locks = threads_[warp * kWarpSize + lane].locks;
    const std::uintptr_t begin = access.addresses[std::size_t(lane)];
    for (std::uintptr_t word = begin / 4; word <= (begin + access.key.size() - 1) / 4; ++word) {
      const auto [known, is_new] = guards_.try_emplace(word, locks);
      if (!is_new) {
        std::erase_if(known->second, [&](std::uintptr_t lock) {
          return std::find(locks.begin(), locks.end(), lock) == locks.end();
        });
      }
    }
  }
}

bool BlockRunner::is_guarded(std::uintptr_t address) const {
  const auto known = guards_.find(address / 4);
  return known != guards_.end() && !known->second.empty();
}

void BlockRunner::note_news(const void* word, const void* pc) {
  const auto address = reinterpret_cast<std::uintptr_t>(word);
  const std::uint64_t position = arena_.grid_order().latest_release(address);
  if (position == 0) [[likely]]
    return;
  {
    const OutsideKernel outside;
    std::uint64_t& seen = seen_releases_[address];
    if (seen >= position) return;
    seen = position;
  }
  note_arrival({.counter = address - arena_base_,
                .position = position + 1,
                .pc = pc,
                .acquires = true,
                .releases = false});
}

/// A thread has read a word as volatile: what has been released there until now may be what it has seen.
void BlockRunner::take_news(std::uintptr_t word, int thread, const void* pc) {
  const std::uint64_t position = arena_.grid_order().latest_release(word);
  if (position == 0) [[likely]]
    return;
  std::uint64_t& seen = seen_releases_[word];
  if (seen >= position) return;
  seen = position;
  process_arrival({.counter = word - arena_base_,
                   .position = position + 1,
                   .pc = pc,
                   .acquires = true,
                   .releases = false},
                  thread);
}

void BlockRunner::on_volatile_access(const void* pointer, std::size_t size, AccessKind kind, const void* pc) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const bool is_global = address - arena_base_ < arena_bytes_;
  if (!is_global && !is_device_variable(address)) return on_access(pointer, size, kind, pc);
  Thread& thread = *current_;
  const std::uint64_t place = iteration_ ^ thread.loops.block();
  if (kind == AccessKind::kWrite) {
    if (!thread.locks.empty()) note_lock(pointer, false);
    // Without a fence before it, or as part of "*sum = *sum + x", it is data.
    const bool is_sum = thread.volatile_read == address && thread.volatile_read_at == place;
    const bool releases_more = thread.fence_epoch != 0 && !is_sum;
    if (is_global) on_access(pointer, size, releases_more ? AccessKind::kPublish : AccessKind::kWrite, pc);
    if (!releases_more) return;
    std::uint64_t position = 0;
    {
      const OutsideKernel outside;
      position = arena_.grid_order().release(address);
    }
    return note_arrival({.counter = address - arena_base_, .position = position, .pc = pc});
  }
  thread.volatile_read = address;
  thread.volatile_read_at = place;
  if (is_global) {
    on_access(pointer, size, AccessKind::kReadPublished, pc);
  } else if (!debugging_) {  // only to learn what it acquires
    const InstructionKey key = InstructionKey::make(pc, size, AccessKind::kReadPublished, Space::kLocal);
    while (!log_.append(key, thread.loops, address)) suspend();
  }
  if (!debugging_) return;
  const OutsideKernel outside;
  take_news(address, thread.linear, pc);
}

/// The number of the block's latest arrival that comes before what a lane does now, from 1 on; 0: none does.
std::size_t BlockRunner::latest_arrival(const Actor& actor, int lane) const {
  std::size_t number = arrivals_.size();
  for (; number != 0; --number) {
    if (comes_after(actor, lane, arrivals_[number - 1].when)) break;
  }
  return number;
}

bool BlockRunner::comes_after(const Actor& actor, int lane, const Moment& moment) const {
  return moment.epoch != epoch_ || actor.comes_after(lane, std::uint16_t(moment.thread), moment.tick);
}

void BlockRunner::note_dependency(bool waits, const void* pc) {
  if (launch_->unfinished_from == 0) return;
  if (debugging_) {
    const OutsideKernel outside;
    return process_dependency(waits, current_->linear);
  }
  const InstructionKey key = InstructionKey::make(pc, 0, AccessKind::kDependency, Space::kGlobal);
  while (!log_.append(key, current_->loops, waits)) suspend();
}

void BlockRunner::process_dependency(bool waits, int thread) {
  GridOrder& order = arena_.grid_order();
  if (waits) {
    if (dependencies_.empty()) order.note_wait();
    dependencies_.push_back({thread, epoch_, warps_[thread / kWarpSize].clock.tick});
  } else if (dependencies_.empty()) {
    order.note_early_trigger();
  }
}

/// A use of bytes, part or all of one word: kernels that may not have ended yet must not be in conflict with
/// it.
void BlockRunner::check_unfinished(std::uintptr_t offset, Use use, int lane, const Actor& actor) {
  if (std::any_of(dependencies_.begin(), dependencies_.end(),
                  [&](const Moment& wait) { return comes_after(actor, lane, wait); }))
    return;
  const auto rival = arena_.grid_races().earlier_use(offset, use, launch_->unfinished_from);
  if (!rival) return;
  constexpr AccessKind kKinds[] = {AccessKind::kRead, AccessKind::kWrite, AccessKind::kAtomic};
  const FindingKey key{.kind = DefectKind::kRace,
                       .pc = pc_of_site(actor.site),
                       .rival_pc = pc_of_site(rival->second.site()),
                       .access = kKinds[int(use)],
                       .rival_access = kKinds[int(rival->first)],
                       .bytes = 4};
  found(key, [&](Example& e) {
    fill(e, actor.warp * kWarpSize + lane, Space::kGlobal, arena_base_ + offset);
    e.of_operations = true;
    e.reason = {
        "the kernel before may still be running: no cudaGridDependencySynchronize() comes before this " +
        gpusim::name_of(use)};
  });
}

}  // namespace gpusim
