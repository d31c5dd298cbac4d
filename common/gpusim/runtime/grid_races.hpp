/// @file
/// Races between the blocks of a launch: two blocks use the same bytes of global memory, with uses other than
/// only reads, only atomic operations or only changes in turns.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "gpusim/runtime/reserved.hpp"

namespace gpusim {

/// kInTurn is a change in the turn of a block: turns come one after the other.
enum class Use : std::uint8_t { kRead, kWrite, kAtomic, kInTurn };
inline constexpr int kUses = 4;

/// The user of some bytes, in one word that is larger for higher blocks: block number, thread in the block,
/// site.
struct User {
  std::uint64_t bits = 0;

  static User make(std::uint32_t block, int thread, std::uint16_t site) {
    return {std::uint64_t(block) << 32 | std::uint64_t(thread) << 16 | site};
  }
  std::uint32_t block() const { return std::uint32_t(bits >> 32); }
  int thread() const { return int((bits >> 16) & 0xffff); }
  std::uint16_t site() const { return std::uint16_t(bits); }
};

/// One word (or part of one) with conflicting uses by two blocks.
struct GridRace {
  std::uintptr_t offset;  ///< in the arena
  Use one_use, other_use;
  User one, other;
};

/// Records, for each use of each word, the two lowest blocks with that use: enough to find every conflict,
/// and the same whichever CPU thread is faster. If only part of a word is used (a half, a byte), parts are
/// recorded as well, and lines of 128 bytes if a warp uses one word by word.
class GridRaces {
 public:
  GridRaces() = default;
  /// @param bytes  of the arena. False if the system refuses the address space.
  explicit GridRaces(std::size_t bytes);
  explicit operator bool() const;

  /// Before a launch, whose blocks have the numbers [first_block, ...), larger than all before.
  void begin(std::uint32_t first_block) {
    first_block_ = first_block;
    fence_ = kNoSite;
  }

  /// A block makes this use of these bytes, part or all of one word, for the first time. Call it from any CPU
  /// thread.
  /// @param suspects  receives the word when its first conflict shows
  void record(std::uintptr_t offset, std::size_t bytes, Use use, User user,
              std::vector<std::uintptr_t>& suspects);
  /// The lanes of a warp make it of the words of a line, in order, all for the first time.
  /// @param user  the first lane
  void record_line(std::uintptr_t offset, Use use, User user, std::vector<std::uintptr_t>& suspects);

  /// A thread executes __threadfence(). Call it from any CPU thread.
  void note_fence(std::uint16_t site) {
    const std::atomic_ref fence(fence_);
    for (std::uint32_t first = fence; site < first && !fence.compare_exchange_weak(first, site);) {
    }
  }
  /// Where the launch has executed __threadfence(): the lowest site.
  std::optional<std::uint16_t> fence() const {
    return fence_ == kNoSite ? std::nullopt : std::optional(std::uint16_t(fence_));
  }

  /// The conflicts over one suspect, each pair of uses with the lowest blocks that made them.
  std::vector<GridRace> conflicts(std::uintptr_t suspect) const;
  /// A use of these bytes, part or all of one word, that is in conflict with this one, by a block of an
  /// earlier launch from number `first` on.
  std::optional<std::pair<Use, User>> earlier_use(std::uintptr_t offset, Use use, std::uint32_t first) const;
  /// The lowest block that has written or atomically changed a byte in this launch.
  std::optional<User> writer(std::uintptr_t offset) const;
  /// The word is a suspect no longer.
  void settle(std::uintptr_t suspect);

  /// Releases the memory.
  void forget(std::uintptr_t offset, std::size_t bytes);
  /// Restarts the block numbers.
  void forget_all();

 private:
  static constexpr std::array kUnitBits = {0, 1, 2, 7};  ///< units of 1, 2, 4 and 128 bytes
  static constexpr int kUnits = int(kUnitBits.size()), kLine = 3;
  static constexpr int kPageBits = 12;

  struct Cell {
    std::atomic<std::uint64_t> lowest;  ///< User::bits; of an earlier launch, or 0: nobody
    std::atomic<std::uint64_t> second;
  };

  static constexpr unsigned flag(int unit, int use) { return 1u << (unit * kUses + use); }
  bool is_current(std::uint64_t bits) const { return User{bits}.block() >= first_block_; }
  void insert(Cell& cell, std::uint64_t user) const;
  bool used_by_another(const Cell& cell, std::uint32_t block) const;
  void publish(std::uintptr_t offset, std::size_t bytes, int unit, Use use, User user);
  unsigned rivals(std::uintptr_t offset, Use use) const;
  void find_conflict(std::uintptr_t offset, std::size_t bytes, Use use, User user,
                     std::vector<std::uintptr_t>& suspects);
  User user_of(std::uintptr_t byte, int unit, std::uint64_t bits) const;
  std::array<User, 2> users(std::uintptr_t byte, int use) const;

  static constexpr std::uint32_t kNoSite = 0xffffffff;

  std::uint32_t first_block_ = 1;
  std::uint32_t fence_ = kNoSite;
  std::array<std::array<Reserved<Cell>, kUses>, kUnits> cells_;
  Reserved<std::atomic<std::uint16_t>> flags_;     ///< by page: which of the cells are in use
  Reserved<std::atomic<std::uint64_t>> suspects_;  ///< a bit per word
};

}  // namespace gpusim
