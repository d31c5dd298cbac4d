/// @file
/// Collects what the CPU threads found, for take_report().
#pragma once

#include <mutex>

#include "gpusim/gpusim.hpp"
#include "gpusim/runtime/block.hpp"

namespace gpusim {

class Session {
 public:
  static Session& instance();

  void count_launch();
  /// Takes everything out of the tally and leaves it empty.
  void absorb(Tally& tally);
  Report take();

 private:
  Session();

  std::mutex mutex_;
  Report report_;
  Findings findings_;
};

}  // namespace gpusim
