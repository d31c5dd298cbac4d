/// @file
/// Who knows what has happened: vector clocks of the threads of a block, for barriers that only some of them
/// pass.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpusim/runtime/access.hpp"

namespace gpusim {

/// Whoever has this clock knows what component c did before its time clock[c]. The first components are the
/// threads of the block, whose time is the tick of their WarpClock; then come the sequences of asynchronous
/// operations (async_shared.hpp), whose time counts completed operations. The blocks of a cluster number
/// components alike: the threads of all blocks, by rank; the same threads again, for what they have read;
/// then the sequences of all of them. Of reads alone one learns through relaxed arrivals.
using Clock = std::vector<std::uint32_t>;

class ThreadClocks {
 public:
  /// Writers in the race shadow from this number on are sequences.
  static constexpr std::uint16_t kFirstSequence = kMaxThreads;

  /// Begins a block, in which nobody knows anything.
  /// @param blocks  of its cluster, in which it has this rank
  void start(int threads, int blocks = 1, int rank = 0) {
    threads_ = std::size_t(threads);
    all_threads_ = threads_ * std::size_t(blocks);
    first_ = first_of(rank);
    first_read_ = blocks > 1 ? all_threads_ : 0;
    sequences_ = 0;
    stride_ = (first_sequence() + kSpare) / kUnit * kUnit;
    known_.assign(threads_ * stride_, 0);
  }

  /// A new sequence. Its number is kFirstSequence or more.
  std::uint16_t new_sequence();

  std::uint32_t* row(int thread) { return &known_[std::size_t(thread) * stride_]; }
  const std::uint32_t* row(int thread) const { return &known_[std::size_t(thread) * stride_]; }
  std::size_t stride() const { return stride_; }

  /// The component of thread 0 of this block, and of a block of its cluster.
  std::size_t first() const { return first_; }
  std::size_t first_of(int rank) const { return threads_ * std::size_t(rank); }
  /// How far the component of a thread's reads is from that of all it does.
  std::size_t first_read() const { return first_read_; }
  /// That of the first sequence.
  std::size_t first_sequence() const { return first_read_ + all_threads_; }
  /// The component of a sequence, or of a thread of the block whose thread 0 has component `first`.
  std::size_t component(std::uint16_t actor, std::size_t first) const {
    return actor < kFirstSequence ? first + actor : first_sequence() + (actor - kFirstSequence);
  }

  /// Whether `thread` knows what an actor did at a time. Of another thread of its warp: through barriers, or
  /// its WarpClock.
  bool knows(int thread, std::uint16_t actor, std::uint32_t time) const {
    return knows(thread, actor, time, first_);
  }
  /// The same of a thread of another block of the cluster.
  bool knows(int thread, std::uint16_t actor, std::uint32_t time, std::size_t first) const {
    return row(thread)[component(actor, first)] > time;
  }
  /// Whether `thread` knows what another thread read at a time.
  bool knows_read(int thread, std::uint16_t reader, std::uint32_t time, std::size_t first) const {
    return std::max(row(thread)[first + reader], row(thread)[first_read_ + first + reader]) > time;
  }
  /// The thread learns what the actor has done before that time.
  void learn(int thread, std::uint16_t actor, std::uint32_t time) {
    std::uint32_t& known = row(thread)[component(actor, first_)];
    known = std::max(known, time);
  }
  /// The thread learns what the clock says.
  void acquire(int thread, const Clock& clock) { join(row(thread), clock.data(), clock.size()); }
  /// The clock learns what the thread knows of others: what it did itself, the caller adds.
  void release(int thread, Clock& clock) const {
    clock.resize(stride_);
    join(clock.data(), row(thread), stride_);
  }

  /// The clock learns only of reads and of completed operations.
  void release_reads(int thread, Clock& clock) const {
    clock.resize(stride_);
    join(&clock[first_read_], row(thread), all_threads_);
    join(&clock[first_read_], row(thread) + first_read_, stride_ - first_read_);
  }

  static void join(std::uint32_t* into, const std::uint32_t* from, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) into[i] = std::max(into[i], from[i]);
  }

 private:
  static constexpr std::size_t kUnit = 16;
  static constexpr std::size_t kSpare = 64 + kUnit - 1;  ///< room for sequences, until there are more

  std::size_t threads_ = 0, all_threads_ = 0, first_ = 0, first_read_ = 0, sequences_ = 0, stride_ = 0;
  std::vector<std::uint32_t> known_;  ///< a row for each thread
};

}  // namespace gpusim
