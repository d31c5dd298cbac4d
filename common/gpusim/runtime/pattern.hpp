/// @file
/// What stays the same from one execution of an instruction to the next, because lanes nearly always move
/// together.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>

#include "gpusim/runtime/access.hpp"
#include "gpusim/runtime/cost.hpp"

namespace gpusim {

/// The addresses of a warp instruction relative to that of its first lane, and what follows from them alone.
struct Pattern {
  InstructionKey key;
  std::uint32_t lanes = 0;
  LaneAddresses distance;               ///< of each lane's address from the first one's
  std::uintptr_t below = 0, above = 0;  ///< how far they extend on either side of it

  /// Lanes to examine together because they read the same address, or store there. Single lanes if it is
  /// neither. Stores to the same address are always in one group.
  std::array<std::uint32_t, kWarpSize> groups;
  int group_count = 0;
  bool is_sequence = false;  ///< each group accesses what follows on that of the one before

  /// The cost if the first address is at this position in a word of shared memory or a sector of global
  /// memory.
  std::uint32_t phase = 0;
  SharedCost shared;
  GlobalCost global;
};

/// The patterns of the most recent execution of each instruction.
class PatternCache {
 public:
  PatternCache() : patterns_(std::make_unique<Pattern[]>(std::size_t(1) << kSizeBits)) {}

  const Pattern& of(const WarpAccess& access) {
    Pattern& p = patterns_[(access.key.bits * 0x9e3779b97f4a7c15ull) >> (64 - kSizeBits)];
    if (!fits(p, access)) [[unlikely]]
      learn(p, access);
    if (p.phase != phase_of(access)) [[unlikely]]
      set_cost(p, access);
    return p;
  }

 private:
  static constexpr int kSizeBits = 7;

  static std::uintptr_t first_address(const WarpAccess& a) { return a.addresses[std::countr_zero(a.lanes)]; }
  static std::uint32_t phase_of(const WarpAccess& a) {
    return std::uint32_t(first_address(a) % (a.key.space() == Space::kShared ? 4 : 32));
  }
  static bool fits(const Pattern& p, const WarpAccess& access);
  static void learn(Pattern& p, const WarpAccess& access);
  static void set_cost(Pattern& p, const WarpAccess& access);

  std::unique_ptr<Pattern[]> patterns_;
};

}  // namespace gpusim
