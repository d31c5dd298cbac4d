/// @file
/// What the asynchronous proxy has to do with each word of shared memory: who wrote it with ordinary stores,
/// and which asynchronous operations read it.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "gpusim/runtime/access.hpp"
#include "gpusim/runtime/async_shared.hpp"
#include "gpusim/runtime/reserved.hpp"

namespace gpusim {

class AsyncShadow {
 public:
  /// An ordinary store, the latest to this word.
  struct Write {
    std::uint32_t tick;
    std::uint16_t thread_plus_1;  ///< 0: none, or an asynchronous copy has been later
    std::uint16_t site;
  };
  /// The latest asynchronous operation that reads the word on behalf of a warp.
  struct Read {
    std::uint32_t number;
    std::uint16_t sequence, site, thread;
  };

  bool is_ready() const { return bool(writes_); }
  void make(std::size_t words) {
    writes_ = Reserved<Write>(words);
    readers_ = Reserved<std::uint32_t>(words);
    for (auto& reads : reads_) reads = Reserved<Read>(words);
  }

  /// Forgets everything, at the start of a launch: its blocks forget only what they have used.
  void forget() {
    if (!is_ready()) return;
    writes_.clear();
    readers_.clear();
  }
  void forget(std::size_t first, std::size_t end) {
    std::fill(&writes_[first], &writes_[end], Write{});
    std::fill(&readers_[first], &readers_[end], 0u);
  }

  const Write& write(std::size_t word) const { return writes_[word]; }
  void set_write(std::size_t word, int thread, std::uint16_t site, std::uint32_t tick) {
    writes_[word] = {tick, std::uint16_t(thread + 1), site};
  }
  void clear_write(std::size_t word) { writes_[word] = {}; }

  void add_read(std::size_t word, int thread, std::uint16_t site, Completion operation) {
    const auto warp = std::size_t(thread / kWarpSize);
    readers_[word] |= 1u << warp;
    reads_[warp][word] = {operation.number, operation.sequence, site, std::uint16_t(thread)};
  }
  bool has_reads(std::size_t word) const { return readers_[word] != 0; }
  /// Calls f(read) for each warp's latest one.
  template <class F>
  void for_each_read(std::size_t word, F&& f) const {
    for (std::uint32_t rest = readers_[word]; rest != 0; rest &= rest - 1)
      f(reads_[std::size_t(std::countr_zero(rest))][word]);
  }
  void clear_reads(std::size_t word) { readers_[word] = 0; }

 private:
  Reserved<Write> writes_;
  Reserved<std::uint32_t> readers_;  ///< by word: the warps
  std::array<Reserved<Read>, kMaxWarps> reads_;
};

}  // namespace gpusim
