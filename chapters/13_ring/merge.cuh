/// @file
/// What several GPUs add to attention: partial results become one.
///
/// The kernels that make the partial results are those of earlier chapters. Tensors are token-major here, [tokens, batch, heads,
/// head_dim]: a piece of the sequence is a piece of memory.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device/convert.cuh"
#include "device/divisor.cuh"
#include "device/tile.cuh"

namespace fa::ch13 {

/// Four neighbouring elements as floats, and back: 16 bytes of floats, 8 bytes of 16-bit numbers.
template <class T>
__device__ __forceinline__ float4 load4(const T* from) {
  if constexpr (std::is_same_v<T, float>) {
    return load_float4(from);
  } else {
    const uint2 bits = *reinterpret_cast<const uint2*>(from);
    const float2 low = unpack<T>(bits.x), high = unpack<T>(bits.y);
    return {low.x, low.y, high.x, high.y};
  }
}
template <class T>
__device__ __forceinline__ void store4(T* to, float4 x) {
  if constexpr (std::is_same_v<T, float>) {
    store_float4(to, x);
  } else {
    *reinterpret_cast<uint2*>(to) = {pack<T>(x.x, x.y), pack<T>(x.z, x.w)};
  }
}

/// a x + b y
__device__ __forceinline__ float4 weighted_sum(float a, float4 x, float b, float4 y) {
  return {a * x.x + b * y.x, a * x.y + b * y.y, a * x.z + b * y.z, a * x.w + b * y.w};
}

/// Two results of attention for the same queries, over two sets of keys.
template <class Earlier, class T, class To>
struct Merge {
  const Earlier* o_earlier;  ///< [tokens, heads, head_dim]: fp32, or as a kernel has stored it
  const T* o_part;           ///< [tokens, heads, head_dim]
  To* o;                     ///< [tokens, heads, head_dim]: their sum; may be o_earlier
  float* lse;                ///< [heads, lse_stride]: of the earlier result; becomes that of the sum
  const float* lse_part;     ///< [heads, lse_part_stride]
  std::int64_t lse_stride, lse_part_stride;
  int tokens, heads, head_dim;  ///< heads of all batches
  Divisor by_heads;
};

/// The weights of two partial results in their sum, and its LSE.
struct Weights {
  float earlier, part, lse;
};
__device__ __forceinline__ Weights merge_weights(float lse_earlier, float lse_part) {
  // EXERCISE 1: exp(lse) is the sum of exp(score) over the keys of a result. Find both weights, and the LSE of all keys.
  const float m = fmaxf(lse_earlier, lse_part);
  if (m == -INFINITY) return {1.0f, 0.0f, m};  // neither has seen a key: (-inf) - (-inf) would be NaN
  const float earlier = expf(lse_earlier - m), part = expf(lse_part - m), sum = earlier + part;
  return {earlier / sum, part / sum, m + logf(sum)};
  // END 1
}

/// O = sum over both sets of keys, as if one kernel had seen them together: chapter 02's merge, for rows of O.
///
///   grid    ceil(tokens * heads / (kWarps * kRows))      a warp has kRows rows, and all of their loads are under way together
///   block   32 * kWarps
///   HBM     tokens * heads rows: reads both O and both LSE, writes O and LSE
template <int kWarps, int kRows, class Earlier, class T, class To>
__global__ void __launch_bounds__(32 * kWarps) merge_partials(Merge<Earlier, T, To> a) {
  const int lane = threadIdx.x % 32;
  const int first = int(blockIdx.x * kWarps + threadIdx.x / 32) * kRows;
  const int rows = min(kRows, a.tokens * a.heads - first);
  if (rows <= 0) return;
  Weights mine = {};  // lane i has those of row i
  if (lane < rows) {
    const int token = (first + lane) / a.by_heads, head = (first + lane) % a.by_heads;
    float* const lse = a.lse + head * a.lse_stride + token;
    mine = merge_weights(*lse, a.lse_part[head * a.lse_part_stride + token]);
    *lse = mine.lse;
  }
  float earlier_weight[kRows], part_weight[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    earlier_weight[i] = __shfl_sync(0xffffffff, mine.earlier, i);
    part_weight[i] = __shfl_sync(0xffffffff, mine.part, i);
  }

  for (int col = 4 * lane; col < a.head_dim; col += 4 * 32) {
    float4 earlier[kRows], part[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const std::int64_t at = std::int64_t(first + i) * a.head_dim + col;
      if (i < rows) earlier[i] = load4(a.o_earlier + at), part[i] = load4(a.o_part + at);
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const std::int64_t at = std::int64_t(first + i) * a.head_dim + col;
      if (i < rows) store4(a.o + at, weighted_sum(earlier_weight[i], earlier[i], part_weight[i], part[i]));
    }
  }
}

/// sum = earlier + part: gradients need no weights, because P of every part was computed from the LSE of all keys.
///
///   grid    ceil(count / (256 * kCount))      block   256
///   HBM     reads both, writes the sum
///
/// @tparam kCount  float4s of a thread, all of whose loads are under way together    @param count  of float4s
template <int kCount, class Earlier, class T, class To>
__global__ void __launch_bounds__(256)
    add_gradients(const Earlier* earlier, const T* part, To* sum, std::int64_t count) {
  const std::int64_t first = std::int64_t(blockIdx.x) * 256 * kCount + threadIdx.x;
  float4 x[kCount], y[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const std::int64_t n = first + 256 * i;
    if (n < count) x[i] = load4(earlier + 4 * n), y[i] = load4(part + 4 * n);
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const std::int64_t n = first + 256 * i;
    if (n < count) store4(sum + 4 * n, weighted_sum(1, x[i], 1, y[i]));
  }
}

}  // namespace fa::ch13
