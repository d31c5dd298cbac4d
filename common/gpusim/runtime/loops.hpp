/// @file
/// Which iteration of which loops a CUDA thread is in.
///
/// A GPU runs the lanes of a warp in step: an access in iteration 3 of a loop is the same warp instruction for
/// all lanes that are in iteration 3, also for one that skipped the access in iteration 2. Fibers run one after
/// the other, so iterations are counted instead. The compiler calls on_block() at the start of each basic block
/// (-fsanitize-coverage=trace-pc); a jump backwards begins the next iteration of the loop that starts there.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace gpusim {

class LoopTracker {
 public:
  void reset() { *this = LoopTracker(); }

  /// A basic block begins, in the innermost loop known, or with its next iteration. False: call change_loop().
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
    }
    last_ = pc;
  }

  /// The same number for two threads that are in the same iteration of the same loops.
  std::uint64_t iteration() const { return inner_.iteration; }

 private:
  static constexpr int kMaxDepth = 12;

  /// The body of a function stands for a loop without a header.
  struct Loop {
    std::uintptr_t header = 0;                  ///< its first block
    std::uintptr_t latch = ~std::uintptr_t(0);  ///< the last block from which it jumped back
    std::uintptr_t frame = 0;
    std::uint64_t iteration = 0;  ///< a hash: outer iteration + how often it was begun * step
    std::uint64_t step = 0;
    std::uintptr_t caller = 0;  ///< function: `last_` of the function that called it
  };

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
