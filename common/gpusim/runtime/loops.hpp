/// @file
/// Tracks which iteration of which loops a CUDA thread is in.
///
/// A GPU runs the lanes of a warp in step: an access in iteration 3 of a loop is the same warp instruction
/// for all lanes in iteration 3, including one that skipped the access in iteration 2. Fibers run one after
/// the other, so iterations are counted instead. The compiler calls on_block() at the start of each basic
/// block
/// (-fsanitize-coverage=trace-pc); a jump backwards begins the next iteration of the loop that starts there.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>

namespace gpusim {

class LoopTracker {
 public:
  LoopTracker() = default;
  LoopTracker(const LoopTracker& other) { *this = other; }
  LoopTracker& operator=(const LoopTracker& other) {
    inner_ = other.inner_;
    last_ = other.last_;
    depth_ = other.depth_;
    std::copy_n(other.outer_.begin(), std::min(depth_, kMaxDepth), outer_.begin());
    return *this;
  }
  void reset() { *this = LoopTracker(); }

  /// A basic block begins, in the innermost known loop or in its next iteration. False: call change_loop().
  ///
  /// @param pc     of the block
  /// @param frame  lower for a function that was called, the same throughout one call
  bool goes_on(std::uintptr_t pc, std::uintptr_t frame) {
    if (frame != inner_.frame) return false;
    if (pc > last_ && pc <= inner_.latch) {
      last_ = pc;
      return true;
    }
    if (pc != inner_.header) return false;
    inner_.latch = std::max(inner_.latch, last_);
    inner_.iteration += inner_.step;
    ++inner_.count;
    last_ = pc;
    return true;
  }

  /// A basic block begins, and a loop or a function begins or ends with it.
  void change_loop(std::uintptr_t pc, std::uintptr_t frame) {
    if (frame != inner_.frame) {
      while (inner_.frame != 0 && inner_.frame < frame) {  // returns
        if (inner_.header == 0) last_ = inner_.caller;
        leave();
      }
      if (inner_.frame != frame) {  // a call
        enter({.frame = frame, .iteration = inner_.iteration, .caller = last_});
        last_ = pc;
        return;
      }
    }
    while (inner_.header != 0 && (pc > last_ ? pc > inner_.latch : pc < inner_.header)) leave();
    if (pc <= last_) {
      if (pc != inner_.header) {
        const std::uint64_t step = pc * 0x9e3779b97f4a7c15ull;
        enter(
            {.header = pc, .latch = last_, .frame = frame, .iteration = inner_.iteration, .step = step | 1});
      }
      inner_.latch = std::max(inner_.latch, last_);
      inner_.iteration += inner_.step;
      ++inner_.count;
    }
    last_ = pc;
  }

  /// A number that is the same for two threads in the same iteration of the same loops.
  std::uint64_t iteration() const { return inner_.iteration; }

  /// The basic block.
  std::uintptr_t block() const { return last_; }

  /// Compares the positions of two threads in the program: a is `less` if a has yet to reach the position of
  /// b, `equivalent` if they are in the same basic block. Blocks lie in memory in the order of the source.
  friend std::weak_ordering operator<=>(const LoopTracker& a, const LoopTracker& b) {
    for (int level = 0; level < kMaxDepth; ++level) {
      if (const auto order = a.at(level).count <=> b.at(level).count; order != 0) return order;
      if (level == a.depth_ && level == b.depth_) return a.last_ <=> b.last_;
      const Span in_a = a.below(level), in_b = b.below(level);
      if (in_a.begin == in_b.begin && in_a.is_loop == in_b.is_loop && level < a.depth_ && level < b.depth_) {
        continue;
      }
      // A thread inside a loop that only the other thread knows is in its first iteration.
      if (in_a.is_loop && in_a.begin <= in_b.begin && in_b.begin <= in_a.end) {
        return std::weak_ordering::greater;
      }
      if (in_b.is_loop && in_b.begin <= in_a.begin && in_a.begin <= in_b.end) return std::weak_ordering::less;
      return in_a.begin <=> in_b.begin;
    }
    return std::weak_ordering::equivalent;
  }

 private:
  static constexpr int kMaxDepth = 12;

  /// A loop, or the body of a function, which is treated as a loop without a header.
  struct Loop {
    std::uintptr_t header = 0;                  ///< its first block
    std::uintptr_t latch = ~std::uintptr_t(0);  ///< the last block from which it jumped back
    std::uintptr_t frame = 0;
    std::uint64_t iteration = 0;  ///< a hash: outer iteration + number of iterations begun * step
    std::uint64_t step = 0;
    std::uint64_t count = 0;    ///< the number of repeated iterations
    std::uintptr_t caller = 0;  ///< function: `last_` of the function that called it
  };

  /// The current position at some level: a loop, or else a block (which may have called a function).
  struct Span {
    std::uintptr_t begin, end;
    bool is_loop;
  };

  const Loop& at(int level) const { return level < std::min(depth_, kMaxDepth) ? outer_[level] : inner_; }
  Span below(int level) const {
    if (level >= depth_) return {last_, last_, false};
    const Loop& next = at(level + 1);
    if (next.header == 0) return {next.caller, next.caller, false};
    return {next.header, next.latch, true};
  }

  void enter(const Loop& loop) {
    if (depth_ < kMaxDepth) outer_[depth_] = inner_;
    ++depth_;
    inner_ = loop;
  }
  void leave() {
    --depth_;
    inner_ = depth_ < kMaxDepth ? outer_[depth_] : Loop{};
  }

  Loop inner_;  ///< the innermost
  std::uintptr_t last_ = 0;
  int depth_ = 0;
  std::array<Loop, kMaxDepth> outer_;
};

}  // namespace gpusim
