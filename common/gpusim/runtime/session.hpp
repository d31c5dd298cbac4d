/// @file
/// Collects the findings of the CPU threads for take_report().
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "gpusim/gpusim.hpp"
#include "gpusim/runtime/block.hpp"
#include "gpusim/runtime/device.hpp"
#include "gpusim/runtime/grid_races.hpp"
#include "gpusim/runtime/profile.hpp"

namespace gpusim {

/// The index in the grid of the block that has used some bytes in a launch.
/// @param first  the number of the launch's first block or
/// cluster
std::uint64_t block_of(const User& user, const device::Launch& launch, std::uint32_t first);

/// A race between two blocks of a launch, or of two clusters.
/// @param first  the number of the launch's first block or cluster
std::pair<FindingKey, Example> finding_of(const GridRace& race, const device::Launch& launch,
                                          std::uint32_t first);

class Session {
 public:
  static Session& instance();

  /// @param beside_transfer  whether a transfer between devices may be under way
  void count_launch(bool beside_transfer);
  /// Moves everything out of the tally and leaves it empty.
  void absorb(Tally& tally);
  /// After the last block of a launch: finds the races between them.
  /// @param first_block  the number of the first
  void settle_grid_races(const device::Launch& launch, std::uint32_t first_block);
  /// One finding, of any thread.
  void add(const FindingKey& key, Example example);
  /// A defect that is no finding of a thread.
  void add(DefectKind kind, const std::string& message);
  /// An access by the host on behalf of a kernel. @return false if it is outside an allocation
  bool account(AccessKind kind, std::uintptr_t address, std::size_t bytes, const std::string& routine);
  /// What take() would return, without the defects.
  Report counters();
  Report take();
  /// Whether a block was given up in a launch since the last report.
  bool has_lost_block() const { return has_lost_block_; }

 private:
  Session();
  void add_words(DefectKind kind, const std::string& message);

  std::mutex mutex_;
  std::atomic<bool> has_lost_block_{false};
  std::int64_t muted_ = 0;  ///< uninitialized reads after that
  Report report_;           ///< its defects: those that are in words already; the others are in findings_
  BlockCounts blocks_;
  Findings findings_;
  std::map<std::uintptr_t, std::int64_t> early_waits_;  ///< over-waited groups, by the wait
  std::vector<std::uintptr_t> suspects_;
  std::map<std::uint32_t, const void*> atomics_;  ///< the latest one of each block
};

}  // namespace gpusim
