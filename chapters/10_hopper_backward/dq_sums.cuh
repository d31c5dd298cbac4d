/// @file
/// The sums of dQ: where they lie, and how a part is added.
///
/// A query tile's sums are in fragment order, so that every addition of a warp touches 512 contiguous bytes:
/// each warp of the consumers has up to kDqCols / 8 fragments of 16 rows and 8 columns, one after another,
/// with four floats per lane. There are only those of columns that dQ has.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "backward.cuh"
#include "device/fragments.cuh"
#include "device/hopper.cuh"
#include "device/tile.cuh"
#include "products.cuh"

namespace fa::ch10 {

/// How many columns of a consumer's part exist.
/// @param part  the consumer's number    @param d  the columns of dQ
template <class Tile>
__device__ __forceinline__ int dq_cols(int part, int d) {
  if (Tile::Br == 128) return d;                      // a part is rows
  if constexpr (Tile::kHeadDim != Tile::kHeadDimV) {  // d may be less than the first part
    return part == 0 ? min(Tile::kFirstDqCols, d) : max(0, d - Tile::kFirstDqCols);
  }
  return part == 0 ? Tile::kFirstDqCols : d - Tile::kFirstDqCols;
}
/// Whether a part of `cols` columns has fragment n: a constant, unless it is narrower than kDqCols.
template <class Tile>
__device__ __forceinline__ bool has_fragment(int cols, int n) {
  constexpr int kColsOfParts = Tile::kDqCols * (Tile::Br == 128 ? 1 : Tile::kConsumers);
  constexpr bool kWhole = !Tile::kPads && Tile::kHeadDim == kColsOfParts;
  return kWhole || 8 * n < cols;
}

/// Where this lane's part of the first fragment lies in a tile of sums.
template <class Tile>
__device__ __forceinline__ int offset_of_dq(int part, int d) {
  const int warp = int(threadIdx.x) / 32 % 4;
  return (part * 4 * dq_cols<Tile>(0, d) + warp * dq_cols<Tile>(part, d)) * 16 + threadIdx.x % 32 * 4;
}

/// Adds a consumer's part of dQ to a tile of sums in HBM, four floats at a time: red.global.add.v4.f32.
template <class Tile>
__device__ __forceinline__ void add_to_sums(float* sums, const DqPart<Tile>& rdQ, int part,
                                            int d = Tile::kHeadDim) {
  float* to = sums + offset_of_dq<Tile>(part, d);
  const int cols = dq_cols<Tile>(part, d);
#pragma unroll
  for (int n = 0; n < Tile::kDqCols / 8; ++n) {
    if (Tile::kPads && !has_fragment<Tile>(cols, n)) break;
    atomicAdd(reinterpret_cast<float4*>(to + 128 * n),
              float4{rdQ[4 * n], rdQ[4 * n + 1], rdQ[4 * n + 2], rdQ[4 * n + 3]});
  }
}

/// Stores a consumer's part of dQ in shared memory, in the order of the sums.
template <class Tile>
__device__ __forceinline__ void store_part(float* dq, const DqPart<Tile>& rdQ, int part,
                                           int d = Tile::kHeadDim) {
  float* to = dq + offset_of_dq<Tile>(part, d);
  const int cols = dq_cols<Tile>(part, d);
#pragma unroll
  for (int n = 0; n < Tile::kDqCols / 8; ++n) {
    if (Tile::kPads && !has_fragment<Tile>(cols, n)) break;
    store_float4(to + 128 * n, {rdQ[4 * n], rdQ[4 * n + 1], rdQ[4 * n + 2], rdQ[4 * n + 3]});
  }
}

/// Where row r, 0 to 7, of fragment n of a warp of the consumers begins in the tile of dQ. Row r + 8 has the
/// same columns.
template <class Tile>
__device__ __forceinline__ Coord rows_of_dq(int warp, int n, int r) {
  constexpr int kParts = Tile::Br / 64;  // into which the rows are divided; what remains divides the columns
  // EXERCISE 5: Return the row and the column, for query tiles of 64 and of 128 rows. Which half of dQ is this warp's?
  const int part = warp / 4;
  return {part % kParts * 64 + warp % 4 * 16 + r, part / kParts * Tile::kDqCols + 8 * n};
  // END 5
}

}  // namespace fa::ch10
