/// @file
/// Grids whose blocks are all there at once, because they wait for each other: cooperative launches. As in a
/// cluster, each block has a CPU thread of its own, and only one of them runs at any moment.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gpusim/runtime/block.hpp"
#include "gpusim/runtime/cluster.hpp"

namespace gpusim {

/// Runs a grid from one barrier of the grid to the next. For the race check, each part is like a launch of
/// its own: its blocks have numbers of their own.
class ResidentGrid {
 public:
  /// @param number  of the first block in the first part
  /// @return  how many parts there were
  std::uint32_t run(const device::Launch& launch, std::uint32_t number);

  std::size_t static_shared_bytes() const { return static_bytes_; }

 private:
  struct Block {
    CpuThread thread;
    std::unique_ptr<BlockRunner> runner;
  };

  bool is_complete() const;
  void open_barrier(std::uint32_t number);
  void settle(const device::Launch& launch, std::uint32_t number);
  void report_divergence();

  std::vector<std::unique_ptr<Block>> blocks_;
  std::size_t count_ = 0;  ///< of them, in this launch
  std::size_t static_bytes_ = 0;
};

}  // namespace gpusim
