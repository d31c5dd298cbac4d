/// @file
/// The sums of dQ: where they lie, and how a part is added.
///
/// A query tile's sums are in fragment order, so that every addition of a warp touches 512 contiguous bytes:
/// each warp of the consumers has up to kDqCols / 8 fragments of 16 rows and 8 columns, one after the other,
/// with four floats per lane. There are only those of columns that dQ has.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "backward.cuh"
#include "device/convert.cuh"
#include "device/fragments.cuh"
#include "device/hopper.cuh"
#include "device/quad.cuh"
#include "device/tile.cuh"
#include "products.cuh"

namespace fa::ch10 {

/// How many columns of a consumer's part exist.
/// @param part  the consumer's number    @param d  the columns of dQ
template <class Tile>
__device__ __forceinline__ int dq_cols(int part, int d) {
  if constexpr (!Tile::kPads) return Tile::kDqCols;
  if (Tile::Br == 128) return d;  // a part is rows
  return part == 0 ? Tile::kDqCols : d - Tile::kDqCols;
}
/// Whether a part of `cols` columns has fragment n: a constant, unless the tiles are wider than the tensors.
template <class Tile>
__device__ __forceinline__ bool has_fragment(int cols, int n) {
  return !Tile::kPads || 8 * n < cols;
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
    if (!has_fragment<Tile>(cols, n)) break;
    atomicAdd(reinterpret_cast<float4*>(to + 128 * n),
              float4{rdQ[4 * n], rdQ[4 * n + 1], rdQ[4 * n + 2], rdQ[4 * n + 3]});
  }
}

/// Stores a consumer's part of dQ in shared memory, in the order of the sums.
template <class Tile>
__device__ __forceinline__ void store_part(float* dq, const DqPart<Tile>& rdQ, int part) {
  float* to = dq + offset_of_dq<Tile>(part, Tile::kHeadDim);
#pragma unroll
  for (int n = 0; n < Tile::kDqCols / 8; ++n)
    store_float4(to + 128 * n, {rdQ[4 * n], rdQ[4 * n + 1], rdQ[4 * n + 2], rdQ[4 * n + 3]});
}

/// Where row r, 0 to 7, of fragment n of warp w of the consumers begins in the tile of dQ. Row r + 8 has the
/// same columns.
template <class Tile>
__device__ __forceinline__ Coord rows_of_dq(int w, int n, int r) {
  constexpr int kParts = Tile::Br / 64;  // into which the rows are divided; what remains divides the columns
  // EXERCISE 5: Return the row and the column. With 64 queries a consumer has half of the columns, with 128 half of the rows.
  const int part = w / 4;
  return {part % kParts * 64 + w % 4 * 16 + r, part / kParts * Tile::kDqCols + 8 * n};
  // END 5
}

/// dQ = scale * the sums, in 16 bits.
///
///   grid    batch * heads * padded_queries / Br; taken from the last to the first: what was added last is in
///           the L2 cache
///   block   one warp for each warp of the consumers
///   HBM     batch * heads * d * (4 * padded_queries + 2 * seq_q) bytes: reads the sums, writes dQ
template <class Tile>
__global__ void __launch_bounds__(128 * Tile::kConsumers)
    convert_dq(Backward<typename Tile::T> a, BlocksOfHeads of) {
  using T = typename Tile::T;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int tile = gridDim.x - 1 - blockIdx.x, head = tile / of.blocks;
  const int first_query = tile % of.blocks * Tile::Br;
  const HeadRows<T> rows = a.rows_of(a.dq, a.dq_strides, head / of.heads, head % of.heads);
  const int d = head_dim<Tile>(a), cols = dq_cols<Tile>(warp / 4, d);
  const float* sums = a.dq_sum + size_t(tile) * Tile::Br * d + offset_of_dq<Tile>(warp / 4, d);
#pragma unroll
  for (int n = 0; n < Tile::kDqCols / 8; n += 2) {
    if (!has_fragment<Tile>(cols, n)) break;
    const float4 left = load_float4(sums + 128 * n);
    const float4 right = has_fragment<Tile>(cols, n + 1) ? load_float4(sums + 128 * (n + 1)) : float4{};
    std::uint32_t x[4] = {
        pack<T>(a.scale * left.x, a.scale * left.y), pack<T>(a.scale * left.z, a.scale * left.w),
        pack<T>(a.scale * right.x, a.scale * right.y), pack<T>(a.scale * right.z, a.scale * right.w)};
    transpose_in_quad(x);  // now this lane has 8 columns of one row
    const int fragment = n + lane % 4 / 2;
    const Coord at = rows_of_dq<Tile>(warp, fragment, lane / 4);
    const int query = first_query + at.row + 8 * (lane % 2);
    if (query < a.seq_q && has_fragment<Tile>(cols, fragment)) {
      T* to = rows[query] + at.col;
      store_float4(reinterpret_cast<float*>(to), {__uint_as_float(x[0]), __uint_as_float(x[1]),
                                                  __uint_as_float(x[2]), __uint_as_float(x[3])});
    }
  }
}

}  // namespace fa::ch10
