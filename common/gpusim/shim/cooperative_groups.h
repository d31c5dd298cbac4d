/// @file
/// <cooperative_groups.h>: groups of threads of a block. The grid is a group too, but cannot wait for its
/// blocks here.
#pragma once

#include "cuda_runtime.h"

namespace cooperative_groups {

/// The threads of the block.
class thread_block {
 public:
  GPUSIM_INLINE void sync() const { __syncthreads(); }
  GPUSIM_INLINE static unsigned thread_rank() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  }
  GPUSIM_INLINE static unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
  GPUSIM_INLINE static unsigned size() { return num_threads(); }
  GPUSIM_INLINE static dim3 group_index() { return blockIdx; }
  GPUSIM_INLINE static dim3 thread_index() { return threadIdx; }
  GPUSIM_INLINE static dim3 group_dim() { return blockDim; }
  GPUSIM_INLINE static dim3 dim_threads() { return blockDim; }
};
GPUSIM_INLINE thread_block this_thread_block() { return {}; }

/// The threads of all blocks.
class grid_group {
 public:
  [[gnu::error("grid.sync() is not simulated: end the kernel there, and let a second one do the rest")]] void
  sync() const;
  GPUSIM_INLINE static bool is_valid() { return false; }
  GPUSIM_INLINE static unsigned long long block_rank() {
    return blockIdx.x + (unsigned long long)(gridDim.x) * (blockIdx.y + gridDim.y * blockIdx.z);
  }
  GPUSIM_INLINE static unsigned long long num_blocks() {
    return (unsigned long long)(gridDim.x) * gridDim.y * gridDim.z;
  }
  GPUSIM_INLINE static unsigned long long thread_rank() {
    return block_rank() * thread_block::num_threads() + thread_block::thread_rank();
  }
  GPUSIM_INLINE static unsigned long long num_threads() { return num_blocks() * thread_block::num_threads(); }
  GPUSIM_INLINE static unsigned long long size() { return num_threads(); }
  GPUSIM_INLINE static dim3 group_dim() { return gridDim; }
  GPUSIM_INLINE static dim3 dim_blocks() { return gridDim; }
};
GPUSIM_INLINE grid_group this_grid() { return {}; }

/// `kSize` threads of a warp, a power of two, whose ranks follow each other.
template <unsigned kSize, class Parent = void>
class thread_block_tile {
  static_assert(kSize >= 1 && kSize <= 32 && (kSize & (kSize - 1)) == 0,
                "simulated are tiles of 1, 2, 4, 8, 16 and 32 threads");

 public:
  GPUSIM_INLINE thread_block_tile() = default;
  template <class Other>
  GPUSIM_INLINE thread_block_tile(const thread_block_tile<kSize, Other>&) {}
  GPUSIM_INLINE void sync() const { __syncwarp(mask()); }
  GPUSIM_INLINE static unsigned thread_rank() { return unsigned(gpusim::device::lane()) % kSize; }
  GPUSIM_INLINE static constexpr unsigned num_threads() { return kSize; }
  GPUSIM_INLINE static constexpr unsigned size() { return kSize; }
  GPUSIM_INLINE static unsigned meta_group_rank() { return thread_block::thread_rank() / kSize; }
  GPUSIM_INLINE static unsigned meta_group_size() {
    return (thread_block::num_threads() + kSize - 1) / kSize;
  }
  template <class T>
  GPUSIM_INLINE T shfl(T value, int source) const {
    return __shfl_sync(mask(), value, source, kSize);
  }
  template <class T>
  GPUSIM_INLINE T shfl_up(T value, unsigned delta) const {
    return __shfl_up_sync(mask(), value, delta, kSize);
  }
  template <class T>
  GPUSIM_INLINE T shfl_down(T value, unsigned delta) const {
    return __shfl_down_sync(mask(), value, delta, kSize);
  }
  template <class T>
  GPUSIM_INLINE T shfl_xor(T value, unsigned lanes) const {
    return __shfl_xor_sync(mask(), value, int(lanes), kSize);
  }
  GPUSIM_INLINE int any(int predicate) const { return __any_sync(mask(), predicate); }
  GPUSIM_INLINE int all(int predicate) const { return __all_sync(mask(), predicate); }
  GPUSIM_INLINE unsigned ballot(int predicate) const { return __ballot_sync(mask(), predicate) >> first(); }

 private:
  GPUSIM_INLINE static int first() { return gpusim::device::lane() / int(kSize) * int(kSize); }
  GPUSIM_INLINE static unsigned mask() { return (kSize == 32 ? ~0u : (1u << kSize % 32) - 1) << first(); }
};
template <unsigned kSize, class Parent>
GPUSIM_INLINE thread_block_tile<kSize, Parent> tiled_partition(const Parent&) {
  return {};
}

/// The threads of the warp that execute this together, which only a GPU knows.
class coalesced_group {};
[[gnu::error(
    "coalesced_threads() is not simulated: use tiled_partition<32>(), or __ballot_sync() for the lanes that "
    "take a "
    "branch")]] coalesced_group
coalesced_threads();

template <class Group>
GPUSIM_INLINE void sync(const Group& group) {
  group.sync();
}
template <class Group>
GPUSIM_INLINE auto thread_rank(const Group& group) {
  return group.thread_rank();
}
template <class Group>
GPUSIM_INLINE auto group_size(const Group& group) {
  return group.size();
}

}  // namespace cooperative_groups
