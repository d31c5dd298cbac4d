/// @file
/// CUB's algorithms for warps and blocks. A warp uses shuffles; a block then combines the results of its
/// warps in shared memory, with one __syncthreads(). The algorithm that a program names makes no difference.
#pragma once

#include "cooperative_groups.h"
#include "gpusim_iterators.cuh"

namespace cub {

enum BlockReduceAlgorithm {
  BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY,
  BLOCK_REDUCE_RAKING,
  BLOCK_REDUCE_WARP_REDUCTIONS
};
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };
enum BlockLoadAlgorithm {
  BLOCK_LOAD_DIRECT,
  BLOCK_LOAD_STRIPED,
  BLOCK_LOAD_VECTORIZE,
  BLOCK_LOAD_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE,
  BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED
};
enum BlockStoreAlgorithm {
  BLOCK_STORE_DIRECT,
  BLOCK_STORE_STRIPED,
  BLOCK_STORE_VECTORIZE,
  BLOCK_STORE_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE,
  BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED
};
enum BlockHistogramAlgorithm { BLOCK_HISTO_SORT, BLOCK_HISTO_ATOMIC };

namespace gpusim_details {

GPUSIM_INLINE int thread() {
  return int(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}
GPUSIM_INLINE int lane() { return gpusim::device::lane(); }
/// The lanes of this warp that the block has.
GPUSIM_INLINE unsigned lanes_of_warp(int threads) {
  const int left = threads - thread() / 32 * 32;
  return left >= 32 ? ~0u : (1u << left) - 1;
}
template <class T>
GPUSIM_INLINE T shuffle(unsigned mask, const T& value, int source) {
  return cooperative_groups::details::shuffle(mask, value, source);
}

/// The sum over the lanes of a part of `kWidth` lanes, of which `valid` have a value: in the first of them.
template <int kWidth, class T, class Op>
GPUSIM_INLINE T reduce(unsigned mask, T value, Op op, int valid) {
  const int rank = lane() % kWidth;
  for (int distance = 1; distance < kWidth; distance *= 2) {
    const bool has = rank + distance < valid;
    const T other = shuffle(mask, value, has && rank + distance < kWidth ? lane() + distance : lane());
    if (has && rank + distance < kWidth) value = op(value, other);
  }
  return value;
}
template <int kWidth, class T, class Op>
GPUSIM_INLINE T scan(unsigned mask, T value, Op op) {
  const int rank = lane() % kWidth;
  for (int distance = 1; distance < kWidth; distance *= 2) {
    const T before = shuffle(mask, value, rank >= distance ? lane() - distance : lane());
    if (rank >= distance) value = op(before, value);
  }
  return value;
}
template <int kWidth>
GPUSIM_INLINE unsigned part_mask() {
  return (kWidth == 32 ? ~0u : (1u << kWidth % 32) - 1) << lane() / kWidth * kWidth;
}

}  // namespace gpusim_details

struct NullType {};

template <class T, int kWidth = 32>
class WarpReduce {
 public:
  struct TempStorage {
    int unused;
  };
  GPUSIM_INLINE explicit WarpReduce(TempStorage&) {}
  template <class Op>
  GPUSIM_INLINE T Reduce(T value, Op op) {
    return gpusim_details::reduce<kWidth>(mask(), value, op, kWidth);
  }
  template <class Op>
  GPUSIM_INLINE T Reduce(T value, Op op, int valid) {
    return gpusim_details::reduce<kWidth>(mask(), value, op, valid);
  }
  GPUSIM_INLINE T Sum(T value) { return Reduce(value, cub::Sum()); }
  GPUSIM_INLINE T Sum(T value, int valid) { return Reduce(value, cub::Sum(), valid); }
  GPUSIM_INLINE T Max(T value) { return Reduce(value, cub::Max()); }
  GPUSIM_INLINE T Min(T value) { return Reduce(value, cub::Min()); }

 private:
  GPUSIM_INLINE static unsigned mask() {
    return gpusim_details::part_mask<kWidth>() &
           gpusim_details::lanes_of_warp(int(blockDim.x * blockDim.y * blockDim.z));
  }
};

template <class T, int kWidth = 32>
class WarpScan {
 public:
  struct TempStorage {
    int unused;
  };
  GPUSIM_INLINE explicit WarpScan(TempStorage&) {}
  template <class Op>
  GPUSIM_INLINE void InclusiveScan(T in, T& out, Op op) {
    out = gpusim_details::scan<kWidth>(mask(), in, op);
  }
  template <class Op>
  GPUSIM_INLINE void InclusiveScan(T in, T& out, Op op, T& aggregate) {
    InclusiveScan(in, out, op);
    aggregate = gpusim_details::shuffle(mask(), out, gpusim_details::lane() / kWidth * kWidth + kWidth - 1);
  }
  template <class Op>
  GPUSIM_INLINE void ExclusiveScan(T in, T& out, T init, Op op) {
    const T until = gpusim_details::scan<kWidth>(mask(), in, op);
    const bool first = gpusim_details::lane() % kWidth == 0;
    const T before =
        gpusim_details::shuffle(mask(), until, first ? gpusim_details::lane() : gpusim_details::lane() - 1);
    out = first ? init : op(init, before);
  }
  template <class Op>
  GPUSIM_INLINE void ExclusiveScan(T in, T& out, Op op) {
    const T until = gpusim_details::scan<kWidth>(mask(), in, op);
    const bool first = gpusim_details::lane() % kWidth == 0;
    const T before =
        gpusim_details::shuffle(mask(), until, first ? gpusim_details::lane() : gpusim_details::lane() - 1);
    if (!first) out = before;
  }
  GPUSIM_INLINE void InclusiveSum(T in, T& out) { InclusiveScan(in, out, cub::Sum()); }
  GPUSIM_INLINE void InclusiveSum(T in, T& out, T& aggregate) {
    InclusiveScan(in, out, cub::Sum(), aggregate);
  }
  GPUSIM_INLINE void ExclusiveSum(T in, T& out) { ExclusiveScan(in, out, T(), cub::Sum()); }
  GPUSIM_INLINE void ExclusiveSum(T in, T& out, T& aggregate) {
    T until;
    InclusiveScan(in, until, cub::Sum(), aggregate);
    out = T(until - in);
  }
  GPUSIM_INLINE T Broadcast(T in, unsigned source) {
    return gpusim_details::shuffle(mask(), in, gpusim_details::lane() / kWidth * kWidth + int(source));
  }

 private:
  GPUSIM_INLINE static unsigned mask() { return gpusim_details::part_mask<kWidth>(); }
};

template <class T, int kX, BlockReduceAlgorithm kAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int kY = 1,
          int kZ = 1, int = 0>
class BlockReduce {
  static constexpr int kThreads = kX * kY * kZ, kWarps = (kThreads + 31) / 32;

 public:
  struct TempStorage {
    T of_warps[kWarps];
  };
  GPUSIM_INLINE explicit BlockReduce(TempStorage& temp) : temp_(temp) {}
  /// The result is the first thread's.
  template <class Op>
  GPUSIM_INLINE T Reduce(T value, Op op) {
    return Reduce(value, op, kThreads);
  }
  template <class Op>
  GPUSIM_INLINE T Reduce(T value, Op op, int valid) {
    const int thread = gpusim_details::thread(), warp = thread / 32, left = valid - warp * 32;
    value =
        gpusim_details::reduce<32>(gpusim_details::lanes_of_warp(kThreads), value, op, left < 32 ? left : 32);
    if (gpusim_details::lane() == 0) temp_.of_warps[warp] = value;
    __syncthreads();
    if (thread == 0) {
      const int warps = valid < kThreads ? (valid + 31) / 32 : kWarps;
      for (int w = 1; w < warps; ++w) value = op(value, temp_.of_warps[w]);
    }
    return value;
  }
  template <int kItems, class Op>
  GPUSIM_INLINE T Reduce(T (&values)[kItems], Op op) {
    T sum = values[0];
    for (int i = 1; i < kItems; ++i) sum = op(sum, values[i]);
    return Reduce(sum, op);
  }
  GPUSIM_INLINE T Sum(T value) { return Reduce(value, cub::Sum()); }
  GPUSIM_INLINE T Sum(T value, int valid) { return Reduce(value, cub::Sum(), valid); }
  template <int kItems>
  GPUSIM_INLINE T Sum(T (&values)[kItems]) {
    return Reduce(values, cub::Sum());
  }

 private:
  TempStorage& temp_;
};

template <class T, int kX, BlockScanAlgorithm kAlgorithm = BLOCK_SCAN_RAKING, int kY = 1, int kZ = 1, int = 0>
class BlockScan {
  static constexpr int kThreads = kX * kY * kZ, kWarps = (kThreads + 31) / 32;

 public:
  struct TempStorage {
    T of_warps[kWarps];
  };
  GPUSIM_INLINE explicit BlockScan(TempStorage& temp) : temp_(temp) {}

  template <class Op>
  GPUSIM_INLINE void InclusiveScan(T in, T& out, Op op, T& aggregate) {
    T before;
    const bool has_before = scan(in, out, before, op, aggregate);
    if (has_before) out = op(before, out);
  }
  template <class Op>
  GPUSIM_INLINE void InclusiveScan(T in, T& out, Op op) {
    T aggregate;
    InclusiveScan(in, out, op, aggregate);
  }
  template <class Op>
  GPUSIM_INLINE void ExclusiveScan(T in, T& out, T init, Op op, T& aggregate) {
    T before, until;
    const bool has_before = scan(in, until, before, op, aggregate);
    const bool first = gpusim_details::lane() == 0;
    const T left = gpusim_details::shuffle(gpusim_details::lanes_of_warp(kThreads), until,
                                           first ? 0 : gpusim_details::lane() - 1);
    T result = init;
    if (has_before) result = op(result, before);
    out = first ? result : op(result, left);
  }
  template <class Op>
  GPUSIM_INLINE void ExclusiveScan(T in, T& out, T init, Op op) {
    T aggregate;
    ExclusiveScan(in, out, init, op, aggregate);
  }
  GPUSIM_INLINE void InclusiveSum(T in, T& out) { InclusiveScan(in, out, cub::Sum()); }
  GPUSIM_INLINE void InclusiveSum(T in, T& out, T& aggregate) {
    InclusiveScan(in, out, cub::Sum(), aggregate);
  }
  GPUSIM_INLINE void ExclusiveSum(T in, T& out) { ExclusiveScan(in, out, T(), cub::Sum()); }
  GPUSIM_INLINE void ExclusiveSum(T in, T& out, T& aggregate) {
    ExclusiveScan(in, out, T(), cub::Sum(), aggregate);
  }
  /// With what comes before the block: the first warp calls the functor with the block's sum.
  template <class Op, class Prefix>
  GPUSIM_INLINE void InclusiveScan(T in, T& out, Op op, Prefix& prefix) {
    T aggregate;
    InclusiveScan(in, out, op, aggregate);
    out = op(prefix_of(prefix, aggregate), out);
  }
  template <class Prefix, class = decltype(std::declval<Prefix&>()(std::declval<T>()))>
  GPUSIM_INLINE void InclusiveSum(T in, T& out, Prefix& prefix) {
    InclusiveScan(in, out, cub::Sum(), prefix);
  }
  template <class Prefix, class = decltype(std::declval<Prefix&>()(std::declval<T>()))>
  GPUSIM_INLINE void ExclusiveSum(T in, T& out, Prefix& prefix) {
    T aggregate;
    ExclusiveScan(in, out, T(), cub::Sum(), aggregate);
    out = prefix_of(prefix, aggregate) + out;
  }

  template <int kItems, class Op>
  GPUSIM_INLINE void InclusiveScan(T (&in)[kItems], T (&out)[kItems], Op op, T& aggregate) {
    T sums[kItems];
    sums[0] = in[0];
    for (int i = 1; i < kItems; ++i) sums[i] = op(sums[i - 1], in[i]);
    T until, before;
    const bool has_before = scan(sums[kItems - 1], until, before, op, aggregate);
    const bool first = gpusim_details::lane() == 0;
    const T left = gpusim_details::shuffle(gpusim_details::lanes_of_warp(kThreads), until,
                                           first ? 0 : gpusim_details::lane() - 1);
    for (int i = 0; i < kItems; ++i) {
      T sum = first ? sums[i] : op(left, sums[i]);
      out[i] = has_before ? op(before, sum) : sum;
    }
  }
  template <int kItems, class Op>
  GPUSIM_INLINE void InclusiveScan(T (&in)[kItems], T (&out)[kItems], Op op) {
    T aggregate;
    InclusiveScan(in, out, op, aggregate);
  }
  template <int kItems, class Op>
  GPUSIM_INLINE void ExclusiveScan(T (&in)[kItems], T (&out)[kItems], T init, Op op, T& aggregate) {
    T sum = in[0];
    for (int i = 1; i < kItems; ++i) sum = op(sum, in[i]);
    T before;
    ExclusiveScan(sum, before, init, op, aggregate);
    for (int i = 0; i < kItems; ++i) {
      const T x = in[i];
      out[i] = before;
      before = op(before, x);
    }
  }
  template <int kItems, class Op>
  GPUSIM_INLINE void ExclusiveScan(T (&in)[kItems], T (&out)[kItems], T init, Op op) {
    T aggregate;
    ExclusiveScan(in, out, init, op, aggregate);
  }
  template <int kItems>
  GPUSIM_INLINE void InclusiveSum(T (&in)[kItems], T (&out)[kItems]) {
    InclusiveScan(in, out, cub::Sum());
  }
  template <int kItems>
  GPUSIM_INLINE void InclusiveSum(T (&in)[kItems], T (&out)[kItems], T& aggregate) {
    InclusiveScan(in, out, cub::Sum(), aggregate);
  }
  template <int kItems>
  GPUSIM_INLINE void ExclusiveSum(T (&in)[kItems], T (&out)[kItems]) {
    ExclusiveScan(in, out, T(), cub::Sum());
  }
  template <int kItems>
  GPUSIM_INLINE void ExclusiveSum(T (&in)[kItems], T (&out)[kItems], T& aggregate) {
    ExclusiveScan(in, out, T(), cub::Sum(), aggregate);
  }

 private:
  /// The scan inside of the warp, and the sum of the warps before it. @return  whether there are any
  template <class Op>
  GPUSIM_INLINE bool scan(T in, T& until, T& before, Op op, T& aggregate) {
    const int warp = gpusim_details::thread() / 32,
              lanes = kThreads - warp * 32 < 32 ? kThreads - warp * 32 : 32;
    until = gpusim_details::scan<32>(gpusim_details::lanes_of_warp(kThreads), in, op);
    if (gpusim_details::lane() == lanes - 1) temp_.of_warps[warp] = until;
    __syncthreads();
    T sum = temp_.of_warps[0];
    before = sum;
    for (int w = 1; w < kWarps; ++w) {
      if (w == warp) before = sum;
      sum = op(sum, temp_.of_warps[w]);
    }
    aggregate = sum;
    return warp > 0;
  }
  template <class Prefix>
  GPUSIM_INLINE T prefix_of(Prefix& prefix, T aggregate) {
    __syncthreads();
    if (gpusim_details::thread() < 32) {
      const T value = prefix(aggregate);
      if (gpusim_details::thread() == 0) temp_.of_warps[0] = value;
    }
    __syncthreads();
    return temp_.of_warps[0];
  }

  TempStorage& temp_;
};

/// From blocked to striped order and back.
template <class T, int kX, int kItems, bool = false, int kY = 1, int kZ = 1>
class BlockExchange {
  static constexpr int kThreads = kX * kY * kZ;

 public:
  struct TempStorage {
    T items[kThreads * kItems];
  };
  GPUSIM_INLINE explicit BlockExchange(TempStorage& temp) : temp_(temp) {}
  GPUSIM_INLINE void StripedToBlocked(T (&in)[kItems], T (&out)[kItems]) {
    const int thread = gpusim_details::thread();
    for (int i = 0; i < kItems; ++i) temp_.items[i * kThreads + thread] = in[i];
    __syncthreads();
    for (int i = 0; i < kItems; ++i) out[i] = temp_.items[thread * kItems + i];
  }
  GPUSIM_INLINE void BlockedToStriped(T (&in)[kItems], T (&out)[kItems]) {
    const int thread = gpusim_details::thread();
    for (int i = 0; i < kItems; ++i) temp_.items[thread * kItems + i] = in[i];
    __syncthreads();
    for (int i = 0; i < kItems; ++i) out[i] = temp_.items[i * kThreads + thread];
  }
  GPUSIM_INLINE void StripedToBlocked(T (&items)[kItems]) { StripedToBlocked(items, items); }
  GPUSIM_INLINE void BlockedToStriped(T (&items)[kItems]) { BlockedToStriped(items, items); }
  template <class Rank>
  GPUSIM_INLINE void ScatterToBlocked(T (&items)[kItems], Rank (&ranks)[kItems]) {
    for (int i = 0; i < kItems; ++i) temp_.items[ranks[i]] = items[i];
    __syncthreads();
    for (int i = 0; i < kItems; ++i) items[i] = temp_.items[gpusim_details::thread() * kItems + i];
  }
  template <class Rank>
  GPUSIM_INLINE void ScatterToStriped(T (&items)[kItems], Rank (&ranks)[kItems]) {
    for (int i = 0; i < kItems; ++i) temp_.items[ranks[i]] = items[i];
    __syncthreads();
    for (int i = 0; i < kItems; ++i) items[i] = temp_.items[i * kThreads + gpusim_details::thread()];
  }

 private:
  TempStorage& temp_;
};

// Parts of a block's data, in registers.
template <class T, int kItems, class In>
GPUSIM_INLINE void LoadDirectBlocked(int thread, In in, T (&items)[kItems]) {
  for (int i = 0; i < kItems; ++i) items[i] = in[thread * kItems + i];
}
template <class T, int kItems, class In>
GPUSIM_INLINE void LoadDirectBlocked(int thread, In in, T (&items)[kItems], int valid) {
  for (int i = 0; i < kItems; ++i)
    if (thread * kItems + i < valid) items[i] = in[thread * kItems + i];
}
template <class T, int kItems, class Out>
GPUSIM_INLINE void StoreDirectBlocked(int thread, Out out, T (&items)[kItems]) {
  for (int i = 0; i < kItems; ++i) out[thread * kItems + i] = items[i];
}
template <int kThreads, class T, int kItems, class In>
GPUSIM_INLINE void LoadDirectStriped(int thread, In in, T (&items)[kItems]) {
  for (int i = 0; i < kItems; ++i) items[i] = in[i * kThreads + thread];
}
template <int kThreads, class T, int kItems, class In>
GPUSIM_INLINE void LoadDirectStriped(int thread, In in, T (&items)[kItems], int valid) {
  for (int i = 0; i < kItems; ++i)
    if (i * kThreads + thread < valid) items[i] = in[i * kThreads + thread];
}
template <int kThreads, class T, int kItems, class Out>
GPUSIM_INLINE void StoreDirectStriped(int thread, Out out, T (&items)[kItems]) {
  for (int i = 0; i < kItems; ++i) out[i * kThreads + thread] = items[i];
}
template <int kThreads, class T, int kItems, class Out>
GPUSIM_INLINE void StoreDirectStriped(int thread, Out out, T (&items)[kItems], int valid) {
  for (int i = 0; i < kItems; ++i)
    if (i * kThreads + thread < valid) out[i * kThreads + thread] = items[i];
}

template <class T, int kX, int kItems, BlockLoadAlgorithm kAlgorithm = BLOCK_LOAD_DIRECT, int kY = 1,
          int kZ = 1>
class BlockLoad {
  static constexpr int kThreads = kX * kY * kZ;
  static constexpr bool kTransposes = kAlgorithm >= BLOCK_LOAD_TRANSPOSE,
                        kStriped = kAlgorithm == BLOCK_LOAD_STRIPED || kTransposes;
  using Exchange = BlockExchange<T, kX, kItems, false, kY, kZ>;

 public:
  struct Nothing {
    int unused;
  };
  using TempStorage = std::conditional_t<kTransposes, typename Exchange::TempStorage, Nothing>;
  GPUSIM_INLINE BlockLoad() = default;
  GPUSIM_INLINE explicit BlockLoad(TempStorage& temp) : temp_(&temp) {}
  template <class In>
  GPUSIM_INLINE void Load(In in, T (&items)[kItems]) {
    Load(in, items, kThreads * kItems);
  }
  template <class In>
  GPUSIM_INLINE void Load(In in, T (&items)[kItems], int valid) {
    const int thread = gpusim_details::thread();
    for (int i = 0; i < kItems; ++i) {
      const int at = kStriped ? i * kThreads + thread : thread * kItems + i;
      if (at < valid) items[i] = in[at];
    }
    if constexpr (kTransposes) Exchange(*temp_).StripedToBlocked(items);
  }
  template <class In, class Default>
  GPUSIM_INLINE void Load(In in, T (&items)[kItems], int valid, Default otherwise) {
    for (int i = 0; i < kItems; ++i) items[i] = T(otherwise);
    Load(in, items, valid);
  }

 private:
  TempStorage* temp_ = nullptr;
};

template <class T, int kX, int kItems, BlockStoreAlgorithm kAlgorithm = BLOCK_STORE_DIRECT, int kY = 1,
          int kZ = 1>
class BlockStore {
  static constexpr int kThreads = kX * kY * kZ;
  static constexpr bool kTransposes = kAlgorithm >= BLOCK_STORE_TRANSPOSE,
                        kStriped = kAlgorithm == BLOCK_STORE_STRIPED || kTransposes;
  using Exchange = BlockExchange<T, kX, kItems, false, kY, kZ>;

 public:
  struct Nothing {
    int unused;
  };
  using TempStorage = std::conditional_t<kTransposes, typename Exchange::TempStorage, Nothing>;
  GPUSIM_INLINE BlockStore() = default;
  GPUSIM_INLINE explicit BlockStore(TempStorage& temp) : temp_(&temp) {}
  template <class Out>
  GPUSIM_INLINE void Store(Out out, T (&items)[kItems]) {
    Store(out, items, kThreads * kItems);
  }
  template <class Out>
  GPUSIM_INLINE void Store(Out out, T (&items)[kItems], int valid) {
    const int thread = gpusim_details::thread();
    T own[kItems];
    for (int i = 0; i < kItems; ++i) own[i] = items[i];
    if constexpr (kTransposes) Exchange(*temp_).BlockedToStriped(own);
    for (int i = 0; i < kItems; ++i) {
      const int at = kStriped ? i * kThreads + thread : thread * kItems + i;
      if (at < valid) out[at] = own[i];
    }
  }

 private:
  TempStorage* temp_ = nullptr;
};

/// Sorts the items of a block, bit by bit.
template <class Key, int kX, int kItems, class Value = NullType, int = 4, bool = true,
          BlockScanAlgorithm = BLOCK_SCAN_WARP_SCANS, int = 0, int kY = 1, int kZ = 1>
class BlockRadixSort {
  static constexpr int kThreads = kX * kY * kZ;
  static constexpr bool kHasValues = !std::is_same<Value, NullType>::value;
  using Scan = BlockScan<int, kX, BLOCK_SCAN_WARP_SCANS, kY, kZ>;
  using Stored = std::conditional_t<kHasValues, Value, char>;

 public:
  struct TempStorage {
    typename Scan::TempStorage scan;
    Key keys[kThreads * kItems];
    Stored values[kHasValues ? kThreads * kItems : 1];
  };
  GPUSIM_INLINE explicit BlockRadixSort(TempStorage& temp) : temp_(temp) {}
#define GPUSIM_SORT(name, descending, striped)                                                               \
  GPUSIM_INLINE void Sort##name(Key(&keys)[kItems], int begin_bit = 0, int end_bit = int(sizeof(Key)) * 8) { \
    char none[kItems];                                                                                       \
    sort(keys, none, begin_bit, end_bit, descending, striped);                                               \
  }                                                                                                          \
  template <class V>                                                                                         \
  GPUSIM_INLINE void Sort##name(Key(&keys)[kItems], V(&values)[kItems], int begin_bit = 0,                   \
                                int end_bit = int(sizeof(Key)) * 8) {                                        \
    sort(keys, values, begin_bit, end_bit, descending, striped);                                             \
  }
  GPUSIM_SORT(, false, false)
  GPUSIM_SORT(Descending, true, false)
  GPUSIM_SORT(BlockedToStriped, false, true)
  GPUSIM_SORT(DescendingBlockedToStriped, true, true)
#undef GPUSIM_SORT

 private:
  GPUSIM_INLINE static std::uint64_t ordered_bits(Key key) {
    std::uint64_t bits = 0;
    __builtin_memcpy(&bits, &key, sizeof(Key));
    const std::uint64_t sign = std::uint64_t(1) << (8 * sizeof(Key) - 1);
    if constexpr (std::is_integral<Key>::value) return std::is_signed<Key>::value ? bits ^ sign : bits;
    return (bits & sign) != 0 ? ~bits & (sign | (sign - 1)) : bits | sign;
  }
  template <class V>
  GPUSIM_INLINE void sort(Key (&keys)[kItems], V (&values)[kItems], int begin_bit, int end_bit,
                          bool descending, bool striped) {
    const int thread = gpusim_details::thread();
    for (int bit = begin_bit; bit < end_bit; ++bit) {
      int zeros = 0;
      bool is_one[kItems];
      for (int i = 0; i < kItems; ++i) {
        is_one[i] = ((ordered_bits(keys[i]) >> bit & 1) != 0) != descending;
        zeros += !is_one[i];
      }
      int before, all;
      Scan(temp_.scan).ExclusiveSum(zeros, before, all);
      for (int i = 0; i < kItems; ++i) {
        const int at = is_one[i] ? all + thread * kItems + i - before : before;
        before += !is_one[i];
        temp_.keys[at] = keys[i];
        if constexpr (kHasValues) temp_.values[at] = values[i];
      }
      __syncthreads();
      for (int i = 0; i < kItems; ++i) {
        const int at = striped && bit == end_bit - 1 ? i * kThreads + thread : thread * kItems + i;
        keys[i] = temp_.keys[at];
        if constexpr (kHasValues) values[i] = temp_.values[at];
      }
      __syncthreads();
    }
  }
  TempStorage& temp_;
};

template <class T, int kX, int kY = 1, int kZ = 1>
class BlockDiscontinuity {
  static constexpr int kThreads = kX * kY * kZ;

 public:
  struct TempStorage {
    T first[kThreads], last[kThreads];
  };
  GPUSIM_INLINE explicit BlockDiscontinuity(TempStorage& temp) : temp_(temp) {}
  template <int kItems, class Flag, class Op>
  GPUSIM_INLINE void FlagHeads(Flag (&flags)[kItems], T (&items)[kItems], Op op) {
    const int thread = gpusim_details::thread();
    temp_.last[thread] = items[kItems - 1];
    __syncthreads();
    for (int i = 0; i < kItems; ++i) {
      if (i > 0) {
        flags[i] = Flag(op(items[i - 1], items[i]));
      } else {
        flags[i] = thread == 0 ? Flag(1) : Flag(op(temp_.last[thread - 1], items[0]));
      }
    }
  }
  template <int kItems, class Flag, class Op>
  GPUSIM_INLINE void FlagTails(Flag (&flags)[kItems], T (&items)[kItems], Op op) {
    const int thread = gpusim_details::thread();
    temp_.first[thread] = items[0];
    __syncthreads();
    for (int i = 0; i < kItems; ++i) {
      if (i < kItems - 1) {
        flags[i] = Flag(op(items[i], items[i + 1]));
      } else {
        flags[i] = thread == kThreads - 1 ? Flag(1) : Flag(op(items[i], temp_.first[thread + 1]));
      }
    }
  }

 private:
  TempStorage& temp_;
};

template <class T, int kX, int kItems, int kBins, BlockHistogramAlgorithm = BLOCK_HISTO_ATOMIC, int kY = 1,
          int kZ = 1>
class BlockHistogram {
 public:
  struct TempStorage {
    int unused;
  };
  GPUSIM_INLINE explicit BlockHistogram(TempStorage&) {}
  template <class Count>
  GPUSIM_INLINE void InitHistogram(Count (&histogram)[kBins]) {
    for (int i = gpusim_details::thread(); i < kBins; i += kX * kY * kZ) histogram[i] = 0;
  }
  template <class Count>
  GPUSIM_INLINE void Composite(T (&items)[kItems], Count (&histogram)[kBins]) {
    for (int i = 0; i < kItems; ++i) atomicAdd(&histogram[items[i]], Count(1));
  }
  template <class Count>
  GPUSIM_INLINE void Histogram(T (&items)[kItems], Count (&histogram)[kBins]) {
    InitHistogram(histogram);
    __syncthreads();
    Composite(items, histogram);
  }
};

}  // namespace cub
