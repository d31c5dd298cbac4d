/// @file
/// How far a thread has waited for its asynchronous copies.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gpusim {

/// The groups of one thread, numbered from 0 in the order of their commits. A wait covers all groups before
/// some number.
struct CopyClock {
  std::uint32_t committed = 0;      ///< groups; the next copy belongs to the group of this number
  std::uint32_t begun = 0;          ///< groups, up to the last one that has a copy
  std::uint32_t covered = 0;        ///< groups that some wait has covered
  std::uint32_t covered_twice = 0;  ///< groups that two waits have covered
  std::uint32_t covered_twice_before_barrier = 0;  ///< the same, when the thread last met a __syncthreads()
  std::uint32_t begun_at_wait = 0;                 ///< `begun` at the last wait
  const void* wait_pc = nullptr;                   ///< of the last wait
  const void* early_barrier = nullptr;             ///< of a __syncthreads() right before it

  struct Wait {
    std::uint32_t covers;
    const void* pc;
  };
  std::vector<Wait> waits;  ///< those that have covered more groups than any before

  /// @param barrier  of the last __syncthreads(), if no access has followed it
  void wait(std::uint32_t covers, const void* pc, const void* barrier) {
    if (covers >= covered) {
      covered_twice = covered;
      note(covers, pc);
      covered = covers;
    } else if (covers > covered_twice) {
      covered_twice = covers;
    }
    begun_at_wait = begun;
    wait_pc = pc;
    early_barrier = barrier;
  }

  /// The wait that was the first to cover a group.
  const void* first_wait_for(std::uint32_t group) const {
    const auto wait = std::upper_bound(waits.begin(), waits.end(), group,
                                       [](std::uint32_t g, const Wait& w) { return g < w.covers; });
    return wait == waits.end() ? nullptr : wait->pc;
  }

 private:
  void note(std::uint32_t covers, const void* pc) {
    if (covers == covered) return;
    if (!waits.empty() && waits.back().pc == pc) {  // mostly the same one, in a loop
      waits.back().covers = covers;
    } else {
      waits.push_back({covers, pc});
    }
  }
};

}  // namespace gpusim
