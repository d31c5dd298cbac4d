/// @file
/// The sums of dQ: where they lie, and how a part is added.
///
/// A query tile's sums are in fragment order, so that every addition of a warp touches 512 contiguous bytes: each warp of
/// the consumers has kDqCols / 8 fragments of 16 rows and 8 columns, one after the other, with four floats per lane.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "backward.cuh"
#include "device/convert.cuh"
#include "device/fragments.cuh"
#include "device/hopper.cuh"
#include "device/tile.cuh"
#include "products.cuh"

namespace fa::ch10 {

/// Where this lane's part of the first fragment lies in a tile of sums. @param part  the consumer's number
template <class Tile>
__device__ __forceinline__ int offset_of_dq(int part) {
  return (part * 4 + int(threadIdx.x) / 32 % 4) * 16 * Tile::kDqCols + threadIdx.x % 32 * 4;
}

/// Adds a consumer's part of dQ to a tile of sums in HBM, four floats at a time: red.global.add.v4.f32.
template <class Tile>
__device__ __forceinline__ void add_to_sums(float* sums, const DqPart<Tile>& rdQ, int part) {
  float* to = sums + offset_of_dq<Tile>(part);
#pragma unroll
  for (int n = 0; n < Tile::kDqCols / 8; ++n)
    atomicAdd(reinterpret_cast<float4*>(to + 128 * n),
              float4{rdQ[4 * n], rdQ[4 * n + 1], rdQ[4 * n + 2], rdQ[4 * n + 3]});
}

/// Stores a consumer's part of dQ in shared memory, in the order of the sums.
template <class Tile>
__device__ __forceinline__ void store_part(float* dq, const DqPart<Tile>& rdQ, int part) {
  float* to = dq + offset_of_dq<Tile>(part);
#pragma unroll
  for (int n = 0; n < Tile::kDqCols / 8; ++n)
    store_float4(to + 128 * n, {rdQ[4 * n], rdQ[4 * n + 1], rdQ[4 * n + 2], rdQ[4 * n + 3]});
}

/// Where row r, 0 to 7, of fragment n of warp w of the consumers begins in the tile of dQ. Row r + 8 has the same columns.
template <class Tile>
__device__ __forceinline__ Coord rows_of_dq(int w, int n, int r) {
  constexpr int kParts = Tile::Br / 64;  // of the rows; the other parts are columns
  // EXERCISE 5: Return the row and the column. The consumers divide the rows first, then the columns.
  const int part = w / 4;
  return {part % kParts * 64 + w % 4 * 16 + r, part / kParts * Tile::kDqCols + 8 * n};
  // END 5
}

/// dQ = scale * the sums, in 16 bits.
///
///   grid    batch * heads * padded_queries / Br; taken from the last to the first: what was added last is in the L2 cache
///   block   256
///   HBM     reads the sums, writes dQ
template <class Tile>
__global__ void __launch_bounds__(256) convert_dq(Backward<typename Tile::T> a) {
  constexpr int kFragments = Tile::kDqCols / 8, kWarps = 4 * Tile::kConsumers;
  const int tile = gridDim.x - 1 - blockIdx.x, tiles = a.padded_queries / Tile::Br;
  const int head = tile / tiles, first_query = tile % tiles * Tile::Br;
  const float* sums = a.dq_sum + size_t(tile) * Tile::kQueryTile;
  typename Tile::T* dq = a.dq + (size_t(head) * a.seq_q + first_query) * Tile::kHeadDim;
#pragma unroll
  for (int i = threadIdx.x; i < kWarps * 8 * kFragments; i += 256) {
    const int n = i % kFragments, r = i / kFragments % 8, w = i / kFragments / 8;
    const Coord at = rows_of_dq<Tile>(w, n, r);
    if (first_query + at.row >= a.seq_q) continue;
    uint4 upper, lower;
    std::uint32_t *pairs = &upper.x, *pairs_below = &lower.x;
#pragma unroll
    for (int lane = 0; lane < 4;
         ++lane) {  // the four lanes that have this row and the one 8 rows further down
      const float4 x = load_float4(sums + (w * kFragments + n) * 128 + 16 * r + 4 * lane);
      pairs[lane] = pack<typename Tile::T>(a.scale * x.x, a.scale * x.y);
      pairs_below[lane] = pack<typename Tile::T>(a.scale * x.z, a.scale * x.w);
    }
    *reinterpret_cast<uint4*>(dq + size_t(at.row) * Tile::kHeadDim + at.col) = upper;
    if (first_query + at.row + 8 < a.seq_q)
      *reinterpret_cast<uint4*>(dq + size_t(at.row + 8) * Tile::kHeadDim + at.col) = lower;
  }
}

}  // namespace fa::ch10
