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
///   grid    ceil(tokens * heads / kRows)      one warp per row
///   block   32 * kRows
///   HBM     tokens * heads rows: reads both O and both LSE, writes O and LSE
template <int kRows, class Earlier, class T, class To>
__global__ void __launch_bounds__(32 * kRows) merge_partials(Merge<Earlier, T, To> a) {
  const std::int64_t row = std::int64_t(blockIdx.x) * kRows + threadIdx.x / 32;
  if (row >= std::int64_t(a.tokens) * a.heads) return;
  const std::int64_t token = row / a.heads, head = row % a.heads;
  float* lse = a.lse + head * a.lse_stride + token;
  const Weights w = merge_weights(*lse, a.lse_part[head * a.lse_part_stride + token]);
  const int lane = threadIdx.x % 32;
  for (int col = 4 * lane; col < a.head_dim; col += 4 * 32) {
    const std::int64_t at = row * a.head_dim + col;
    const float4 earlier = load4(a.o_earlier + at), part = load4(a.o_part + at);
    store4(a.o + at, {w.earlier * earlier.x + w.part * part.x, w.earlier * earlier.y + w.part * part.y,
                      w.earlier * earlier.z + w.part * part.z, w.earlier * earlier.w + w.part * part.w});
  }
  __syncwarp();  // all lanes have read the old LSE
  if (lane == 0) *lse = w.lse;
}

/// sum = earlier + part: gradients need no weights, because P of every part was computed from the LSE of all keys.
///
///   grid    ceil(count / 256)      block   256
///   HBM     reads both, writes the sum
///
/// @param count  of float4s
template <class Earlier, class T, class To>
__global__ void __launch_bounds__(256)
    add_gradients(const Earlier* earlier, const T* part, To* sum, std::int64_t count) {
  const std::int64_t n = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (n >= count) return;
  const float4 x = load4(earlier + 4 * n), y = load4(part + 4 * n);
  store4(sum + 4 * n, {x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w});
}

}  // namespace fa::ch13
