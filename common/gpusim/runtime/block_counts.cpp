/// @file
/// Turns the accesses of a warp into counts and races.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "gpusim/runtime/block.hpp"
#include "gpusim/runtime/cluster.hpp"
#include "gpusim/runtime/session.hpp"
#include "gpusim/runtime/streams.hpp"
#include "gpusim/runtime/trace.hpp"

namespace gpusim {

std::vector<TraceEntry>* trace = nullptr;

/// What is no plain access. @return  false if it has to be counted as well
bool BlockRunner::process_special(const WarpAccess& access, int warp) {
  const InstructionKey& key = access.key;
  switch (key.kind()) {
    case AccessKind::kOperation: process_operations(access, warp); return true;
    case AccessKind::kDependency:
      for (std::uint32_t rest = access.lanes; rest != 0; rest &= rest - 1) {
        const int lane = std::countr_zero(rest);
        process_dependency(access.addresses[lane] != 0, warp * kWarpSize + lane);
      }
      return true;
    case AccessKind::kReadPublished:
      for (std::uint32_t rest = access.lanes; rest != 0; rest &= rest - 1) {
        const int lane = std::countr_zero(rest);
        take_news(access.addresses[lane], warp * kWarpSize + lane, reinterpret_cast<const void*>(key.pc()));
      }
      return key.space() == Space::kLocal;
    case AccessKind::kArrival: process_arrivals(access, warp); return true;
    case AccessKind::kFence: process_fence(key, access.lanes, warp); return true;
    default: break;
  }
  if (key.kind() < AccessKind::kCopyCommit) return false;
  process_note(access, warp);
  return true;
}

void BlockRunner::process(const WarpAccess& access, int warp) {
  const InstructionKey& key = access.key;
  if (record_ != nullptr) [[unlikely]]
    settle_defects_before(log_.number_of(access), warp);
  if (key.kind() > AccessKind::kAtomic && process_special(access, warp)) return;
  warps_[warp].barrier_pc = nullptr;
  if (!warps_[warp].products.tiles.empty()) ++tally.ops.accesses_beside_products;
  if (trace != nullptr) [[unlikely]] {
    const AccessKind kind = key.kind() == AccessKind::kPublish         ? AccessKind::kWrite
                            : key.kind() == AccessKind::kReadPublished ? AccessKind::kRead
                                                                       : key.kind();
    trace->push_back(
        {key.space(), kind, key.size(), access.lanes, access.addresses[std::countr_zero(access.lanes)]});
  }
  if (has_locks_) [[unlikely]]
    guard_words(access, warp);
  const Pattern& pattern = patterns_.of(access);
  if (record_ != nullptr) [[unlikely]]
    record_access(access, pattern, warp);
  if (key.space() == Space::kGlobal) {
    if (key.kind() == AccessKind::kAtomic) {
      if (tally.atomics.empty() || tally.atomics.back().first != number_)
        tally.atomics.emplace_back(number_, nullptr);
      tally.atomics.back().second = reinterpret_cast<const void*>(key.pc());
    }
    count_global(access, pattern);
  } else if (key.space() == Space::kCluster) {
    count_remote(access);
  } else {
    count_shared(access, pattern);
  }
  last_access_pc_ = key.pc();
  if (key.kind() == AccessKind::kWrite) {
    for (int g = 0; g < pattern.group_count; ++g) {
      if (const std::uint32_t lanes = pattern.groups[g]; (lanes & (lanes - 1)) != 0) [[unlikely]]
        compare_stores(access, lanes, warp);
    }
  }
  if (!finds_races()) return;  // with a debugger, on_access() has
  const Actor actor = actor_of(key, warp);
  if (pattern.is_sequence && use_sequence(access, pattern, actor)) return;
  if (key.space() == Space::kGlobal) {
    for (int g = 0; g < pattern.group_count; ++g) {  // otherwise, each lane would wait for its own
      const std::uintptr_t offset = access.addresses[std::countr_zero(pattern.groups[g])] - arena_base_;
      global_shadow_.page(offset).prefetch(offset % GlobalShadow::kPageBytes);
    }
  }
  for (int g = 0; g < pattern.group_count; ++g) {
    const std::uint32_t lanes = pattern.groups[g];
    find_races(key, access.addresses[std::countr_zero(lanes)], lanes, actor);
  }
}

/// Lanes of one instruction store to the same address. CUDA keeps one of the values and does not say which:
/// not a race, but worth a note if they differ.
void BlockRunner::compare_stores(const WarpAccess& access, std::uint32_t lanes, int warp) {
  const std::uintptr_t address = access.addresses[std::countr_zero(lanes)];
  const std::size_t size = access.key.size();
  if (size > 16 || (has_locks_ && is_guarded(address))) return;
  // In the order in which they have stored: each has replaced what the one before it has stored.
  const std::uint32_t last = digest(address, size);
  int before = -1, differs = -1;
  for (std::uint32_t rest = std::rotr(lanes, first_lane_in_turn_); rest != 0; rest &= rest - 1) {
    const int lane = (first_lane_in_turn_ + std::countr_zero(rest)) % kWarpSize;
    if (before >= 0 && access.replaced[lane] != last) differs = before;
    before = lane;
  }
  if (differs < 0) return;
  const FindingKey key{.kind = DefectKind::kNote,
                       .pc = access.key.pc(),
                       .rival_pc = access.key.pc(),
                       .access = AccessKind::kWrite,
                       .rival_access = AccessKind::kWrite,
                       .space = access.key.space(),
                       .bytes = std::uint32_t(size)};
  Example* const e = tally.findings.add(key, linear_);
  if (e == nullptr) return;
  fill(*e, warp * kWarpSize + std::min(before, differs), access.key.space(), address);
  e->rival_thread = warp * kWarpSize + std::max(before, differs);
}

/// Whether two stores, which a debugger has been shown one after the other, are one instruction of a warp.
bool BlockRunner::is_of_same_instruction(std::uintptr_t address, const Actor& actor,
                                         const Rival& rival) const {
  if (actor.kind != AccessKind::kWrite || rival.kind != AccessKind::kWrite || rival.site != actor.site ||
      rival.thread / kWarpSize != actor.warp)
    return false;
  const auto latest = latest_stores_.find(address);
  return latest != latest_stores_.end() && latest->second == iteration_;
}

void BlockRunner::process_fence(InstructionKey key, std::uint32_t lanes, int warp) {
  arena_.grid_races().note_fence(sites_.of(key.pc()));
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1)
    threads_[warp * kWarpSize + std::countr_zero(rest)].fence_pc = reinterpret_cast<const void*>(key.pc());
  // After the block's latest arrival, it acquires: in the same thread, or in one that comes after the
  // barrier.
  if (arrivals_.empty()) return;
  Arrival& latest = arrivals_.back();
  const auto [thread, epoch, tick] = latest.when;
  const bool is_own = thread / kWarpSize == warp && (lanes >> thread % kWarpSize & 1) != 0;
  if (epoch == epoch_ ? is_own : !is_own && epoch + 1 == epoch_) latest.acquires = true;
  if (debugging_) set_arrivals();
}

void BlockRunner::count_global(const WarpAccess& access, const Pattern& pattern) {
  const LaneAddresses& addresses = access.addresses;
  const AccessKind kind = access.key.kind();
  const bool only_reads = kind == AccessKind::kRead || kind == AccessKind::kReadPublished;
  const bool only_writes = kind == AccessKind::kWrite || kind == AccessKind::kPublish;
  const auto add = [&](std::uint32_t allocation, const GlobalCost& cost) {
    GlobalCounters& c = tally.allocations[allocation];
    if (!only_writes) c.read_bytes += cost.bytes;
    if (!only_reads) c.write_bytes += cost.bytes;
    if (only_reads) {
      c.read_sectors += cost.sectors;
      ++c.read_requests;
    } else if (only_writes) {
      c.write_sectors += cost.sectors;
      ++c.write_requests;
    } else {
      c.atomic_sectors += cost.sectors;
      ++c.atomic_requests;
    }
  };
  for (std::uint32_t rest = access.lanes; rest != 0;) {
    const std::uintptr_t first = addresses[std::countr_zero(rest)];
    const std::uint32_t id = arena_.find(first, 1);
    const Allocation& a = arena_.allocation(id);
    if (rest == access.lanes && first - a.begin >= pattern.below && a.end - first > pattern.above) {
      return add(id, pattern.global);
    }
    std::uint32_t lanes = 0;  // those whose addresses are in this allocation
    for (std::uint32_t m = rest; m != 0; m &= m - 1) {
      const int lane = std::countr_zero(m);
      lanes |= std::uint32_t(addresses[lane] - a.begin < a.end - a.begin) << lane;
    }
    rest &= ~lanes;
    add(id, global_cost(addresses, lanes, access.key.size()));
  }
}

void BlockRunner::count_shared(const WarpAccess& access, const Pattern& pattern) {
  const AccessKind kind = access.key.kind();
  const std::uintptr_t first = access.addresses[std::countr_zero(access.lanes)];
  variables_[variable_of_word_[(first - shared_base_) / 4]].touched = true;
  if (kind == AccessKind::kRead || kind == AccessKind::kAtomic) {
    tally.shared.load_wavefronts += pattern.shared.wavefronts;
    tally.shared.load_wavefronts_ideal += pattern.shared.ideal;
  } else if (kind == AccessKind::kWrite || kind == AccessKind::kCopyIssue) {
    tally.shared.store_wavefronts += pattern.shared.wavefronts;
    tally.shared.store_wavefronts_ideal += pattern.shared.ideal;
  }
}

Actor BlockRunner::actor_of(InstructionKey key, int warp) {
  const AccessKind kind = key.kind();
  const bool of_published = kind == AccessKind::kPublish || kind == AccessKind::kReadPublished;
  return {warp,   sites_.of(key.pc()), of_published ? AccessKind::kAtomic : kind, block_epoch_,
          epoch_, warps_[warp].clock,  has_clocks_ ? &clocks_ : nullptr};
}

/// An access by lanes of a warp to the same bytes.
void BlockRunner::find_races(InstructionKey key, std::uintptr_t address, std::uint32_t lanes,
                             const Actor& actor) {
  const auto on_race = [&](int lane, const Rival& rival) { found_race(key, address, actor, lane, rival); };
  if (key.space() == Space::kCluster) return find_remote_races(key, address, lanes, actor);
  if (key.space() == Space::kShared) {
    if (cluster_ != nullptr) find_cluster_races(key, address, lanes, actor, *this);
    if (key.kind() == AccessKind::kCopyIssue) remember_origin(address, key.size(), lanes, actor.warp);
    shared_shadow_.access(
        address - shared_base_, key.size(), lanes, actor, on_race, [](std::size_t, std::size_t, int) {},
        [&](std::size_t offset) { use_copy(offset, actor.warp); });
    if (has_clocks_ && key.kind() != AccessKind::kRead) [[unlikely]] {
      for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
        const int lane = std::countr_zero(rest);
        check_async_readers(address, key.size(), lane, actor, key);
        note_store(address, key.size(), actor.warp * kWarpSize + lane, actor);
      }
    }
    return;
  }
  use_global(key, address, key.size(), lanes, actor);
}

/// An access to consecutive addresses. @return  false if its groups have to be looked at one by one
bool BlockRunner::use_sequence(const WarpAccess& access, const Pattern& pattern, const Actor& actor) {
  const InstructionKey key = access.key;
  if (has_clocks_ || cluster_ != nullptr || key.kind() == AccessKind::kCopyIssue) return false;
  const std::size_t size = key.size(), all = size * std::size_t(pattern.group_count);
  const std::uintptr_t first = access.addresses[std::countr_zero(access.lanes)];
  const bool is_line = all == 128 && size == 4 && first % 128 == 0 &&
                       (actor.kind == AccessKind::kRead || actor.kind == AccessKind::kWrite);
  const auto on_race = [&](int lane, const Rival& rival) {
    found_race(key, access.addresses[lane], actor, lane, rival);
  };
  const auto use_each = [&](RaceShadow& shadow, std::size_t offset, auto&& on_first, auto&& on_copied) {
    for (int g = 0; g < pattern.group_count; ++g, offset += size)
      shadow.access(offset, size, pattern.groups[g], actor, on_race, on_first, on_copied);
  };
  if (key.space() == Space::kShared) {
    if (is_line && shared_shadow_.use_new_line(first - shared_base_, actor)) return true;
    use_each(
        shared_shadow_, first - shared_base_, [](std::size_t, std::size_t, int) {},
        [&](std::size_t offset) { use_copy(offset, actor.warp); });
    return true;
  }
  const std::uintptr_t begin = first - arena_base_, page = begin / GlobalShadow::kPageBytes;
  const std::size_t offset = begin % GlobalShadow::kPageBytes;
  if (offset + all > GlobalShadow::kPageBytes) return false;
  const auto on_first = [&](std::size_t word, std::size_t bytes, int lane) {
    record_use(page * GlobalShadow::kPageBytes + word, bytes, lane, actor);
  };
  RaceShadow& shadow = global_shadow_.page(begin);
  if (!is_line || !shadow.use_new_line(offset, actor)) {
    use_each(shadow, offset, on_first, [](std::size_t) {});
  } else if (launch_->unfinished_from != 0 || !arrivals_.empty() || Streams::instance().are_several()) {
    for (int lane = 0; lane < kWarpSize; ++lane) on_first(offset + 4 * std::size_t(lane), 4, lane);
  } else {
    const Use use = actor.kind == AccessKind::kRead ? Use::kRead : Use::kWrite;
    const User user = User::make(number_, actor.warp * kWarpSize, actor.site);
    arena_.grid_races().record_line(begin, use, user, tally.suspects);
  }
  return true;
}

/// An access by lanes to the same bytes of global memory.
void BlockRunner::use_global(InstructionKey key, std::uintptr_t address, std::size_t size,
                             std::uint32_t lanes, const Actor& actor) {
  const auto on_race = [&](int lane, const Rival& rival) { found_race(key, address, actor, lane, rival); };
  const std::uintptr_t begin = address - arena_base_, end = begin + size;
  for (std::uintptr_t at = begin; at < end;) {  // once, unless it reaches into the next page
    const std::size_t offset = at % GlobalShadow::kPageBytes;
    const std::size_t bytes = std::min(end - at, GlobalShadow::kPageBytes - offset);
    global_shadow_.page(at).access(
        offset, bytes, lanes, actor, on_race,
        [&](std::size_t word, std::size_t part, int lane) {
          record_use(at - offset + word, part, lane, actor);
        },
        [](std::size_t) {});
    at += bytes;
  }
}

void BlockRunner::found_race(InstructionKey instruction, std::uintptr_t address, const Actor& actor, int lane,
                             const Rival& rival) {
  if (has_locks_ && is_guarded(address)) return;
  if (debugging_ && is_of_same_instruction(address, actor, rival)) return;
  const FindingKey key{.kind = DefectKind::kRace,
                       .pc = instruction.pc(),
                       .rival_pc = pc_of_site(rival.site),
                       .access = instruction.kind(),
                       .rival_access = rival.kind,
                       .space = instruction.space(),
                       .bytes = std::uint32_t(instruction.size())};
  found(key, [&](Example& e) {
    fill(e, actor.warp * kWarpSize + lane, instruction.space(), address);
    e.rival_thread = rival.thread;
    if (instruction.space() == Space::kGlobal && rival.thread < kMaxThreads) {
      const void* const own = threads_[e.thread].fence_pc;
      e.fence = reinterpret_cast<std::uintptr_t>(own != nullptr ? own : threads_[rival.thread].fence_pc);
    }
    explain_copy(e, instruction, address, rival);
    if (has_clocks_) explain_async(e, instruction, address, rival);
  });
}

std::uint32_t BlockRunner::first_block() const {
  return number_ - std::uint32_t(cluster_ != nullptr ? cluster_->index() : linear_);
}

/// The block's first access of this kind to part or all of a word: other blocks may be in conflict with it.
void BlockRunner::record_use(std::uintptr_t offset, std::size_t bytes, int lane, const Actor& actor) {
  const Use use = actor.kind == AccessKind::kRead     ? Use::kRead
                  : actor.kind == AccessKind::kWrite  ? Use::kWrite
                  : actor.kind == AccessKind::kInTurn ? Use::kInTurn
                                                      : Use::kAtomic;
  const User user = User::make(number_, rank_ * kMaxThreads + actor.warp * kWarpSize + lane, actor.site);
  if (launch_->unfinished_from != 0) [[unlikely]]
    check_unfinished(offset, use, lane, actor);
  GridRaces& races = arena_.grid_races();
  const std::size_t known = tally.suspects.size();
  races.record(offset, bytes, use, user, tally.suspects);
  if (!arrivals_.empty()) [[unlikely]]
    arena_.grid_order().stamp(offset, use, user, arrivals_.size(), latest_arrival(actor, lane));
  if (Streams& streams = Streams::instance(); streams.are_several())
    streams.use(offset, bytes, use, actor.site);
  if (!debugging_ || tally.suspects.size() == known) return;
  const std::uint32_t first = first_block();
  for (const GridRace& race : races.conflicts(tally.suspects.back())) {
    if (race.one.bits != user.bits && race.other.bits != user.bits) continue;
    auto disorder = arena_.grid_order().why_not(race);
    if (!disorder || disorder->is_without_fence) continue;
    auto [key, example] = finding_of(race, *launch_, first);
    example.reason = std::move(disorder->reason);
    announcer_.announce(key, example);
  }
}

}  // namespace gpusim
