/// @file
/// The sums of dQ to which the fused tensor-core kernels add: fp32, stored in fragment order, converted at
/// the end.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "backward.cuh"
#include "device/convert.cuh"
#include "device/fragments.cuh"
#include "device/quad.cuh"
#include "device/tensor_core.cuh"
#include "device/tile.cuh"

namespace fa::ch08 {

// --- how a fragment is added -------------------------------------------------------------------------------
//
// The 128 floats of a fragment are contiguous, so that one instruction of a warp touches adjacent bytes
// instead of 8 rows of dQ.

/// Adds one float per lane and instruction: 128 contiguous bytes.
struct ElementSums {
  /// The position of element i of this lane's part of a fragment.
  __device__ __forceinline__ static int offset(int fragment, int i) {
    return 128 * fragment + 32 * i + threadIdx.x % 32;
  }
  __device__ __forceinline__ static void add(float* sums, int fragment, const float (&x)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) atomicAdd(sums + offset(fragment, i), x[i]);
  }
  /// Loads elements 2 * half and 2 * half + 1.
  __device__ __forceinline__ static void load(float (&x)[4], const float* sums, int fragment, int half) {
    const float* from = sums + offset(fragment, 0);
    x[2 * half] = from[32 * 2 * half], x[2 * half + 1] = from[32 * (2 * half + 1)];
  }
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
/// Adds four floats per lane in one instruction, red.global.add.v4.f32: 512 contiguous bytes.
struct Float4Sums {
  __device__ __forceinline__ static int offset(int fragment) {
    return 128 * fragment + 4 * (threadIdx.x % 32);
  }
  __device__ __forceinline__ static void add(float* sums, int fragment, const float (&x)[4]) {
    atomicAdd(reinterpret_cast<float4*>(sums + offset(fragment)), float4{x[0], x[1], x[2], x[3]});
  }
  /// Loads both halves when half is 0.
  __device__ __forceinline__ static void load(float (&x)[4], const float* sums, int fragment, int half) {
    if (half == 0) *reinterpret_cast<float4*>(x) = load_float4(sums + offset(fragment));
  }
};
#else
/// Devices before sm_90 have no such instruction.
struct Float4Sums : ElementSums {};
#endif

// --- a tile of dQ ------------------------------------------------------------------------------------------

/// The number of this warp's fragment (mi, ni) in the sums of a query tile: column by column, so that those
/// which do not exist would be the last ones.
template <class Tile>
__device__ __forceinline__ int fragment_of_dq(int mi, int ni) {
  const int warp = threadIdx.x / 32;
  const int row = warp / Tile::kColWarps * Tile::kDqRowFragments + mi, col = warp % Tile::kColWarps * 4 + ni;
  return col * (Tile::Br / 16) + row;
}
/// Where element i of this lane's part of that fragment belongs in the tile of dQ.
template <class Tile>
__device__ __forceinline__ Coord element_of_dq(int mi, int ni, int i) {
  const int warp = threadIdx.x / 32;
  const Coord in_fragment = element_of_c(threadIdx.x % 32, i);
  return {warp / Tile::kColWarps * Tile::kDqRowFragments * 16 + 16 * mi + in_fragment.row,
          warp % Tile::kColWarps * 32 + 8 * ni + in_fragment.col};
}

/// dQ = scale * the sums, in 16 bits.
///
/// A lane of a fragment has two columns, 4 bytes, of each of two rows. Four lanes exchange what they have, so
/// that each stores 16 bytes of one row.
///
///   grid    batch * heads * ceil(seq_q / Br); taken from the last to the first: what was added last is in
///           the L2 cache
///   block   Tile::kThreads
///   HBM     reads the sums, writes dQ
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads) convert_dq(Backward<typename Tile::T> a) {
  const int lane = threadIdx.x % 32;
  const int tile = gridDim.x - 1 - blockIdx.x, tiles = (a.seq_q + Tile::Br - 1) / Tile::Br;
  const int head = tile / tiles, first_query = tile % tiles * Tile::Br;
  const float* sums = a.dq_sum + size_t(tile) * (Tile::Br * a.head_dim);
  const auto dq = a.rows_of_query_head(a.dq, a.dq_strides, head);
  const auto exists = [&](Coord pos) { return first_query + pos.row < a.seq_q && pos.col < a.head_dim; };
#pragma unroll
  for (int mi = 0; mi < Tile::kDqRowFragments; ++mi) {
#pragma unroll
    for (int ni = 0; ni < 4; ni += 2) {
      std::uint32_t x[4] = {};  // of two fragments the upper and the lower row
#pragma unroll
      for (int right = 0; right < 2; ++right) {
        alignas(16) float of_fragment[4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {  // the second half is 8 rows further down
          if (!exists(element_of_dq<Tile>(mi, ni + right, 2 * half))) continue;
          Tile::Sums::load(of_fragment, sums, fragment_of_dq<Tile>(mi, ni + right), half);
          x[2 * right + half] =
              pack<typename Tile::T>(a.scale * of_fragment[2 * half], a.scale * of_fragment[2 * half + 1]);
        }
      }
      transpose_in_quad(x);  // now this lane has 8 columns of one row
      Coord pos = element_of_dq<Tile>(mi, ni + lane % 4 / 2, lane % 2 * 2);
      pos.col -= lane % 4 * 2;
      if (exists(pos)) {
        auto* to = reinterpret_cast<float*>(dq[first_query + pos.row] + pos.col);
        store_float4(
            to, {__uint_as_float(x[0]), __uint_as_float(x[1]), __uint_as_float(x[2]), __uint_as_float(x[3])});
      }
    }
  }
}

}  // namespace fa::ch08
