/// @file
/// Which iteration of which loops a CUDA thread is in.
///
/// A GPU runs the lanes of a warp in step: an access in iteration 3 of a loop is the same warp instruction for
/// all lanes that are in iteration 3, also for one that skipped the access in iteration 2. Fibers run one after
/// the other, so iterations are counted instead. The compiler calls on_block() at the start of each basic block
/// (-fsanitize-coverage=trace-pc); a jump backwards begins the next iteration of the loop that starts there.
#pragma once

#include <array>
#include <cstdint>

namespace gpusim {

class LoopTracker {
 public:
  void reset() { *this = LoopTracker(); }

  /// @param pc     of the basic block that begins
  /// @param frame  lower for a function that was called, the same throughout one call
  void on_block(std::uintptr_t pc, std::uintptr_t frame) {
    if (frame != frame_) [[unlikely]] change_frame(frame);
    if (pc > last_) {
      while (depth_ > 0 && top().frame == frame && pc > top().latch) --depth_;
    } else {
      while (depth_ > 0 && top().frame == frame && top().header > pc) --depth_;
      if (depth_ > 0 && top().frame == frame && top().header == pc) {
        next_iteration(top());
      } else if (depth_ < kMaxDepth) {
        loops_[depth_] = {pc, last_, frame, outer_hash(), 0, 0};
        ++depth_;
        next_iteration(top());
      }
    }
    last_ = pc;
  }

  /// The same number for two threads that are in the same iteration of the same loops.
  std::uint64_t iteration() const { return outer_hash(); }

 private:
  static constexpr int kMaxDepth = 12;

  struct Loop {
    std::uintptr_t header = 0;  ///< its first block
    std::uintptr_t latch = 0;   ///< the last block from which it jumped back
    std::uintptr_t frame = 0;
    std::uint64_t outer = 0;  ///< hash of the loops around it
    std::uint64_t count = 0;
    std::uint64_t hash = 0;
  };
  struct Caller {
    std::uintptr_t frame = 0, last = 0;
  };

  Loop& top() { return loops_[depth_ - 1]; }
  std::uint64_t outer_hash() const { return depth_ == 0 ? 0 : loops_[depth_ - 1].hash; }

  void next_iteration(Loop& loop) {
    if (last_ > loop.latch) loop.latch = last_;
    ++loop.count;
    loop.hash = (loop.outer ^ loop.header) * 0x9e3779b97f4a7c15ull + loop.count * 0xd1b54a32d192ed03ull;
  }

  void change_frame(std::uintptr_t frame) {
    if (frame < frame_ || frame_ == 0) {  // a call
      if (calls_ < kMaxDepth) callers_[calls_++] = {frame_, last_};
      last_ = 0;
    } else {  // a return
      while (depth_ > 0 && top().frame < frame) --depth_;
      last_ = 0;
      while (calls_ > 0 && callers_[calls_ - 1].frame <= frame) {
        --calls_;
        if (callers_[calls_].frame == frame) last_ = callers_[calls_].last;
      }
    }
    frame_ = frame;
  }

  std::array<Loop, kMaxDepth> loops_;
  std::array<Caller, kMaxDepth> callers_;
  int depth_ = 0;
  int calls_ = 0;
  std::uintptr_t frame_ = 0;
  std::uintptr_t last_ = 0;
};

}  // namespace gpusim
