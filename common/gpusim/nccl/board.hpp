/// @file
/// What each rank of a communicator is doing, where all of them can see it: who waits for whom.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpusim::nccl {

enum class Verb : std::int32_t { kSend, kReceive, kGather };
constexpr int kVerbs = 3;

/// The verb of the peer's half of a transfer.
constexpr Verb partner_of(Verb verb) {
  return verb == Verb::kSend ? Verb::kReceive : verb == Verb::kReceive ? Verb::kSend : Verb::kGather;
}

/// A half of a transfer.
struct Half {
  Verb verb;
  std::int32_t peer;
  std::int64_t bytes;
  /// How many with the same verb and peer this rank has issued, this one included: it belongs to the peer's
  /// half with that number.
  std::int64_t number;
};

/// Shared memory: ranks read each other's entries without locks.
class Board {
 public:
  static constexpr int kMostRanks = 16, kMostHalves = 256, kRemembered = 64;
  static constexpr std::size_t kAlignment = 64;

  /// @param memory  bytes() that are zero, aligned to kAlignment, shared by all ranks
  Board(void* memory, int ranks, int rank);
  static std::size_t bytes(int ranks);

  /// Issues a half: gives it its number, and lets the peer see it.
  Half issue(Verb verb, int peer, std::int64_t bytes);

  /// Whether the peer has issued the other half.
  bool is_matched(const Half& half) const;

  /// The bytes of the other half. Only if it is matched, and the peer is not far ahead.
  std::int64_t partner_bytes(const Half& half) const;

  /// This rank now waits for all of these; afterwards it goes on.
  void wait_for(const std::vector<Half>& halves);
  void go_on();
  /// It issues nothing any more.
  void leave();

  /// Why this rank would wait for ever, if it is this rank that should say so: it waits for one that has
  /// left, or it has the lowest number in a circle.
  std::optional<std::string> deadlock() const;

  /// Ends all waits: `reason` is everyone's error. The first one counts.
  void fail(const std::string& reason);
  std::optional<std::string> failure() const;

 private:
  static constexpr int kTextBytes = 1024;

  struct alignas(kAlignment) Entry {
    std::atomic<std::uint64_t> turn;  ///< odd while it waits
    std::atomic<bool> has_left;
    std::atomic<std::int32_t> count;  ///< of the halves that it waits for
    Half halves[kMostHalves];
    std::atomic<std::int64_t> issued[kVerbs][kMostRanks];
    std::atomic<std::int64_t> sizes[kVerbs][kMostRanks][kRemembered];  ///< of the latest halves
  };
  struct alignas(kAlignment) Shared {
    std::atomic<std::int32_t> failing;  ///< 0: nobody; 1: somebody writes the text; 2: written
    char text[kTextBytes];
  };

  Entry& entry(int rank) const { return entries_[rank]; }
  bool is_matched(int rank, const Half& half) const;
  /// The halves that a rank waits for and whose partners are missing; nothing if it does not wait.
  std::vector<Half> missing(int rank) const;
  bool find_circle(int rank, std::vector<int>& path) const;
  std::string describe(int rank, int peer) const;

  Shared* shared_;
  Entry* entries_;
  int ranks_, rank_;
};

}  // namespace gpusim::nccl
