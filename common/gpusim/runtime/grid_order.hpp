/// @file
/// The order that atomic operations make between the blocks of a launch: with one, a block releases what it
/// has done, and acquires what the blocks before it have released there.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpusim/runtime/defects.hpp"
#include "gpusim/runtime/grid_races.hpp"
#include "gpusim/runtime/reserved.hpp"

namespace gpusim {

/// "read", "write", "atomic operation".
std::string name_of(Use use);

/// When a thread has done something, as of the log.
struct Moment {
  int thread = 0;
  std::uint32_t epoch = 0, tick = 0;
};

/// An atomic operation in global memory that releases: it is acq_rel, or follows a __threadfence().
struct Arrival {
  std::uintptr_t counter = 0;  ///< offset in the arena
  std::uint64_t position = 0;  ///< in the order in which the device has carried them out
  const void* pc = nullptr;
  bool acquires = false;  ///< it is acq_rel, or a __threadfence() follows it
  bool releases = true;   ///< false: it only reads what others have released
  Moment when;
  std::size_t known = 0;  ///< how many arrivals of its block it comes after (see Stamp)
  std::vector<std::uintptr_t>
      unreleased;  ///< words that its block has written, but no barrier orders before it
};

/// The arrivals of all blocks of a launch. Call it from any CPU thread.
class GridOrder {
 public:
  /// @param bytes  of the arena
  explicit GridOrder(std::size_t bytes) : reads_(bytes / 4), writes_(bytes / 4) {}
  explicit operator bool() const { return reads_ && writes_; }

  /// Carries out the atomic operation of an arrival. @return  its position
  template <class Operation>
  std::uint64_t carry_out(const void* word, Operation&& operation) {
    const std::lock_guard lock(mutex_);
    return operation() ? add_release(reinterpret_cast<std::uintptr_t>(word)) : take_position();
  }
  /// A store that releases is about to be made. @return  its position
  std::uint64_t release(std::uintptr_t word) {
    const std::lock_guard lock(mutex_);
    return add_release(word);
  }
  /// The position of the latest release at a word; 0: there is none.
  std::uint64_t latest_release(std::uintptr_t word) {
    if (latest_[bucket(word)].load() == 0) return 0;
    const std::lock_guard lock(mutex_);
    const auto found = releases_.find(word);
    return found != releases_.end() ? found->second : 0;
  }
  /// The arrivals of a block until now.
  void set(const User& block, const std::vector<Arrival>& arrivals) {
    const std::lock_guard lock(mutex_);
    acquisitions_.clear();
    reached_.clear();
    arrivals_[key(block)] = arrivals;
  }
  /// A block that has arrived uses bytes, part or all of one word, for the first time.
  /// @param before  its arrivals    @param known  the latest of them that comes before this use; 0: none
  void stamp(std::uintptr_t offset, Use use, const User& user, std::size_t before, std::size_t known) const {
    stamps(use)[offset / 4].store(Stamp{user.block(), std::uint16_t(before), std::uint16_t(known)}.bits(),
                                  std::memory_order_relaxed);
  }

  struct Disorder {
    std::vector<Piece> reason;      ///< in words; empty: none of the two blocks has arrived anywhere
    bool is_without_fence = false;  ///< all that is missing is the fence after the arrival
  };
  /// What keeps the first use of a race from coming before the second one, or the other way round. Nothing if
  /// they are ordered.
  std::optional<Disorder> why_not(const GridRace& race) const;

  /// A block waits for the kernel before, for the first time.
  void note_wait() { ++waited_; }
  /// A thread lets the next kernel begin before its block has waited.
  void note_early_trigger() { has_early_trigger_ = true; }
  /// Whether all blocks have waited before they have let the next kernel begin.
  bool has_waited(std::uint64_t blocks) const { return waited_ == blocks && !has_early_trigger_; }

  /// Before a launch.
  void begin(std::uint32_t first_block) {
    first_block_ = first_block;
    waited_ = 0;
    has_early_trigger_ = false;
    arrivals_.clear();
    acquisitions_.clear();
    reached_.clear();
    if (!releases_.empty()) {
      releases_.clear();
      for (auto& latest : latest_) latest = 0;
    }
  }
  void forget_all() const {
    reads_.clear();
    writes_.clear();
  }

 private:
  struct Stamp {
    std::uint32_t block;
    std::uint16_t before, known;
    std::uint64_t bits() const { return std::uint64_t(block) << 32 | std::uint32_t(before) << 16 | known; }
  };
  using Key = std::pair<std::uint32_t, int>;
  static Key key(const User& user);

  // Positions are even: what reads a release is after it, and before the next one.
  std::uint64_t take_position() { return position_ += 2; }
  std::uint64_t add_release(std::uintptr_t word) {
    const std::uint64_t position = take_position();
    releases_[word] = position;
    latest_[bucket(word)] = position;
    return position;
  }
  static constexpr int kBucketBits = 10;
  static std::size_t bucket(std::uintptr_t word) {
    return std::size_t(word * 0x9e3779b97f4a7c15ull >> (64 - kBucketBits));
  }

  /// By block, the first of its arrivals that comes after an arrival, through any number of others.
  using Reached = std::map<Key, std::size_t>;
  const Reached& reached_from(Key block, std::size_t arrival) const;

  const Reserved<std::atomic<std::uint64_t>>& stamps(Use use) const {
    return use == Use::kRead ? reads_ : writes_;
  }
  const std::vector<Arrival>& arrivals_of(const User& user) const;
  Stamp stamp_of(const User& user, Use use, std::uintptr_t offset) const;
  std::optional<Disorder> why_not(const User& first, Use first_use, const User& second, Use second_use,
                                  std::uintptr_t offset) const;

  std::mutex mutex_;
  std::uint64_t position_ = 0;
  std::uint32_t first_block_ = 1;
  std::atomic<std::uint64_t> waited_{0};  ///< blocks
  std::atomic<bool> has_early_trigger_{false};
  std::map<Key, std::vector<Arrival>> arrivals_;
  std::unordered_map<std::uintptr_t, std::uint64_t> releases_;  ///< by word, the position of the latest
  std::array<std::atomic<std::uint64_t>, 1 << kBucketBits>
      latest_{};  ///< the same, of words with the same hash
  // Made when they are asked for, after the launch.
  struct Acquisition {
    std::uint64_t position;
    Key block;
    std::size_t number;
  };
  mutable std::map<std::uintptr_t, std::vector<Acquisition>> acquisitions_;  ///< by counter, by position
  mutable std::map<std::pair<Key, std::size_t>, Reached> reached_;
  Reserved<std::atomic<std::uint64_t>> reads_, writes_;  ///< Stamp::bits(), by word, of the latest user
};

}  // namespace gpusim
