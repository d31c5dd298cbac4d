/// @file
/// CUB's algorithms for the whole device, answered by the host: see gpusim_host_algorithms.h. The first call,
/// without temporary storage, returns how much is needed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "gpusim_iterators.cuh"

namespace cub {

namespace gpusim_details {

using gpusim::host::Access;
using gpusim::host::Routine;
using gpusim::host::ValueOf;

inline constexpr std::size_t kTemporary = 256;

/// The first of the two calls: says how many bytes are needed.
inline bool asks(void* temporary, std::size_t& bytes) {
  if (temporary != nullptr) return false;
  bytes = kTemporary;
  return true;
}

template <class In, class Op, class T>
T reduced(In in, std::ptrdiff_t n, Op op, T init) {
  T sum = init;
  for (std::ptrdiff_t i = 0; i < n; ++i) sum = T(op(sum, in[i]));
  return sum;
}

/// An algorithm that reads n elements and writes `written`. @param f  does it
template <class In, class Out, class F>
cudaError_t run(const char* name, void* temporary, std::size_t& bytes, In in, std::ptrdiff_t n, Out out,
                std::ptrdiff_t written, cudaStream_t stream, F f) {
  if (asks(temporary, bytes)) return cudaSuccess;
  if (bytes < kTemporary || n < 0) return cudaErrorInvalidValue;
  const Routine routine(name, stream);
  routine.reads(in, n);
  routine.writes(out, written);
  if (routine.status() != cudaSuccess) return routine.status();
  const Access access;
  f();
  return cudaSuccess;
}

template <class T>
T lowest() {
  return std::numeric_limits<T>::has_infinity ? T(-std::numeric_limits<T>::infinity())
                                              : std::numeric_limits<T>::lowest();
}
template <class T>
T highest() {
  return std::numeric_limits<T>::has_infinity ? std::numeric_limits<T>::infinity()
                                              : std::numeric_limits<T>::max();
}

/// Bits of a key in the order of its values.
template <class T>
std::uint64_t ordered_bits(T key) {
  std::uint64_t bits = 0;
  __builtin_memcpy(&bits, &key, sizeof(T));
  const std::uint64_t sign = std::uint64_t(1) << (8 * sizeof(T) - 1);
  if constexpr (std::is_integral<T>::value) return std::is_signed<T>::value ? bits ^ sign : bits;
  return (bits & sign) != 0 ? ~bits & (sign | (sign - 1)) : bits | sign;
}
/// Whether one key comes before another, looking at some bits only.
template <class T>
bool is_before(T a, T b, int begin_bit, int end_bit, bool descending) {
  const int bits = int(sizeof(T)) * 8;
  const std::uint64_t mask =
      end_bit - begin_bit >= 64 ? ~std::uint64_t(0) : ((std::uint64_t(1) << (end_bit - begin_bit)) - 1);
  std::uint64_t x = ordered_bits(a), y = ordered_bits(b);
  if (begin_bit != 0 || end_bit != bits) {
    x = x >> begin_bit & mask;
    y = y >> begin_bit & mask;
  }
  return descending ? y < x : x < y;
}

template <class Keys, class Less>
std::vector<std::ptrdiff_t> sorted_order(Keys keys, std::ptrdiff_t begin, std::ptrdiff_t end, Less less) {
  std::vector<std::ptrdiff_t> order(std::size_t(end > begin ? end - begin : 0));
  std::iota(order.begin(), order.end(), begin);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::ptrdiff_t a, std::ptrdiff_t b) { return less(keys[a], keys[b]); });
  return order;
}
/// to[begin + i] = from[order[i]]; the two may be the same memory.
template <class From, class To>
void permute(From from, To to, std::ptrdiff_t begin, const std::vector<std::ptrdiff_t>& order) {
  std::vector<ValueOf<From>> values;
  values.reserve(order.size());
  for (const std::ptrdiff_t i : order) values.push_back(from[i]);
  for (std::size_t i = 0; i < values.size(); ++i) to[begin + std::ptrdiff_t(i)] = values[i];
}

struct NoValues {
  int& operator*() const {
    static int none;
    return none;
  }
  int& operator[](std::ptrdiff_t) const { return **this; }
};

template <class K, class KeysIn, class KeysOut, class ValuesIn, class ValuesOut>
cudaError_t radix_sort(const char* name, void* temporary, std::size_t& bytes, KeysIn keys_in,
                       KeysOut keys_out, ValuesIn values_in, ValuesOut values_out, std::ptrdiff_t n,
                       int begin_bit, int end_bit, bool descending, cudaStream_t stream) {
  if (asks(temporary, bytes)) return cudaSuccess;
  const Routine routine(name, stream);
  routine.reads(keys_in, n);
  routine.reads(values_in, n);
  routine.writes(keys_out, n);
  routine.writes(values_out, n);
  if (routine.status() != cudaSuccess) return routine.status();
  const Access access;
  const auto order =
      sorted_order(keys_in, 0, n, [&](K a, K b) { return is_before(a, b, begin_bit, end_bit, descending); });
  permute(values_in, values_out, 0, order);
  permute(keys_in, keys_out, 0, order);
  return cudaSuccess;
}

/// For each segment, f(begin, end). Counts the elements of all segments.
template <class In, class Out, class Begins, class Ends, class F>
cudaError_t by_segment(const char* name, void* temporary, std::size_t& bytes, In in, Out out,
                       std::ptrdiff_t written, std::ptrdiff_t segments, Begins begins, Ends ends,
                       cudaStream_t stream, F f) {
  if (asks(temporary, bytes)) return cudaSuccess;
  const Routine routine(name, stream);
  routine.reads(begins, segments);
  routine.reads(ends, segments);
  if (routine.status() != cudaSuccess) return routine.status();
  {
    std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>> ranges;
    {
      const Access access;
      for (std::ptrdiff_t s = 0; s < segments; ++s) ranges.emplace_back(begins[s], ends[s]);
    }
    for (const auto& [begin, end] : ranges) {
      if (end > begin) routine.reads(in + begin, end - begin);
    }
  }
  if (written >= 0) routine.writes(out, written);
  if (routine.status() != cudaSuccess) return routine.status();
  const Access access;
  for (std::ptrdiff_t s = 0; s < segments; ++s) f(s, std::ptrdiff_t(begins[s]), std::ptrdiff_t(ends[s]));
  return cudaSuccess;
}

}  // namespace gpusim_details

#define GPUSIM_RUN(written, ...) \
  gpusim_details::run(__func__, temp, bytes, in, std::ptrdiff_t(n), out, written, stream, [&] { __VA_ARGS__ })

struct DeviceReduce {
  template <class In, class Out, class N, class Op, class T>
  static cudaError_t Reduce(void* temp, std::size_t& bytes, In in, Out out, N n, Op op, T init,
                            cudaStream_t stream = nullptr) {
    return GPUSIM_RUN(1, *out = gpusim_details::reduced(in, n, op, init););
  }
  template <class In, class Out, class N>
  static cudaError_t Sum(void* temp, std::size_t& bytes, In in, Out out, N n, cudaStream_t stream = nullptr) {
    using T = gpusim_details::ValueOf<In>;
    return GPUSIM_RUN(1, *out = gpusim_details::reduced(in, n, cub::Sum(), T()););
  }
  template <class In, class Out, class N>
  static cudaError_t Min(void* temp, std::size_t& bytes, In in, Out out, N n, cudaStream_t stream = nullptr) {
    using T = gpusim_details::ValueOf<In>;
    return GPUSIM_RUN(1, *out = gpusim_details::reduced(in, n, cub::Min(), gpusim_details::highest<T>()););
  }
  template <class In, class Out, class N>
  static cudaError_t Max(void* temp, std::size_t& bytes, In in, Out out, N n, cudaStream_t stream = nullptr) {
    using T = gpusim_details::ValueOf<In>;
    return GPUSIM_RUN(1, *out = gpusim_details::reduced(in, n, cub::Max(), gpusim_details::lowest<T>()););
  }
  template <class In, class Out, class N>
  static cudaError_t ArgMin(void* temp, std::size_t& bytes, In in, Out out, N n,
                            cudaStream_t stream = nullptr) {
    return arg(temp, bytes, in, out, n, stream, [](const auto& a, const auto& b) { return a < b; });
  }
  template <class In, class Out, class N>
  static cudaError_t ArgMax(void* temp, std::size_t& bytes, In in, Out out, N n,
                            cudaStream_t stream = nullptr) {
    return arg(temp, bytes, in, out, n, stream, [](const auto& a, const auto& b) { return b < a; });
  }
  template <class In, class Out, class N, class Op, class Transform, class T>
  static cudaError_t TransformReduce(void* temp, std::size_t& bytes, In in, Out out, N n, Op op,
                                     Transform transform, T init, cudaStream_t stream = nullptr) {
    return GPUSIM_RUN(1, T sum = init;
                      for (std::ptrdiff_t i = 0; i < std::ptrdiff_t(n); ++i) sum = op(sum, transform(in[i]));
                      *out = sum;);
  }
  template <class Keys, class Unique, class Values, class Sums, class Count, class Op, class N>
  static cudaError_t ReduceByKey(void* temp, std::size_t& bytes, Keys in, Unique unique, Values values,
                                 Sums sums, Count out, Op op, N n, cudaStream_t stream = nullptr) {
    if (gpusim_details::asks(temp, bytes)) return cudaSuccess;
    const gpusim_details::Routine routine(__func__, stream);
    routine.reads(values, std::ptrdiff_t(n));
    std::ptrdiff_t groups = 0;
    const cudaError_t status = GPUSIM_RUN(
        1, for (std::ptrdiff_t i = 0; i < std::ptrdiff_t(n); ++i) groups += i == 0 || !(in[i] == in[i - 1]);
        *out = gpusim_details::ValueOf<Count>(groups););
    if (status != cudaSuccess) return status;
    routine.writes(unique, groups);
    routine.writes(sums, groups);
    if (routine.status() != cudaSuccess) return routine.status();
    const gpusim_details::Access access;
    std::ptrdiff_t group = -1;
    for (std::ptrdiff_t i = 0; i < std::ptrdiff_t(n); ++i) {
      if (i == 0 || !(in[i] == in[i - 1])) {
        ++group;
        unique[group] = in[i];
        sums[group] = values[i];
      } else {
        sums[group] = op(sums[group], values[i]);
      }
    }
    return cudaSuccess;
  }

 private:
  template <class In, class Out, class N, class Better>
  static cudaError_t arg(void* temp, std::size_t& bytes, In in, Out out, N n, cudaStream_t stream,
                         Better better) {
    return GPUSIM_RUN(1, std::ptrdiff_t best = 0; for (std::ptrdiff_t i = 1; i < std::ptrdiff_t(n);
                                                       ++i) if (better(in[i], in[best])) best = i;
                      using Pair = gpusim_details::ValueOf<Out>; Pair pair;
                      pair.key = decltype(pair.key)(best); pair.value = in[best]; *out = pair;);
  }
};

struct DeviceScan {
  template <class In, class Out, class N>
  static cudaError_t InclusiveSum(void* temp, std::size_t& bytes, In in, Out out, N n,
                                  cudaStream_t stream = nullptr) {
    return InclusiveScan(temp, bytes, in, out, cub::Sum(), n, stream);
  }
  template <class In, class N, class = std::enable_if_t<std::is_integral<N>::value>>
  static cudaError_t InclusiveSum(void* temp, std::size_t& bytes, In in, N n, cudaStream_t stream = nullptr) {
    return InclusiveScan(temp, bytes, in, in, cub::Sum(), n, stream);
  }
  template <class In, class Out, class N>
  static cudaError_t ExclusiveSum(void* temp, std::size_t& bytes, In in, Out out, N n,
                                  cudaStream_t stream = nullptr) {
    return ExclusiveScan(temp, bytes, in, out, cub::Sum(), gpusim_details::ValueOf<In>(), n, stream);
  }
  template <class In, class N, class = std::enable_if_t<std::is_integral<N>::value>>
  static cudaError_t ExclusiveSum(void* temp, std::size_t& bytes, In in, N n, cudaStream_t stream = nullptr) {
    return ExclusiveScan(temp, bytes, in, in, cub::Sum(), gpusim_details::ValueOf<In>(), n, stream);
  }
  template <class In, class Out, class Op, class N>
  static cudaError_t InclusiveScan(void* temp, std::size_t& bytes, In in, Out out, Op op, N n,
                                   cudaStream_t stream = nullptr) {
    using T = gpusim_details::ValueOf<In>;
    return GPUSIM_RUN(
        std::ptrdiff_t(n), if (n == 0) return; T sum = in[0]; out[0] = sum;
        for (std::ptrdiff_t i = 1; i < std::ptrdiff_t(n); ++i) {
          sum = T(op(sum, in[i]));
          out[i] = sum;
        });
  }
  template <class In, class Out, class Op, class T, class N>
  static cudaError_t InclusiveScanInit(void* temp, std::size_t& bytes, In in, Out out, Op op, T init, N n,
                                       cudaStream_t stream = nullptr) {
    return GPUSIM_RUN(
        std::ptrdiff_t(n), T sum = init; for (std::ptrdiff_t i = 0; i < std::ptrdiff_t(n); ++i) {
          sum = T(op(sum, in[i]));
          out[i] = sum;
        });
  }
  template <class In, class Out, class Op, class T, class N>
  static cudaError_t ExclusiveScan(void* temp, std::size_t& bytes, In in, Out out, Op op, T init, N n,
                                   cudaStream_t stream = nullptr) {
    return GPUSIM_RUN(
        std::ptrdiff_t(n), T sum = init; for (std::ptrdiff_t i = 0; i < std::ptrdiff_t(n); ++i) {
          const auto x = in[i];
          out[i] = sum;
          sum = T(op(sum, x));
        });
  }
  template <class Keys, class In, class Out, class N>
  static cudaError_t InclusiveSumByKey(void* temp, std::size_t& bytes, Keys keys, In in, Out out, N n,
                                       cudaStream_t stream = nullptr) {
    return by_key(temp, bytes, keys, in, out, n, stream, true);
  }
  template <class Keys, class In, class Out, class N>
  static cudaError_t ExclusiveSumByKey(void* temp, std::size_t& bytes, Keys keys, In in, Out out, N n,
                                       cudaStream_t stream = nullptr) {
    return by_key(temp, bytes, keys, in, out, n, stream, false);
  }

 private:
  template <class Keys, class In, class Out, class N>
  static cudaError_t by_key(void* temp, std::size_t& bytes, Keys keys, In in, Out out, N n,
                            cudaStream_t stream, bool inclusive) {
    using T = gpusim_details::ValueOf<In>;
    if (temp != nullptr) gpusim_details::Routine("DeviceScan by key", stream).reads(keys, std::ptrdiff_t(n));
    return GPUSIM_RUN(
        std::ptrdiff_t(n), T sum = T(); for (std::ptrdiff_t i = 0; i < std::ptrdiff_t(n); ++i) {
          if (i > 0 && !(keys[i] == keys[i - 1])) sum = T();
          const T x = in[i];
          const T after = T(sum + x);
          out[i] = inclusive ? after : sum;
          sum = after;
        });
  }
};

struct DeviceRadixSort {
#define GPUSIM_SORT(name, descending)                                                                        \
  template <class K, class N>                                                                                \
  static cudaError_t SortKeys##name(void* temp, std::size_t& bytes, const K* in, K* out, N n,                \
                                    int begin_bit = 0, int end_bit = int(sizeof(K)) * 8,                     \
                                    cudaStream_t stream = nullptr) {                                         \
    return gpusim_details::radix_sort<K>(__func__, temp, bytes, in, out, gpusim_details::NoValues(),         \
                                         gpusim_details::NoValues(), std::ptrdiff_t(n), begin_bit, end_bit,  \
                                         descending, stream);                                                \
  }                                                                                                          \
  template <class K, class N>                                                                                \
  static cudaError_t SortKeys##name(void* temp, std::size_t& bytes, DoubleBuffer<K>& keys, N n,              \
                                    int begin_bit = 0, int end_bit = int(sizeof(K)) * 8,                     \
                                    cudaStream_t stream = nullptr) {                                         \
    const cudaError_t status =                                                                               \
        SortKeys##name(temp, bytes, keys.Current(), keys.Alternate(), n, begin_bit, end_bit, stream);        \
    if (temp != nullptr) keys.selector ^= 1;                                                                 \
    return status;                                                                                           \
  }                                                                                                          \
  template <class K, class V, class N>                                                                       \
  static cudaError_t SortPairs##name(void* temp, std::size_t& bytes, const K* in, K* out,                    \
                                     const V* values_in, V* values_out, N n, int begin_bit = 0,              \
                                     int end_bit = int(sizeof(K)) * 8, cudaStream_t stream = nullptr) {      \
    return gpusim_details::radix_sort<K>(__func__, temp, bytes, in, out, values_in, values_out,              \
                                         std::ptrdiff_t(n), begin_bit, end_bit, descending, stream);         \
  }                                                                                                          \
  template <class K, class V, class N>                                                                       \
  static cudaError_t SortPairs##name(void* temp, std::size_t& bytes, DoubleBuffer<K>& keys,                  \
                                     DoubleBuffer<V>& values, N n, int begin_bit = 0,                        \
                                     int end_bit = int(sizeof(K)) * 8, cudaStream_t stream = nullptr) {      \
    const cudaError_t status =                                                                               \
        SortPairs##name(temp, bytes, keys.Current(), keys.Alternate(), values.Current(), values.Alternate(), \
                        n, begin_bit, end_bit, stream);                                                      \
    if (temp != nullptr) {                                                                                   \
      keys.selector ^= 1;                                                                                    \
      values.selector ^= 1;                                                                                  \
    }                                                                                                        \
    return status;                                                                                           \
  }
  GPUSIM_SORT(, false)
  GPUSIM_SORT(Descending, true)
#undef GPUSIM_SORT
};

struct DeviceMergeSort {
#define GPUSIM_SORT(name)                                                                                 \
  template <class Keys, class N, class Less>                                                              \
  static cudaError_t name##Keys(void* temp, std::size_t& bytes, Keys in, N n, Less less,                  \
                                cudaStream_t stream = nullptr) {                                          \
    Keys out = in;                                                                                        \
    return GPUSIM_RUN(std::ptrdiff_t(n),                                                                  \
                      gpusim_details::permute(in, in, 0, gpusim_details::sorted_order(in, 0, n, less));); \
  }                                                                                                       \
  template <class Keys, class Values, class N, class Less>                                                \
  static cudaError_t name##Pairs(void* temp, std::size_t& bytes, Keys in, Values out, N n, Less less,     \
                                 cudaStream_t stream = nullptr) {                                         \
    return GPUSIM_RUN(std::ptrdiff_t(n), const auto order = gpusim_details::sorted_order(in, 0, n, less); \
                      gpusim_details::permute(out, out, 0, order);                                        \
                      gpusim_details::permute(in, in, 0, order););                                        \
  }
  GPUSIM_SORT(Sort)
  GPUSIM_SORT(StableSort)
#undef GPUSIM_SORT
};

struct DeviceSelect {
  template <class In, class Flags, class Out, class Count, class N>
  static cudaError_t Flagged(void* temp, std::size_t& bytes, In in, Flags flags, Out out, Count count, N n,
                             cudaStream_t stream = nullptr) {
    if (temp != nullptr) gpusim_details::Routine(__func__, stream).reads(flags, std::ptrdiff_t(n));
    return select(temp, bytes, in, out, count, n, stream, [&](std::ptrdiff_t i) { return bool(flags[i]); });
  }
  template <class In, class Out, class Count, class N, class Predicate>
  static cudaError_t If(void* temp, std::size_t& bytes, In in, Out out, Count count, N n, Predicate is,
                        cudaStream_t stream = nullptr) {
    return select(temp, bytes, in, out, count, n, stream, [&](std::ptrdiff_t i) { return bool(is(in[i])); });
  }
  template <class In, class Out, class Count, class N>
  static cudaError_t Unique(void* temp, std::size_t& bytes, In in, Out out, Count count, N n,
                            cudaStream_t stream = nullptr) {
    return select(temp, bytes, in, out, count, n, stream,
                  [&](std::ptrdiff_t i) { return i == 0 || !(in[i] == in[i - 1]); });
  }
  template <class Keys, class Values, class KeysOut, class ValuesOut, class Count, class N>
  static cudaError_t UniqueByKey(void* temp, std::size_t& bytes, Keys keys, Values in, KeysOut keys_out,
                                 ValuesOut out, Count count, N n, cudaStream_t stream = nullptr) {
    const auto is_first = [&](std::ptrdiff_t i) { return i == 0 || !(keys[i] == keys[i - 1]); };
    const cudaError_t status = select(temp, bytes, in, out, count, n, stream, is_first);
    return status != cudaSuccess ? status : select(temp, bytes, keys, keys_out, count, n, stream, is_first);
  }

 private:
  template <class In, class Out, class Count, class N, class Takes>
  static cudaError_t select(void* temp, std::size_t& bytes, In in, Out to, Count out, N n,
                            cudaStream_t stream, Takes takes) {
    std::vector<gpusim_details::ValueOf<In>> taken;
    const cudaError_t status = GPUSIM_RUN(
        1, for (std::ptrdiff_t i = 0; i < std::ptrdiff_t(n); ++i) if (takes(i)) taken.push_back(in[i]);
        *out = gpusim_details::ValueOf<Count>(taken.size()););
    if (status != cudaSuccess || temp == nullptr) return status;
    const gpusim_details::Routine routine("DeviceSelect", stream);
    routine.writes(to, std::ptrdiff_t(taken.size()));
    if (routine.status() != cudaSuccess) return routine.status();
    const gpusim_details::Access access;
    for (std::size_t i = 0; i < taken.size(); ++i) to[std::ptrdiff_t(i)] = taken[i];
    return cudaSuccess;
  }
};

struct DevicePartition {
  template <class In, class Flags, class Out, class Count, class N>
  static cudaError_t Flagged(void* temp, std::size_t& bytes, In in, Flags flags, Out out, Count count, N n,
                             cudaStream_t stream = nullptr) {
    if (temp != nullptr) gpusim_details::Routine(__func__, stream).reads(flags, std::ptrdiff_t(n));
    return partition(temp, bytes, in, out, count, n, stream,
                     [&](std::ptrdiff_t i) { return bool(flags[i]); });
  }
  template <class In, class Out, class Count, class N, class Predicate>
  static cudaError_t If(void* temp, std::size_t& bytes, In in, Out out, Count count, N n, Predicate is,
                        cudaStream_t stream = nullptr) {
    return partition(temp, bytes, in, out, count, n, stream,
                     [&](std::ptrdiff_t i) { return bool(is(in[i])); });
  }

 private:
  /// Those that are not taken follow in reverse order.
  template <class In, class Out, class Count, class N, class Takes>
  static cudaError_t partition(void* temp, std::size_t& bytes, In in, Out out, Count count, N n,
                               cudaStream_t stream, Takes takes) {
    if (temp != nullptr) gpusim_details::Routine("DevicePartition", stream).writes(count, 1);
    return GPUSIM_RUN(
        std::ptrdiff_t(n), std::vector<gpusim_details::ValueOf<In>> taken;
        std::vector<gpusim_details::ValueOf<In>> left;
        for (std::ptrdiff_t i = 0; i < std::ptrdiff_t(n); ++i)(takes(i) ? taken : left).push_back(in[i]);
        *count = gpusim_details::ValueOf<Count>(taken.size());
        taken.insert(taken.end(), left.rbegin(), left.rend());
        for (std::size_t i = 0; i < taken.size(); ++i) out[std::ptrdiff_t(i)] = taken[i];);
  }
};

struct DeviceHistogram {
  template <class In, class Count, class Level, class N>
  static cudaError_t HistogramEven(void* temp, std::size_t& bytes, In in, Count* out, int levels, Level lower,
                                   Level upper, N n, cudaStream_t stream = nullptr) {
    const int bins = levels - 1;
    return GPUSIM_RUN(
        bins, std::fill(out, out + bins, Count(0)); for (std::ptrdiff_t i = 0; i < std::ptrdiff_t(n); ++i) {
          const auto x = in[i];
          if (!(x < lower) && x < upper)
            ++out[std::min(bins - 1, int(double(x - lower) * bins / double(upper - lower)))];
        });
  }
  template <class In, class Count, class Level, class N>
  static cudaError_t HistogramRange(void* temp, std::size_t& bytes, In in, Count* out, int levels,
                                    const Level* bounds, N n, cudaStream_t stream = nullptr) {
    if (temp != nullptr) gpusim_details::Routine(__func__, stream).reads(bounds, levels);
    return GPUSIM_RUN(
        levels - 1, std::fill(out, out + levels - 1, Count(0));
        for (std::ptrdiff_t i = 0; i < std::ptrdiff_t(n); ++i) {
          const auto bin = std::upper_bound(bounds, bounds + levels, in[i]) - bounds - 1;
          if (bin >= 0 && bin < levels - 1) ++out[bin];
        });
  }
};

struct DeviceRunLengthEncode {
  template <class In, class Unique, class Lengths, class Count, class N>
  static cudaError_t Encode(void* temp, std::size_t& bytes, In in, Unique unique, Lengths lengths,
                            Count count, N n, cudaStream_t stream = nullptr) {
    ConstantInputIterator<gpusim_details::ValueOf<Lengths>> ones(1);
    return DeviceReduce::ReduceByKey(temp, bytes, in, unique, ones, lengths, count, cub::Sum(), n, stream);
  }
  template <class In, class Offsets, class Lengths, class Count, class N>
  static cudaError_t NonTrivialRuns(void* temp, std::size_t& bytes, In in, Offsets offsets, Lengths lengths,
                                    Count out, N n, cudaStream_t stream = nullptr) {
    std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>> runs;
    const cudaError_t status = GPUSIM_RUN(
        1, for (std::ptrdiff_t i = 0, end; i < std::ptrdiff_t(n); i = end) {
          for (end = i + 1; end < std::ptrdiff_t(n) && in[end] == in[i];) ++end;
          if (end - i > 1) runs.emplace_back(i, end - i);
        }* out = gpusim_details::ValueOf<Count>(runs.size()););
    if (status != cudaSuccess || temp == nullptr) return status;
    const gpusim_details::Routine routine(__func__, stream);
    routine.writes(offsets, std::ptrdiff_t(runs.size()));
    routine.writes(lengths, std::ptrdiff_t(runs.size()));
    if (routine.status() != cudaSuccess) return routine.status();
    const gpusim_details::Access access;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      offsets[std::ptrdiff_t(i)] = gpusim_details::ValueOf<Offsets>(runs[i].first);
      lengths[std::ptrdiff_t(i)] = gpusim_details::ValueOf<Lengths>(runs[i].second);
    }
    return cudaSuccess;
  }
};

struct DeviceSegmentedReduce {
  template <class In, class Out, class Begins, class Ends, class Op, class T>
  static cudaError_t Reduce(void* temp, std::size_t& bytes, In in, Out out, int segments, Begins begins,
                            Ends ends, Op op, T init, cudaStream_t stream = nullptr) {
    return gpusim_details::by_segment(
        __func__, temp, bytes, in, out, segments, segments, begins, ends, stream,
        [&](std::ptrdiff_t s, std::ptrdiff_t begin, std::ptrdiff_t end) {
          out[s] = gpusim_details::reduced(in + begin, end > begin ? end - begin : 0, op, init);
        });
  }
  template <class In, class Out, class Begins, class Ends>
  static cudaError_t Sum(void* temp, std::size_t& bytes, In in, Out out, int segments, Begins begins,
                         Ends ends, cudaStream_t stream = nullptr) {
    return Reduce(temp, bytes, in, out, segments, begins, ends, cub::Sum(), gpusim_details::ValueOf<In>(),
                  stream);
  }
  template <class In, class Out, class Begins, class Ends>
  static cudaError_t Min(void* temp, std::size_t& bytes, In in, Out out, int segments, Begins begins,
                         Ends ends, cudaStream_t stream = nullptr) {
    return Reduce(temp, bytes, in, out, segments, begins, ends, cub::Min(),
                  gpusim_details::highest<gpusim_details::ValueOf<In>>(), stream);
  }
  template <class In, class Out, class Begins, class Ends>
  static cudaError_t Max(void* temp, std::size_t& bytes, In in, Out out, int segments, Begins begins,
                         Ends ends, cudaStream_t stream = nullptr) {
    return Reduce(temp, bytes, in, out, segments, begins, ends, cub::Max(),
                  gpusim_details::lowest<gpusim_details::ValueOf<In>>(), stream);
  }
};

struct DeviceSegmentedSort {
#define GPUSIM_SORT(name, descending)                                                                        \
  template <class K, class N, class Begins, class Ends>                                                      \
  static cudaError_t SortKeys##name(void* temp, std::size_t& bytes, const K* in, K* out, N n, int segments,  \
                                    Begins begins, Ends ends, cudaStream_t stream = nullptr) {               \
    return sort(temp, bytes, in, out, gpusim_details::NoValues(), gpusim_details::NoValues(), n, segments,   \
                begins, ends, descending, stream);                                                           \
  }                                                                                                          \
  template <class K, class V, class N, class Begins, class Ends>                                             \
  static cudaError_t SortPairs##name(void* temp, std::size_t& bytes, const K* in, K* out,                    \
                                     const V* values_in, V* values_out, N n, int segments, Begins begins,    \
                                     Ends ends, cudaStream_t stream = nullptr) {                             \
    return sort(temp, bytes, in, out, values_in, values_out, n, segments, begins, ends, descending, stream); \
  }
  GPUSIM_SORT(, false)
  GPUSIM_SORT(Descending, true)
#undef GPUSIM_SORT

 private:
  template <class K, class In, class Out, class N, class Begins, class Ends>
  static cudaError_t sort(void* temp, std::size_t& bytes, const K* in, K* out, In values_in, Out values_out,
                          N n, int segments, Begins begins, Ends ends, bool descending, cudaStream_t stream) {
    if (temp != nullptr) {
      const gpusim_details::Routine routine("DeviceSegmentedSort", stream);
      routine.reads(values_in, std::ptrdiff_t(n));
      routine.writes(values_out, std::ptrdiff_t(n));
    }
    return gpusim_details::by_segment(
        "DeviceSegmentedSort", temp, bytes, in, out, std::ptrdiff_t(n), segments, begins, ends, stream,
        [&](std::ptrdiff_t, std::ptrdiff_t begin, std::ptrdiff_t end) {
          const auto order = gpusim_details::sorted_order(in, begin, end, [&](K a, K b) {
            return gpusim_details::is_before(a, b, 0, int(sizeof(K)) * 8, descending);
          });
          gpusim_details::permute(values_in, values_out, begin, order);
          gpusim_details::permute(in, out, begin, order);
        });
  }
};
struct DeviceSegmentedRadixSort : DeviceSegmentedSort {};

struct DeviceFor {
  template <class N, class F>
  static cudaError_t Bulk(N n, F f, cudaStream_t = nullptr) {
    const gpusim_details::Access access;
    for (N i = 0; i < n; ++i) f(i);
    return cudaSuccess;
  }
  template <class It, class N, class F>
  static cudaError_t ForEachN(It in, N n, F f, cudaStream_t stream = nullptr) {
    const gpusim_details::Routine routine(__func__, stream);
    routine.reads(in, std::ptrdiff_t(n));
    if (routine.status() != cudaSuccess) return routine.status();
    const gpusim_details::Access access;
    for (N i = 0; i < n; ++i) f(in[i]);
    return cudaSuccess;
  }
  template <class It, class F>
  static cudaError_t ForEach(It first, It last, F f, cudaStream_t stream = nullptr) {
    return ForEachN(first, last - first, f, stream);
  }
};

#undef GPUSIM_RUN

}  // namespace cub
