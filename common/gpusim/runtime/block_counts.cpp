/// @file
/// Turns the accesses of a warp into counts and races.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpusim/runtime/block.hpp"
#include "gpusim/runtime/trace.hpp"

namespace gpusim {

std::vector<TraceEntry>* trace = nullptr;

void BlockRunner::process(const WarpAccess& access, int warp) {
  const InstructionKey& key = access.key;
  if (key.kind() >= AccessKind::kCopyCommit) return process_note(access, warp);
  warps_[warp].barrier_pc = nullptr;
  if (trace != nullptr) [[unlikely]] {
    trace->push_back({key.space(), key.kind(), key.size(), access.lanes,
                      access.addresses[std::countr_zero(access.lanes)]});
  }
  if (key.space() == Space::kGlobal) {
    process_global(access, warp);
  } else {
    process_shared(access, warp);
  }
  last_access_pc_ = key.pc();
}

void BlockRunner::count_global(const WarpAccess& access, const Pattern& pattern) {
  const LaneAddresses& addresses = access.addresses;
  const AccessKind kind = access.key.kind();
  const auto add = [&](std::uint32_t allocation, const GlobalCost& cost) {
    GlobalCounters& c = tally.allocations[allocation];
    if (kind != AccessKind::kWrite) c.read_bytes += cost.bytes;
    if (kind != AccessKind::kRead) c.write_bytes += cost.bytes;
    if (kind == AccessKind::kRead) {
      c.read_sectors += cost.sectors;
      ++c.read_requests;
    } else if (kind == AccessKind::kWrite) {
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

void BlockRunner::process_global(const WarpAccess& access, int warp) {
  const Pattern& pattern = patterns_.of(access);
  count_global(access, pattern);
  const std::size_t size = access.key.size();
  const AccessKind kind = access.key.kind();
  const Actor actor(warp, sites_.of(access.key.pc()), kind, block_epoch_, epoch_, warps_[warp].clock);
  const Use use = kind == AccessKind::kRead    ? Use::kRead
                  : kind == AccessKind::kWrite ? Use::kWrite
                                               : Use::kAtomic;
  for (int g = 0; g < pattern.group_count; ++g) {
    const std::uint32_t lanes = pattern.groups[g];
    const std::uintptr_t address = access.addresses[std::countr_zero(lanes)];
    const std::uintptr_t begin = address - arena_base_;
    for (std::uintptr_t at = begin; at < begin + size;) {  // once, unless it reaches into the next page
      const std::size_t offset = at % GlobalShadow::kPageBytes;
      const std::size_t bytes = std::min(begin + size - at, GlobalShadow::kPageBytes - offset);
      global_shadow_.page(at).access(
          offset, bytes, lanes, actor,
          [&](int lane, const Rival& rival) { found_race(access.key, address, warp, lane, rival); },
          [&](std::size_t word, std::size_t part, int lane) {
            const User user = User::make(number_, warp * kWarpSize + lane, actor.site);
            arena_.grid_races().record(at - offset + word, part, use, user, tally.suspects);
          },
          [](std::size_t) {});
      at += bytes;
    }
  }
}

void BlockRunner::process_shared(const WarpAccess& access, int warp) {
  const Pattern& pattern = patterns_.of(access);
  const std::size_t size = access.key.size();
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
  if (kind == AccessKind::kCopyIssue) remember_origin(access, warp);
  const Actor actor(warp, sites_.of(access.key.pc()), kind, block_epoch_, epoch_, warps_[warp].clock);
  for (int g = 0; g < pattern.group_count; ++g) {
    const std::uint32_t lanes = pattern.groups[g];
    const std::uintptr_t address = access.addresses[std::countr_zero(lanes)];
    shared_shadow_.access(
        address - shared_base_, size, lanes, actor,
        [&](int lane, const Rival& rival) { found_race(access.key, address, warp, lane, rival); },
        [](std::size_t, std::size_t, int) {}, [&](std::size_t offset) { use_copy(offset, warp); });
  }
}

void BlockRunner::found_race(InstructionKey instruction, std::uintptr_t address, int warp, int lane,
                             const Rival& rival) {
  const FindingKey key{.kind = DefectKind::kRace,
                       .pc = instruction.pc(),
                       .rival_pc = pc_of_site(rival.site),
                       .access = instruction.kind(),
                       .rival_access = rival.kind,
                       .space = instruction.space(),
                       .bytes = std::uint8_t(instruction.size())};
  if (Example* e = tally.findings.add(key, linear_)) {
    fill(*e, warp * kWarpSize + lane, instruction.space(), address);
    e->rival_thread = rival.thread;
    explain_copy(*e, instruction, address, rival);
  }
}

}  // namespace gpusim
