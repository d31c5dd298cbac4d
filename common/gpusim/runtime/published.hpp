/// @file
/// Values that a block of a launch hands to blocks with higher numbers: see device::publish().
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "gpusim/runtime/reserved.hpp"

namespace gpusim {

/// Which block has published each word. Blocks are known by their numbers, which grow from launch to launch.
class Publishers {
 public:
  Publishers() = default;
  /// @param bytes  of the arena
  explicit Publishers(std::size_t bytes) : blocks_(bytes / 4) {}
  explicit operator bool() const { return bool(blocks_); }

  /// Call it after the value has been stored. @param offset  in the arena
  void set(std::uintptr_t offset, std::uint32_t block) const { blocks_[offset / 4].store(block); }
  /// The block that published the word last; 0: none.
  std::uint32_t of(std::uintptr_t offset) const { return blocks_[offset / 4].load(); }

  void forget(std::uintptr_t offset, std::size_t bytes) const { blocks_.clear(offset / 4, bytes / 4); }
  void forget_all() const { blocks_.clear(); }

 private:
  Reserved<std::atomic<std::uint32_t>> blocks_;
};

/// How far the CPU threads have come in a launch. They take its blocks in the order of their numbers.
class Progress {
 public:
  static Progress& instance() {
    static Progress progress;
    return progress;
  }
  /// Before any thread runs.
  void begin(std::size_t threads) {
    std::vector<std::atomic<std::uint32_t>>(threads).swap(next_);
    for (std::size_t thread = 0; thread < threads; ++thread) end(thread);
  }
  /// From now on, this thread runs no block below `block`.
  void reach(std::size_t thread, std::uint32_t block) { next_[thread].store(block); }
  void end(std::size_t thread) { reach(thread, std::numeric_limits<std::uint32_t>::max()); }

  // Blocks that wait for what others write, in a loop of reads.

  /// Before a launch.
  void begin_launch() {
    running_ = 0;
    waiting_ = 0;
    is_deadlocked_ = false;
  }
  void begin_block() { ++running_; }
  void end_block() {
    --running_;
    ++changes_;
  }
  void begin_wait() { ++waiting_; }
  void end_wait() {
    --waiting_;
    ++changes_;
  }
  int running() const { return running_; }
  /// Whether some block does something else than wait.
  bool is_any_active() const { return running_ > waiting_; }
  std::uint64_t changes() const { return changes_; }
  /// All blocks wait, and none will ever go on.
  void give_up() { is_deadlocked_ = true; }
  bool is_deadlocked() const { return is_deadlocked_; }

  /// Whether all blocks below one that runs have ended.
  bool is_lowest(std::uint32_t block) const {
    return std::all_of(next_.begin(), next_.end(), [=](const auto& next) { return next.load() >= block; });
  }

 private:
  std::vector<std::atomic<std::uint32_t>> next_;
  std::atomic<int> running_{0}, waiting_{0};
  std::atomic<std::uint64_t> changes_{0};
  std::atomic<bool> is_deadlocked_{false};
};

}  // namespace gpusim
