/// @file
/// Collects what the CPU threads found, for take_report().
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "gpusim/gpusim.hpp"
#include "gpusim/runtime/block.hpp"
#include "gpusim/runtime/device.hpp"

namespace gpusim {

class Session {
 public:
  static Session& instance();

  void count_launch();
  /// Takes everything out of the tally and leaves it empty.
  void absorb(Tally& tally);
  /// After the last block of a launch: finds the races between them. @param first_block  the number of the first
  void settle_grid_races(const device::Launch& launch, std::uint32_t first_block);
  Report take();

 private:
  Session();

  std::mutex mutex_;
  Report report_;
  Findings findings_;
  std::vector<std::uintptr_t> suspects_;
};

}  // namespace gpusim
