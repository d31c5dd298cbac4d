/// @file
/// Accesses of several blocks of a cluster to the same shared memory. The cluster's barrier orders them, and
/// mbarriers, which clocks know of.
///
/// The barrier has phases 1, 2, 3, .. A thread arrives in a phase, and later waits for it. What a thread has
/// done before it arrives in a phase comes before what any thread of the cluster does after it has waited for
/// that phase, unless the arrival is relaxed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "gpusim/runtime/access.hpp"
#include "gpusim/runtime/async_shared.hpp"

namespace gpusim {

/// The largest cluster that every device with clusters can run.
inline constexpr int kMaxClusterBlocks = 8;

/// How often a thread has arrived at the cluster's barrier, and for how many phases it has waited.
struct ClusterClock {
  std::uint32_t arrived = 0;
  std::uint32_t waited = 0;
  std::vector<std::uint32_t>
      relaxed;  ///< phases in which it has arrived without releasing anything, in order

  bool releases_in(std::uint32_t phase) const {
    return !std::binary_search(relaxed.begin(), relaxed.end(), phase);
  }
};

/// A use of some bytes of a word of shared memory by a block of the cluster.
struct ClusterUse {
  std::uint32_t epoch = 0;    ///< of the block, see Actor
  std::uint32_t arrived = 0;  ///< ClusterClock::arrived of the thread
  std::uint32_t tick = 0;     ///< of its warp; 0: the cluster has no clocks
  std::uint16_t thread = 0;   ///< kMaxThreads * rank of the block + number in the block
  std::uint16_t site = 0;
  AccessKind kind = AccessKind::kRead;
  std::uint8_t bytes = 0;  ///< a bit for each byte of the word

  int rank() const { return thread / kMaxThreads; }
  /// Whether only the later of two uses matters: with clocks, one warp does not speak for another.
  bool is_by_same(const ClusterUse& other) const {
    return tick == 0 || other.tick == 0 ? rank() == other.rank()
                                        : thread / kWarpSize == other.thread / kWarpSize;
  }
  /// Of two uses by one block: nothing that comes after this one comes before the other.
  bool is_later_than(const ClusterUse& other) const {
    return arrived != other.arrived ? arrived > other.arrived
           : epoch != other.epoch   ? epoch > other.epoch
                                    : tick > other.tick;
  }
  bool reads() const { return kind == AccessKind::kRead; }
  bool conflicts_with(const ClusterUse& other) const {
    return (bytes & other.bytes) != 0 && rank() != other.rank() && !(reads() && other.reads()) &&
           !(kind == AccessKind::kAtomic && other.kind == AccessKind::kAtomic);
  }
};

/// The uses of a block's shared memory by all blocks of the cluster: of each word, the latest of each kind by
/// each block.
class ClusterShadow {
 public:
  explicit ClusterShadow(std::size_t words) : uses_(words) {}

  /// A use of `size` bytes. Calls on_race(earlier) for earlier uses that it conflicts with, if
  /// !ordered(earlier); once per use and word.
  template <class Ordered, class OnRace>
  void access(std::size_t offset, std::size_t size, ClusterUse use, Ordered&& ordered, OnRace&& on_race) {
    for (const std::size_t end = offset + size; offset < end;) {
      const std::size_t next = std::min(end, offset / 4 * 4 + 4);
      use.bytes = std::uint8_t(((1u << (next - offset)) - 1) << offset % 4);
      std::vector<ClusterUse>& uses = uses_[offset / 4];
      if (uses.empty()) used_words_.push_back(offset / 4);
      ClusterUse* same = nullptr;
      for (ClusterUse& earlier : uses) {
        if (earlier.conflicts_with(use) && !ordered(earlier)) on_race(earlier);
        if (earlier.is_by_same(use) && earlier.kind == use.kind && earlier.bytes == use.bytes)
          same = &earlier;
      }
      if (same == nullptr) {
        uses.push_back(use);
      } else if (use.is_later_than(*same)) {
        *same = use;
      }
      offset = next;
    }
  }

  /// The next cluster starts.
  void clear() {
    for (const std::size_t word : used_words_) uses_[word].clear();
    used_words_.clear();
  }

 private:
  std::vector<std::vector<ClusterUse>> uses_;  ///< by word
  std::vector<std::size_t> used_words_;
};

/// An access by another block of the cluster: of those with the same instruction and block, the one that
/// comes last as far as the cluster's barrier is concerned (with clocks: of each warp). It must be over
/// before the block ends whose memory it is.
struct RemoteUse {
  const void* pc = nullptr;
  std::uintptr_t address = 0;
  std::size_t size = 0;
  ClusterUse use;
  std::optional<Completion> completion = std::nullopt;  ///< of a copy
  bool is_arrival = false;                              ///< at an mbarrier: over when its phase is complete
};

/// A copy out of this block's memory, which must be over before the block ends.
struct SourceUse {
  const void* pc = nullptr;
  int thread = 0;
  std::uintptr_t barrier = 0;  ///< that of another block
  Completion completion;
};

}  // namespace gpusim
