/// @file
/// <cooperative_groups.h>: groups of threads of a warp, of a block, of a cluster and of the grid.
#pragma once

#include "cuda_runtime.h"
#include "gpusim/runtime/device_groups.hpp"

namespace cooperative_groups {

namespace details {

/// A shuffle of any type, 4 bytes at a time if it has more than 8.
template <class T>
GPUSIM_INLINE T shuffle(unsigned mask, T value, int source) {
  if constexpr (sizeof(T) <= 8) {
    return gpusim::device::shuffle_any(mask, value, source);
  } else {
    static_assert(std::is_trivially_copyable<T>::value, "shuffles move bytes");
    constexpr std::size_t kWords = (sizeof(T) + 3) / 4;
    std::uint32_t words[kWords] = {};
    __builtin_memcpy(words, &value, sizeof(T));
    for (std::size_t i = 0; i < kWords; ++i)
      words[i] = std::uint32_t(gpusim::device::shuffle(mask, words[i], source));
    __builtin_memcpy(&value, words, sizeof(T));
    return value;
  }
}

/// The lane of a mask that has a rank.
GPUSIM_INLINE int lane_of_rank(unsigned mask, unsigned rank) {
  for (; rank > 0; --rank) mask &= mask - 1;
  return mask == 0 ? gpusim::device::lane() : __builtin_ctz(mask);
}
GPUSIM_INLINE unsigned lanes_below() { return (1u << gpusim::device::lane()) - 1; }
/// The bits of a ballot, numbered by rank.
GPUSIM_INLINE unsigned by_rank(unsigned lanes, unsigned mask) {
  unsigned result = 0;
  for (unsigned rank = 0; mask != 0; mask &= mask - 1, ++rank)
    result |= (lanes >> __builtin_ctz(mask) & 1u) << rank;
  return result;
}

GPUSIM_INLINE unsigned block_rank_of_thread() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
GPUSIM_INLINE unsigned block_size() { return blockDim.x * blockDim.y * blockDim.z; }

}  // namespace details

template <unsigned kSize, class Parent = void>
class thread_block_tile;

/// The threads of the block, or some of a warp.
class thread_group {
 public:
  GPUSIM_INLINE void sync() const {
    if (is_block_) {
      __syncthreads();
    } else {
      __syncwarp(mask_);
    }
  }
  GPUSIM_INLINE unsigned size() const {
    return is_block_ ? details::block_size() : unsigned(__builtin_popcount(mask_));
  }
  GPUSIM_INLINE unsigned num_threads() const { return size(); }
  GPUSIM_INLINE unsigned thread_rank() const {
    return is_block_ ? details::block_rank_of_thread()
                     : unsigned(__builtin_popcount(mask_ & details::lanes_below()));
  }
  GPUSIM_INLINE bool is_valid() const { return true; }

  // A constructor for the groups below.
  GPUSIM_INLINE thread_group(bool is_block, unsigned mask) : is_block_(is_block), mask_(mask) {}
  GPUSIM_INLINE unsigned gpusim_mask() const { return mask_; }
  GPUSIM_INLINE bool gpusim_is_block() const { return is_block_; }

 protected:
  bool is_block_;
  unsigned mask_;  ///< of lanes
};

/// The threads of the block.
class thread_block : public thread_group {
 public:
  struct arrival_token {};
  GPUSIM_INLINE thread_block() : thread_group(true, 0) {}
  GPUSIM_INLINE static void sync() { __syncthreads(); }
  /// The two halves of sync(). Here, the first does nothing.
  GPUSIM_INLINE arrival_token barrier_arrive() const { return {}; }
  GPUSIM_INLINE void barrier_wait(arrival_token&&) const { __syncthreads(); }
  GPUSIM_INLINE static unsigned thread_rank() { return details::block_rank_of_thread(); }
  GPUSIM_INLINE static unsigned num_threads() { return details::block_size(); }
  GPUSIM_INLINE static unsigned size() { return num_threads(); }
  GPUSIM_INLINE static dim3 group_index() { return blockIdx; }
  GPUSIM_INLINE static dim3 thread_index() { return threadIdx; }
  GPUSIM_INLINE static dim3 group_dim() { return blockDim; }
  GPUSIM_INLINE static dim3 dim_threads() { return blockDim; }
};
GPUSIM_INLINE thread_block this_thread_block() { return {}; }

/// The threads of all blocks. They can wait for each other if the kernel has been launched by
/// cudaLaunchCooperativeKernel().
class grid_group {
 public:
  struct arrival_token {};
  GPUSIM_INLINE void sync() const { gpusim::device::sync_grid(); }
  GPUSIM_INLINE arrival_token barrier_arrive() const { return {}; }
  GPUSIM_INLINE void barrier_wait(arrival_token&&) const { gpusim::device::sync_grid(); }
  GPUSIM_INLINE bool is_valid() const { return gpusim::device::is_cooperative(); }
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
  GPUSIM_INLINE static dim3 block_index() { return blockIdx; }
  GPUSIM_INLINE static dim3 group_dim() { return gridDim; }
  GPUSIM_INLINE static dim3 dim_blocks() { return gridDim; }
};
GPUSIM_INLINE grid_group this_grid() { return {}; }

/// The threads of all blocks of the cluster; of the block, in a launch without clusters.
class cluster_group {
 public:
  struct arrival_token {};
  GPUSIM_INLINE static void sync() {
    if (!gpusim::device::has_cluster()) return __syncthreads();
    gpusim::device::cluster_arrive(false);
    gpusim::device::cluster_wait();
  }
  GPUSIM_INLINE static arrival_token barrier_arrive() {
    if (gpusim::device::has_cluster()) gpusim::device::cluster_arrive(false);
    return {};
  }
  GPUSIM_INLINE static void barrier_wait() {
    if (!gpusim::device::has_cluster()) return __syncthreads();
    gpusim::device::cluster_wait();
  }
  GPUSIM_INLINE static void barrier_wait(arrival_token&&) { barrier_wait(); }
  GPUSIM_INLINE static dim3 dim_blocks() {
    const gpusim::device::Index dim = gpusim::device::cluster_dim();
    return dim3(dim.x, dim.y, dim.z);
  }
  GPUSIM_INLINE static dim3 block_index() {
    const gpusim::device::Index dim = gpusim::device::cluster_dim();
    return dim3(blockIdx.x % dim.x, blockIdx.y % dim.y, blockIdx.z % dim.z);
  }
  GPUSIM_INLINE static unsigned num_blocks() {
    const gpusim::device::Index dim = gpusim::device::cluster_dim();
    return dim.x * dim.y * dim.z;
  }
  GPUSIM_INLINE static unsigned block_rank() { return unsigned(gpusim::device::cluster_rank()); }
  GPUSIM_INLINE static unsigned thread_rank() {
    return block_rank() * details::block_size() + details::block_rank_of_thread();
  }
  GPUSIM_INLINE static unsigned num_threads() { return num_blocks() * details::block_size(); }
  GPUSIM_INLINE static unsigned size() { return num_threads(); }
  GPUSIM_INLINE static dim3 dim_threads() {
    const dim3 blocks = dim_blocks();
    return dim3(blocks.x * blockDim.x, blocks.y * blockDim.y, blocks.z * blockDim.z);
  }
  GPUSIM_INLINE static dim3 thread_index() {
    const dim3 block = block_index();
    return dim3(block.x * blockDim.x + threadIdx.x, block.y * blockDim.y + threadIdx.y,
                block.z * blockDim.z + threadIdx.z);
  }
  template <class T>
  GPUSIM_INLINE static T* map_shared_rank(T* address, int rank) {
    if (!gpusim::device::has_cluster() && rank == 0) return address;
    return static_cast<T*>(gpusim::device::map_shared_rank(address, rank));
  }
  GPUSIM_INLINE static unsigned query_shared_rank(const void* address) {
    return unsigned(gpusim::device::rank_of_shared(address));
  }
};
GPUSIM_INLINE cluster_group this_cluster() { return {}; }

namespace details {

/// What tiles and coalesced groups have in common: lanes of one warp.
/// @tparam Self  says which: mask(), and lane(rank)
template <class Self>
class LaneGroup {
 public:
  GPUSIM_INLINE void sync() const { __syncwarp(self().gpusim_mask()); }
  GPUSIM_INLINE int any(int predicate) const { return __any_sync(self().gpusim_mask(), predicate); }
  GPUSIM_INLINE int all(int predicate) const { return __all_sync(self().gpusim_mask(), predicate); }
  GPUSIM_INLINE unsigned ballot(int predicate) const {
    return by_rank(__ballot_sync(self().gpusim_mask(), predicate), self().gpusim_mask());
  }
  template <class T>
  GPUSIM_INLINE unsigned match_any(T value) const {
    return by_rank(__match_any_sync(self().gpusim_mask(), value), self().gpusim_mask());
  }
  template <class T>
  GPUSIM_INLINE unsigned match_all(T value, int& predicate) const {
    return by_rank(__match_all_sync(self().gpusim_mask(), value, &predicate), self().gpusim_mask());
  }
  template <class T>
  GPUSIM_INLINE T shfl(T value, int source) const {
    return shuffle(self().gpusim_mask(), value, self().gpusim_lane(unsigned(source) % self().size()));
  }
  template <class T>
  GPUSIM_INLINE T shfl_up(T value, unsigned delta) const {
    const unsigned rank = self().thread_rank();
    return shuffle(self().gpusim_mask(), value, self().gpusim_lane(rank >= delta ? rank - delta : rank));
  }
  template <class T>
  GPUSIM_INLINE T shfl_down(T value, unsigned delta) const {
    const unsigned rank = self().thread_rank();
    return shuffle(self().gpusim_mask(), value,
                   self().gpusim_lane(rank + delta < self().size() ? rank + delta : rank));
  }

 private:
  GPUSIM_INLINE const Self& self() const { return static_cast<const Self&>(*this); }
};

/// `kSize` threads of a warp, a power of two, whose ranks follow each other.
template <unsigned kSize>
class Tile : public LaneGroup<Tile<kSize>> {
  static_assert(kSize >= 1 && kSize <= 32 && (kSize & (kSize - 1)) == 0,
                "simulated are tiles of 1, 2, 4, 8, 16 and 32 threads");

 public:
  GPUSIM_INLINE static unsigned thread_rank() { return block_rank_of_thread() % kSize; }
  GPUSIM_INLINE static constexpr unsigned num_threads() { return kSize; }
  GPUSIM_INLINE static constexpr unsigned size() { return kSize; }
  template <class T>
  GPUSIM_INLINE T shfl_xor(T value, unsigned lanes) const {
    const unsigned rank = thread_rank() ^ lanes;
    return shuffle(gpusim_mask(), value, gpusim_lane(rank < kSize ? rank : thread_rank()));
  }
  GPUSIM_INLINE unsigned ballot(int predicate) const {
    return __ballot_sync(gpusim_mask(), predicate) >> first();
  }
  GPUSIM_INLINE operator thread_group() const { return {false, gpusim_mask()}; }

  GPUSIM_INLINE static unsigned gpusim_mask() {
    return (kSize == 32 ? ~0u : (1u << kSize % 32) - 1) << first();
  }
  GPUSIM_INLINE static int gpusim_lane(unsigned rank) { return first() + int(rank); }

 private:
  GPUSIM_INLINE static int first() { return gpusim::device::lane() / int(kSize) * int(kSize); }
};

}  // namespace details

/// A tile of a block, or of a larger tile.
template <unsigned kSize, class Parent>
class thread_block_tile : public details::Tile<kSize> {
 public:
  /// The number of this tile among those of the parent, and how many there are.
  GPUSIM_INLINE static unsigned meta_group_rank() {
    return thread_block::thread_rank() % parent_size() / kSize;
  }
  GPUSIM_INLINE static unsigned meta_group_size() { return (parent_size() + kSize - 1) / kSize; }

 private:
  template <class T>
  struct SizeOf {
    GPUSIM_INLINE static unsigned get() { return details::block_size(); }
  };
  template <unsigned kOther, class Grandparent>
  struct SizeOf<thread_block_tile<kOther, Grandparent>> {
    GPUSIM_INLINE static unsigned get() { return kOther; }
  };
  GPUSIM_INLINE static unsigned parent_size() { return SizeOf<Parent>::get(); }
};
/// A tile of which the type does not say what it is a part of.
template <unsigned kSize>
class thread_block_tile<kSize, void> : public details::Tile<kSize> {
 public:
  template <class Parent>
  GPUSIM_INLINE thread_block_tile(const thread_block_tile<kSize, Parent>& tile)
      : meta_rank_(tile.meta_group_rank()), meta_size_(tile.meta_group_size()) {}
  GPUSIM_INLINE unsigned meta_group_rank() const { return meta_rank_; }
  GPUSIM_INLINE unsigned meta_group_size() const { return meta_size_; }

 private:
  unsigned meta_rank_, meta_size_;
};
template <unsigned kSize, class Parent>
GPUSIM_INLINE thread_block_tile<kSize, Parent> tiled_partition(const Parent&) {
  return {};
}
/// Some lanes of a warp, in the order of their numbers.
class coalesced_group : public details::LaneGroup<coalesced_group> {
 public:
  GPUSIM_INLINE explicit coalesced_group(unsigned mask, unsigned meta_rank = 0, unsigned meta_size = 1)
      : mask_(mask), meta_rank_(meta_rank), meta_size_(meta_size) {}
  GPUSIM_INLINE unsigned thread_rank() const {
    return unsigned(__builtin_popcount(mask_ & details::lanes_below()));
  }
  GPUSIM_INLINE unsigned num_threads() const { return unsigned(__builtin_popcount(mask_)); }
  GPUSIM_INLINE unsigned size() const { return num_threads(); }
  GPUSIM_INLINE unsigned meta_group_rank() const { return meta_rank_; }
  GPUSIM_INLINE unsigned meta_group_size() const { return meta_size_; }
  template <class T>
  GPUSIM_INLINE T shfl_xor(T value, unsigned lanes) const {
    const unsigned rank = thread_rank() ^ lanes;
    return details::shuffle(mask_, value, gpusim_lane(rank < size() ? rank : thread_rank()));
  }
  GPUSIM_INLINE operator thread_group() const { return {false, mask_}; }

  GPUSIM_INLINE unsigned gpusim_mask() const { return mask_; }
  GPUSIM_INLINE int gpusim_lane(unsigned rank) const { return details::lane_of_rank(mask_, rank); }

 private:
  unsigned mask_, meta_rank_, meta_size_;
};

/// The lanes of the warp that come here together.
GPUSIM_INLINE coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }

namespace details {

GPUSIM_INLINE unsigned mask_of(const thread_group& group) {
  if (!group.gpusim_is_block()) return group.gpusim_mask();
  const unsigned left = block_size() - block_rank_of_thread() / 32 * 32;
  return left >= 32 ? ~0u : (1u << left) - 1;
}

}  // namespace details

/// Parts of `size` threads of a group, which only the program knows.
GPUSIM_INLINE thread_group tiled_partition(const thread_group& parent, unsigned size) {
  const unsigned all = details::mask_of(parent);
  const unsigned rank = unsigned(__builtin_popcount(all & details::lanes_below()));
  unsigned mask = 0;
  const unsigned first = rank / size * size;
  unsigned at = 0;
  for (unsigned rest = all; rest != 0; rest &= rest - 1, ++at) {
    if (at >= first && at < first + size) mask |= rest & (0u - rest);
  }
  return {false, mask};
}
GPUSIM_INLINE coalesced_group tiled_partition(const coalesced_group& parent, unsigned size) {
  const unsigned mask = tiled_partition(thread_group(false, parent.gpusim_mask()), size).gpusim_mask();
  return coalesced_group(mask, parent.thread_rank() / size, (parent.size() + size - 1) / size);
}

/// The threads of a group with the same label.
template <class Group, class Label>
GPUSIM_INLINE coalesced_group labeled_partition(const Group& group, Label label) {
  const unsigned all = group.gpusim_mask();
  const unsigned mine = __match_any_sync(all, label);
  // Parts are numbered by their lowest lanes.
  const unsigned leaders = __ballot_sync(all, __builtin_ctz(mine) == gpusim::device::lane());
  return coalesced_group(mine, unsigned(__builtin_popcount(leaders & ((1u << __builtin_ctz(mine)) - 1))),
                         unsigned(__builtin_popcount(leaders)));
}
/// The threads of a group for which the predicate is true, and the others.
template <class Group>
GPUSIM_INLINE coalesced_group binary_partition(const Group& group, bool predicate) {
  const unsigned all = group.gpusim_mask();
  const unsigned yes = __ballot_sync(all, predicate) & all;
  return coalesced_group(predicate ? yes : all & ~yes, predicate ? 1 : 0, 2);
}

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

/// One thread of the group calls f().
template <class Group, class F, class... Args>
GPUSIM_INLINE void invoke_one(const Group& group, F&& f, Args&&... args) {
  if (group.thread_rank() == 0) f(static_cast<Args&&>(args)...);
}
/// .. and all get what it returns.
template <class Group, class F, class... Args>
GPUSIM_INLINE auto invoke_one_broadcast(const Group& group, F&& f, Args&&... args) {
  decltype(f(static_cast<Args&&>(args)...)) result{};
  if (group.thread_rank() == 0) result = f(static_cast<Args&&>(args)...);
  return group.shfl(result, 0);
}

}  // namespace cooperative_groups
