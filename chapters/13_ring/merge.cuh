/// @file
/// What several GPUs add to attention: partial results become one.
///
/// The kernels that make the partial results are those of earlier chapters. Tensors are token-major here,
/// [tokens, batch, heads, head_dim]: a piece of the sequence is a piece of memory.
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

/// O and LSE of some queries, over some of their keys.
template <class T>
struct PartialResult {
  const T* o;        ///< [tokens, heads, head_dim]
  const float* lse;  ///< [heads, lse_stride]
  std::int64_t lse_stride;
};

/// Results of attention for the same queries, over different keys.
template <int kParts, class Earlier, class T, class To>
struct Merge {
  const Earlier* o_earlier;  ///< [tokens, heads, head_dim]: fp32, or as a kernel has stored it
  PartialResult<T> parts[kParts];
  To* o;       ///< [tokens, heads, head_dim]: the sum of all of them; may be o_earlier
  float* lse;  ///< [heads, lse_stride]: of the earlier result; becomes that of the sum
  std::int64_t lse_stride;
  int tokens, heads, head_dim;  ///< heads of all batches; head_dim: at most 128
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
  const float earlier = __expf(lse_earlier - m), part = __expf(lse_part - m), sum = earlier + part;
  return {__fdividef(earlier, sum), __fdividef(part, sum), m + __logf(sum)};
  // END 1
}

/// O = sum over all sets of keys, as if one kernel had seen them together: chapter 02's merge, for rows of O.
///
///   grid    ceil(tokens * heads / kWarps)      a warp has a row, and each of its lanes computes the weights
///   block   32 * kWarps
///   HBM     tokens * heads rows: reads O and LSE of all, writes those of their sum
template <int kWarps, int kParts, class Earlier, class T, class To>
__global__ void __launch_bounds__(32 * kWarps) merge_partials(Merge<kParts, Earlier, T, To> a) {
  const int row = int(blockIdx.x * kWarps + threadIdx.x / 32), lane = threadIdx.x % 32, col = 4 * lane;
  if (row >= a.tokens * a.heads) return;
  const int token = row / a.by_heads, head = row % a.by_heads;
  const std::int64_t element = std::int64_t(row) * a.head_dim + col;
  float4 sum = {}, part[kParts] = {};
  if (col < a.head_dim) {
    sum = load4(a.o_earlier + element);
#pragma unroll
    for (int p = 0; p < kParts; ++p) part[p] = load4(a.parts[p].o + element);
  }
  float* const lse = a.lse + head * a.lse_stride + token;
  float lse_sum = *lse;
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    const Weights weights = merge_weights(lse_sum, a.parts[p].lse[head * a.parts[p].lse_stride + token]);
    sum = weighted_sum(weights.earlier, sum, weights.part, part[p]);
    lse_sum = weights.lse;
  }
  if (col < a.head_dim) store4(a.o + element, sum);
  __syncwarp();  // all lanes have read LSE
  if (lane == 0) *lse = lse_sum;
}

/// Gradients from different calls, with equally many elements.
template <int kParts, class T>
struct Parts {
  const T* part[kParts];
};

/// sum = earlier + all parts: gradients need no weights, because P of every part was computed from the LSE of
/// all keys.
///
///   grid    ceil(count / (256 * kCount))      block   256
///   HBM     reads all, writes the sum
///
/// @tparam kCount  float4s of a thread, all of whose loads are under way together    @param count  of float4s
template <int kCount, int kParts, class Earlier, class T, class To>
__global__ void __launch_bounds__(256)
    add_gradients(const Earlier* earlier, Parts<kParts, T> parts, To* sum, std::int64_t count) {
  const std::int64_t first = std::int64_t(blockIdx.x) * 256 * kCount + threadIdx.x;
  float4 x[kCount], y[kParts][kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const std::int64_t n = first + 256 * i;
    if (n >= count) continue;
    x[i] = load4(earlier + 4 * n);
#pragma unroll
    for (int p = 0; p < kParts; ++p) y[p][i] = load4(parts.part[p] + 4 * n);
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const std::int64_t n = first + 256 * i;
    if (n >= count) continue;
#pragma unroll
    for (int p = 0; p < kParts; ++p) x[i] = weighted_sum(1, x[i], 1, y[p][i]);
    store4(sum + 4 * n, x[i]);
  }
}

}  // namespace fa::ch13
