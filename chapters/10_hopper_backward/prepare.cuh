/// @file
/// What happens before and after the products: D, LSE in the form that the kernels need, zeros for the sums
/// of dQ; then dQ from its sums.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "backward.cuh"
#include "device/begin_early.cuh"
#include "device/convert.cuh"
#include "device/fragments.cuh"
#include "device/hopper.cuh"
#include "device/math.cuh"
#include "device/quad.cuh"
#include "device/reduce.cuh"
#include "device/tile.cuh"
#include "dq_sums.cuh"

namespace fa::ch10 {

/// D = rowsum(dO * O) and LSE * log2 e for every padded row; zeros for the first zero_rows of dQ's sums.
///
/// Rows that see no key, and rows past the last query, get +inf instead of LSE: 2^(S - inf) = 0 for every
/// finite score S.
///
///   grid    batch * heads * ceil(padded_queries / kRowsOfBlock); the first rows come last: the kernel that
///           follows begins with them, and finds them in the L2 cache
///   block   256; a warp has kRowsOfWarp rows
///   HBM     batch * heads * ((4 * d + 4) * seq_q + 8 * padded_queries) bytes: reads O, dO and LSE, writes
///           D and log2_sum
///           + batch * heads * 4 * d * zero_rows: writes the zeros
///
/// @tparam kCols  64, 128 or 256: at least the columns of O    @tparam kPads  whether it is more, or dQ has
///   others
template <class T, int kCols>
struct Prepare {
  static constexpr int kLanes = kCols / 8;  ///< of a row: 16 bytes each
  static constexpr int kRowsAtOnce = 32 / kLanes, kRounds = 4;
  static constexpr int kRowsOfWarp = kRowsAtOnce * kRounds;
  static constexpr int kThreads = 256, kRowsOfBlock = kThreads / 32 * kRowsOfWarp;
};
template <class T, int kCols, bool kPads>
__global__ void __launch_bounds__(Prepare<T, kCols>::kThreads, 2)
    prepare_rows(Backward<T> a, BlocksOfHeads of) {
  using P = Prepare<T, kCols>;
  begin_early();
  const int d = kPads ? a.head_dim : kCols, d_v = kPads ? a.head_dim_v : kCols;
  const int lane = threadIdx.x % 32, col = lane % P::kLanes * 8;
  const bool has_col = !kPads || col < d_v;
  const int block = gridDim.x - 1 - blockIdx.x, head = block / of.blocks;
  const int first = (block % of.blocks * (P::kThreads / 32) + threadIdx.x / 32) * P::kRowsOfWarp;
  const size_t first_row = size_t(head) * a.seq_q, first_padded_row = size_t(head) * a.padded_queries;
  const int batch = head / of.heads, in_batch = head % of.heads;
  const HeadRows<T> o_rows = a.rows_of(a.o, a.o_strides, batch, in_batch);
  const HeadRows<const T> do_rows = a.rows_of(a.d_o, a.do_strides, batch, in_batch);
  const int own = first + lane;  // the row whose results this lane stores
  const float lse = lane < P::kRowsOfWarp && own < a.seq_q ? a.lse[first_row + own] : -INFINITY;
  alignas(16) float o[P::kRounds][4] = {}, d_o[P::kRounds][4] = {};  // the bits of 8 columns
#pragma unroll
  for (int n = 0; n < P::kRounds; ++n) {
    const int query = first + n * P::kRowsAtOnce + lane / P::kLanes;
    if (query < a.seq_q && has_col) {
      store_float4(o[n], load_float4(reinterpret_cast<const float*>(o_rows[query] + col)));
      store_float4(d_o[n], load_float4(reinterpret_cast<const float*>(do_rows[query] + col)));
    }
  }
  float* zeros = a.dq_sum + (first_padded_row + first) * d;
  const int end = min(P::kRowsOfWarp, a.zero_rows - first) * d;
  for (int offset = 4 * lane; offset < end; offset += 4 * 32)
    store_float4(zeros + offset, {0.0f, 0.0f, 0.0f, 0.0f});
  float delta = 0.0f;
#pragma unroll
  for (int n = 0; n < P::kRounds; ++n) {
    ptx::keep_in_place(o[n]);  // otherwise each round is converted before the next one is loaded
    ptx::keep_in_place(d_o[n]);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 of_o = unpack<T>(__float_as_uint(o[n][i])), of_do = unpack<T>(__float_as_uint(d_o[n][i]));
      sum += of_o.x * of_do.x + of_o.y * of_do.y;
    }
    sum = warp_reduce<P::kLanes>(sum, Sum());
    // Lane r takes the sum of the warp's row r.
    const float of_row = __shfl_sync(kAllLanes, sum, lane % P::kRowsAtOnce * P::kLanes);
    if (lane / P::kRowsAtOnce == n) delta = of_row;
  }
  if (lane < P::kRowsOfWarp && own < a.padded_queries) {
    a.log2_sum[first_padded_row + own] = resolved_lse(lse) * kLog2e;
    a.delta[first_padded_row + own] = delta;
  }
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
  begin_early();
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
    const Coord first = rows_of_dq<Tile>(warp, fragment, lane / 4);
    const int query = first_query + first.row + 8 * (lane % 2);
    if (query < a.seq_q && has_fragment<Tile>(cols, fragment)) {
      T* to = rows[query] + first.col;
      store_float4(reinterpret_cast<float*>(to), {__uint_as_float(x[0]), __uint_as_float(x[1]),
                                                  __uint_as_float(x[2]), __uint_as_float(x[3])});
    }
  }
}

}  // namespace fa::ch10
