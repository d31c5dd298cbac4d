/// @file
/// Parts of dQ, added up by all blocks that have one: in fp32, in the order of the fragments, and converted at the end.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "backward.cuh"
#include "device/convert.cuh"
#include "device/fragments.cuh"
#include "device/tensor_core.cuh"
#include "device/tile.cuh"

namespace fa::ch08 {

// --- how a fragment is added -------------------------------------------------------------------------------
//
// The 128 floats of a fragment lie together, so that an instruction of a warp goes to neighbouring bytes, not to 8 rows
// of dQ.

/// One float of each lane at a time: 128 neighbouring bytes.
struct ElementSums {
  /// Where element i of this lane's part of a fragment is.
  __device__ __forceinline__ static int offset(int fragment, int i) {
    return 128 * fragment + 32 * i + threadIdx.x % 32;
  }
  __device__ __forceinline__ static void add(float* sums, int fragment, const float (&x)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) atomicAdd(sums + offset(fragment, i), x[i]);
  }
  /// Loads elements 2 * half and the next.
  __device__ __forceinline__ static void load(float (&x)[4], const float* sums, int fragment, int half) {
    const float* from = sums + offset(fragment, 0);
    x[2 * half] = from[32 * 2 * half], x[2 * half + 1] = from[32 * (2 * half + 1)];
  }
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
/// Four floats of each lane in one instruction, red.global.add.v4.f32: 512 neighbouring bytes.
struct Float4Sums {
  __device__ __forceinline__ static int offset(int fragment) {
    return 128 * fragment + 4 * (threadIdx.x % 32);
  }
  __device__ __forceinline__ static void add(float* sums, int fragment, const float (&x)[4]) {
    atomicAdd(reinterpret_cast<float4*>(sums + offset(fragment)), float4{x[0], x[1], x[2], x[3]});
  }
  /// Both halves come with the first.
  __device__ __forceinline__ static void load(float (&x)[4], const float* sums, int fragment, int half) {
    if (half == 0) *reinterpret_cast<float4*>(x) = load_float4(sums + offset(fragment));
  }
};
#else
/// Devices before sm_90 have no such instruction.
struct Float4Sums : ElementSums {};
#endif

// --- a tile of dQ ------------------------------------------------------------------------------------------

/// The number of this warp's fragment (mi, ni) in the sums of a query tile.
template <class Tile>
__device__ __forceinline__ int fragment_of_dq(int mi, int ni) {
  return (threadIdx.x / 32 * Tile::kDqRowFragments + mi) * 4 + ni;
}
/// And which element of the tile of dQ is its element i of this lane.
template <class Tile>
__device__ __forceinline__ Coord element_of_dq(int mi, int ni, int i) {
  const int warp = threadIdx.x / 32;
  const Coord in_fragment = element_of_c(threadIdx.x % 32, i);
  return {warp / Tile::kColWarps * Tile::kDqRowFragments * 16 + 16 * mi + in_fragment.row,
          warp % Tile::kColWarps * 32 + 8 * ni + in_fragment.col};
}

/// dQ += dS K for the key tile, without the scale: this warp's rows and 32 columns, into the sums of the query tile.
/// Queries that do not exist have dS = 0.
/// @param sdS  [Bc, Br] dS^T
template <class Tile>
__device__ __forceinline__ void add_dq(float* sums, const typename Tile::T* sdS, const typename Tile::T* sK) {
  using T = typename Tile::T;
  using Rows = typename Tile::Rows;
  using PRows = typename Tile::PRows;
  const int lane = threadIdx.x % 32;
  const Coord part = element_of_dq<Tile>(0, 0, 0), corner = element_of_c(lane, 0);
  // dS^T is read as A transposed: the quarters of A to the right and then down are those of A^T down, then right.
  const Coord from_a = row_for_b(lane), from_b = row_for_a(lane);
  const int at_a = PRows::advance(PRows::offset(from_a.row, from_a.col), 0, part.row - corner.row);
  const int at_b = Rows::advance(Rows::offset(from_b.row, from_b.col), 0, part.col - corner.col);
  float rdQ[Tile::kDqRowFragments][4][4] = {};
#pragma unroll
  for (int step = 0; step < Tile::Bc / 16; ++step) {
    std::uint32_t a[Tile::kDqRowFragments][4];
#pragma unroll
    for (int mi = 0; mi < Tile::kDqRowFragments; ++mi) {
      ldmatrix_transposed(a[mi], sdS + PRows::advance(at_a, 16 * step, 16 * mi));
    }
#pragma unroll
    for (int ni = 0; ni < 2; ++ni) {
      std::uint32_t b[4];
      ldmatrix_transposed(b, sK + Rows::advance(at_b, 16 * step, 16 * ni));
#pragma unroll
      for (int mi = 0; mi < Tile::kDqRowFragments; ++mi) {
        mma<T>(rdQ[mi][2 * ni], a[mi], {b[0], b[1]});
        mma<T>(rdQ[mi][2 * ni + 1], a[mi], {b[2], b[3]});
      }
    }
  }
#pragma unroll
  for (int mi = 0; mi < Tile::kDqRowFragments; ++mi) {
#pragma unroll
    for (int ni = 0; ni < 4; ++ni) Tile::Sums::add(sums, fragment_of_dq<Tile>(mi, ni), rdQ[mi][ni]);
  }
}

/// dQ = scale * the sums, in 16 bits.
///
///   grid    batch * heads * ceil(seq_q / Br)
///   block   Tile::kThreads
///   HBM     reads the sums, writes dQ
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads) convert_dq(Backward<typename Tile::T> a) {
  const int tiles = (a.seq_q + Tile::Br - 1) / Tile::Br;
  const int head = blockIdx.x / tiles, first_query = blockIdx.x % tiles * Tile::Br;
  const float* sums = a.dq_sum + size_t(blockIdx.x) * Tile::kQueryTile;
  typename Tile::T* dq = a.dq + (size_t(head) * a.seq_q + first_query) * Tile::kHeadDim;
  for (int mi = 0; mi < Tile::kDqRowFragments; ++mi) {
    for (int ni = 0; ni < 4; ++ni) {
      alignas(16) float x[4];
      for (int half = 0; half < 2; ++half) {
        const Coord at = element_of_dq<Tile>(mi, ni, 2 * half);  // the second half is 8 rows further down
        if (first_query + at.row >= a.seq_q) break;
        Tile::Sums::load(x, sums, fragment_of_dq<Tile>(mi, ni), half);
        *reinterpret_cast<std::uint32_t*>(dq + at.row * Tile::kHeadDim + at.col) =
            pack<typename Tile::T>(a.scale * x[2 * half], a.scale * x[2 * half + 1]);
      }
    }
  }
}

}  // namespace fa::ch08
