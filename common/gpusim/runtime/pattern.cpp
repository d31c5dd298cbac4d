#include "gpusim/runtime/pattern.hpp"

#include <algorithm>

namespace gpusim {

bool PatternCache::fits(const Pattern& p, const WarpAccess& access) {
  if (p.key != access.key || p.lanes != access.lanes) return false;
  const std::uintptr_t first = first_address(access);
  std::uintptr_t deviation = 0;
  if (access.lanes == ~0u) {
    for (int i = 0; i < kWarpSize; ++i) deviation |= access.addresses[i] - first - p.distance[i];
  } else {
    for (std::uint32_t rest = access.lanes; rest != 0; rest &= rest - 1) {
      const int i = std::countr_zero(rest);
      deviation |= access.addresses[i] - first - p.distance[i];
    }
  }
  return deviation == 0;
}

void PatternCache::learn(Pattern& p, const WarpAccess& access) {
  const std::uintptr_t first = first_address(access);
  std::uintptr_t lowest = first;
  std::uintptr_t highest = first;
  p.group_count = 0;
  const bool is_read = access.key.kind() == AccessKind::kRead;
  const bool is_store = access.key.kind() == AccessKind::kWrite;
  for (std::uint32_t rest = access.lanes; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const std::uintptr_t address = access.addresses[lane];
    p.distance[lane] = address - first;
    const bool is_new_highest = address > highest || address == first;
    const bool is_among_others = lowest <= address && !is_new_highest;
    lowest = std::min(lowest, address);
    highest = std::max(highest, address);
    // For reads, only the latest groups are searched (enough for rows of 16 threads): missing a group and
    // making it again costs only time.
    const auto end = p.groups.begin() + p.group_count;
    const int searched = is_read ? 16 : is_store && (is_among_others || address == first) ? kWarpSize : 0;
    const auto same = std::find_if(end - std::min(p.group_count, searched), end, [&](std::uint32_t group) {
      return access.addresses[std::countr_zero(group)] == address;
    });
    if (same == end) p.groups[p.group_count++] = 0;
    *same |= 1u << lane;
  }
  p.key = access.key;
  p.lanes = access.lanes;
  p.is_sequence = true;
  for (int g = 1; g < p.group_count && p.is_sequence; ++g)
    p.is_sequence = p.distance[std::countr_zero(p.groups[g])] == std::uintptr_t(g) * access.key.size();
  p.below = first - lowest;
  p.above = highest - first;
  set_cost(p, access);
}

void PatternCache::set_cost(Pattern& p, const WarpAccess& access) {
  p.phase = phase_of(access);
  if (access.key.space() == Space::kShared) {
    p.shared = shared_cost(access.addresses, access.lanes, access.key.size());
  } else {
    p.global = global_cost(access.addresses, access.lanes, access.key.size());
  }
}

}  // namespace gpusim
