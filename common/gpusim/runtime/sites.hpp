/// @file
/// Small numbers for the places in the source where accesses are made.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

namespace gpusim {

/// Numbers of return addresses, the same on all CPU threads. An object remembers those that its thread has
/// asked for.
class SiteNumbers {
 public:
  std::uint16_t of(std::uintptr_t pc) {
    Known& known = recent_[pc % recent_.size()];
    if (known.pc != pc) [[unlikely]]
      known = {pc, look_up(pc)};
    return known.number;
  }

 private:
  struct Known {
    std::uintptr_t pc = 0;
    std::uint16_t number = 0;
  };

  std::uint16_t look_up(std::uintptr_t pc);

  std::unordered_map<std::uintptr_t, std::uint16_t> known_;
  std::array<Known, 256> recent_;  ///< the most recent of known_
};

/// Return address of a site number (see Rival::site).
std::uintptr_t pc_of_site(std::uint16_t site);

}  // namespace gpusim
