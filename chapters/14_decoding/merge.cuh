/// @file
/// Merges O and LSE of parts of the keys: of the workers of a block, and of the blocks that share a head.
/// Chapter 02's merge, for rows of O.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "decoding.cuh"
#include "device/convert.cuh"
#include "device/math.cuh"
#include "device/ptx.cuh"
#include "device/tile.cuh"
#include "plan.cuh"
#include "tiles.cuh"

namespace fa::ch14 {

/// What blocks leave in HBM: O of some rows, relative to m, and the state of the rows. [slots][kRows]
struct Workspace {
  float* o;         ///< [slots][kRows][head_dim]
  RowState* state;  ///< [slots][kRows]
  std::uint32_t*
      counters;  ///< [blocks], zeros before and after each call; for the kernels that merge on their own
};

/// Four columns of a row: O relative to m, and the row's state.
struct Piece {
  float4 o = {0.0f, 0.0f, 0.0f, 0.0f};
  // EXERCISE 1: A part without keys. Which m and l change nothing, whatever it is merged with?
  RowState state = {-FLT_MAX, 0.0f};
  // END 1

  /// Adds pieces of other parts.
  template <int kCount>
  __device__ __forceinline__ void merge(const Piece (&others)[kCount]) {
    // EXERCISE 2: Find the bug: this merge is right only for some parts. For which? Mend it.
    float m = state.m;
#pragma unroll
    for (const Piece& other : others) m = fmaxf(m, other.state.m);
    scale(ptx::exp2_approx(state.m - m));
    state.m = m;
#pragma unroll
    for (const Piece& other : others) {
      const float weight = ptx::exp2_approx(other.state.m - m);
      state.l = fmaf(weight, other.state.l, state.l);
      o.x = fmaf(weight, other.o.x, o.x), o.y = fmaf(weight, other.o.y, o.y);
      o.z = fmaf(weight, other.o.z, o.z), o.w = fmaf(weight, other.o.w, o.w);
    }
    // END 2
  }
  __device__ __forceinline__ void scale(float by) {
    o.x *= by, o.y *= by, o.z *= by, o.w *= by;
    state.l *= by;
  }
};

/// Divides four columns by the row's sum, and stores them and LSE as a result.
/// @param row  of the call     @param scale  of V
template <int d, class T>
__device__ __forceinline__ void store_result(const Decoding<T>& a, std::size_t row, int col,
                                             const Piece& piece, float scale) {
  const float by = scale * inverse_or_zero(piece.state.l);
  const uint2 pairs = {pack<T>(piece.o.x * by, piece.o.y * by), pack<T>(piece.o.z * by, piece.o.w * by)};
  *reinterpret_cast<uint2*>(a.o + row * d + col) = pairs;
  if (col == 0) a.lse[row] = piece.state.l == 0.0f ? -INFINITY : piece.state.m * kLn2 + logf(piece.state.l);
}

template <class T>
__device__ __forceinline__ float value_scale(const Decoding<T>& a, const Unit& unit) {
  return a.v_scale == nullptr ? 1.0f : a.v_scale[unit.kv_head];
}

/// Merges what the workers of the block have left, and hands each four columns of a row to `store`. All
/// threads call it, after a barrier.
template <class Tile, class Store>
__device__ __forceinline__ void merge_workers(const SharedTiles<Tile>& s, int rows, const Store& store) {
  constexpr int kQuads = Tile::kHeadDim / 4;
  for (int n = threadIdx.x; n < rows * kQuads; n += Tile::kThreads) {
    const int row = n / kQuads, col = n % kQuads * 4;
    Piece of_workers[Tile::kWorkers], all;
#pragma unroll
    for (int worker = 0; worker < Tile::kWorkers; ++worker)
      of_workers[worker] = {load_float4(&s.o[worker][row][col]), s.state[worker][row]};
    all.merge(of_workers);
    store(row, col, all);
  }
}

/// Stores four columns of a row of a part.
template <class Tile>
__device__ __forceinline__ void store_part(const Workspace& to, int slot, int row, int col,
                                           const Piece& piece) {
  const std::size_t at = std::size_t(slot) * Tile::kRows + row;
  store_float4(to.o + at * Tile::kHeadDim + col, piece.o);
  if (col == 0) to.state[at] = piece.state;
}

/// Merges `count` parts of four columns of a row. The loads of kAtOnce parts are in flight together.
/// @param slot  slot(i) is the number of part i
template <int kRows, int d, class Slot>
__device__ __forceinline__ Piece merge_parts(const Workspace& from, int count, const Slot& slot, int row,
                                             int col) {
  constexpr int kAtOnce = 16;
  Piece all;
  for (int first = 0; first < count; first += kAtOnce) {
    Piece parts[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i < count) {
        const std::size_t at = std::size_t(slot(first + i)) * kRows + row;
        parts[i].o = __ldcg(reinterpret_cast<const float4*>(from.o + at * d + col));
        const float2 state = __ldcg(reinterpret_cast<const float2*>(from.state + at));
        parts[i].state = {state.x, state.y};
      }
    }
    all.merge(parts);
  }
  return all;
}

/// O = 0 and LSE = -inf for sequences without keys. The blocks take turns.
template <int kThreads, int d, class T>
__device__ __forceinline__ void store_empty_sequences(const Decoding<T>& a) {
  if (a.key_lengths == nullptr) return;
  const std::size_t rows = std::size_t(a.kv_heads) * a.rows;  // of a sequence
  for (int batch = blockIdx.x; batch < a.batch; batch += gridDim.x) {
    if (a.key_lengths[batch] != 0) continue;
    for (std::size_t n = threadIdx.x; n < rows * (d / 4); n += kThreads)
      store_result<d>(a, batch * rows + n / (d / 4), int(n % (d / 4)) * 4, Piece(), 1.0f);
  }
}

}  // namespace fa::ch14
