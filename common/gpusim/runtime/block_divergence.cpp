/// @file
/// Detects threads of a block that wait for each other forever.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>

#include "gpusim/runtime/block.hpp"

namespace gpusim {

/// No thread can continue. Reports which threads wait at the barrier that most threads have reached.
void BlockRunner::report_divergence() {
  std::map<const void*, int> waiting;  // by call site
  Thread* running = nullptr;
  Thread* unnamed = nullptr;  // by its own mask
  for (int i = 0; i < thread_count_; ++i) {
    Thread& t = threads_[i];
    if (t.state == State::kBlockSync || t.state == State::kWarpSync) ++waiting[t.sync_pc];
    if (t.state == State::kReady && running == nullptr) running = &t;
    if (t.state == State::kWarpSync && (t.mask >> i % kWarpSize & 1) == 0 && unnamed == nullptr) unnamed = &t;
  }
  const auto mask_text = [](unsigned mask) {
    std::array<char, 16> text;
    std::snprintf(text.data(), text.size(), "0x%08x", mask);
    return std::string(text.data());
  };
  FindingKey key{.kind = DefectKind::kBarrierDivergence};
  Thread* shown = nullptr;  // to a debugger: one of those that have reached key.pc
  std::ostringstream text;
  const auto block = grid_dim_.at(linear_);
  const auto in_block = "block (" + std::to_string(block.x) + "," + std::to_string(block.y) + "," +
                        std::to_string(block.z) + ")";
  if (waiting.empty()) {
    key.pc = last_access_pc_;
    shown = running;
    text << "Thread(s) in " << in_block << " do not end: after " << kLongPatience
         << " memory accesses without a barrier they have";
  } else if (unnamed != nullptr) {
    key.pc = reinterpret_cast<std::uintptr_t>(unnamed->sync_pc);
    shown = unnamed;
    const Dim3& t = unnamed->index;
    text << "Mask " << mask_text(unnamed->mask) << " in " << in_block << " does not name thread (" << t.x
         << "," << t.y << "," << t.z << "), which has";
  } else {
    const auto most = std::max_element(waiting.begin(), waiting.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    key.pc = reinterpret_cast<std::uintptr_t>(most->first);
    for (int i = 0; i < thread_count_ && shown == nullptr; ++i) {
      const State s = threads_[i].state;
      if ((s == State::kBlockSync || s == State::kWarpSync) && threads_[i].sync_pc == most->first) {
        shown = &threads_[i];
      }
    }
    const bool warp_wide = shown->state == State::kWarpSync;
    for (const auto& [pc, count] : waiting) {
      if (pc != most->first) key.rival_pc = reinterpret_cast<std::uintptr_t>(pc);
    }
    if (warp_wide) {
      const int warp = shown->linear / kWarpSize;
      int arrived = 0;
      for (int i = warp * kWarpSize; i < std::min((warp + 1) * kWarpSize, thread_count_); ++i) {
        arrived += threads_[i].state == State::kWarpSync && threads_[i].sync_pc == most->first;
      }
      text << "Divergent thread(s) in warp " << warp << " of " << in_block << ": " << arrived << " of "
           << std::popcount(shown->mask) << " threads named in mask " << mask_text(shown->mask);
    } else {
      text << "Divergent thread(s) in " << in_block << ": " << most->second << " of " << thread_count_
           << " threads";
    }
    if (running != nullptr) text << " (the others keep running)";
  }
  if (Example* e = tally.findings.add(key, linear_)) {
    e->grid = grid_dim_;
    e->block_dim = block_dim_;
    e->detail = text.str();
    if (debugging_) announce_in(*shown, key, *e);
  }
}

}  // namespace gpusim
