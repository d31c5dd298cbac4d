/// @file
/// Copying tiles from HBM to shared memory, and O back to HBM.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "block.cuh"
#include "device/attention.cuh"
#include "device/convert.cuh"
#include "device/cp_async.cuh"
#include "device/math.cuh"
#include "device/reduce.cuh"
#include "device/unresolved_rows.cuh"
#include "softmax.cuh"

namespace fa::ch07 {

inline constexpr int kChunk = 8;  ///< elements in 16 bytes

/// What one thread copies of a tile: 16 bytes of every kStep-th row, starting at this row and column; in rows
/// of 96 or 192 elements, also kWidth and 2 * kWidth columns further right.
template <class Tile>
struct ThreadChunk {
  static constexpr int kWidth =
      Tile::kHeadDim & -Tile::kHeadDim;  ///< the largest power of two that divides it
  static constexpr int kStep = Tile::kThreads * kChunk / kWidth;
  int row = threadIdx.x * kChunk / kWidth, col = threadIdx.x * kChunk % kWidth;
};

/// Starts the copy of kRows rows of a matrix, with all threads of the block. Rows from `end` on do not exist:
/// they are not read, and the tile gets zeros in their place. Columns from `cols` on do not exist either;
/// they stay as they are.
template <class Tile, int kRows>
__device__ __forceinline__ void load_tile(typename Tile::T* sTile, HeadRows<const typename Tile::T> gRows,
                                          int first, int end, int cols) {
  const ThreadChunk<Tile> mine;
  static_assert(kRows % mine.kStep == 0);
  for (int right = 0; right < Tile::kHeadDim; right += mine.kWidth) {
    const int col = right + mine.col;
    if (col >= cols) break;
    for (int step = 0; step < kRows; step += mine.kStep) {
      const int row = step + mine.row;
      // EXERCISE 1: Start this thread's copy of row first + row of the matrix: 16 bytes from column col, or zeros.
      const bool inside = first + row < end;
      const typename Tile::T* g = inside ? gRows[first + row] + col : gRows.first;
      cp_async_16_or_zero(sTile + Tile::Rows::offset(row, col), g, inside);
      // END 1
    }
  }
}

/// The block's queries.
template <class Tile>
__device__ __forceinline__ void load_q(typename Tile::T* sQ, const Block<Tile>& block) {
  load_tile<Tile, Tile::Br>(sQ, block.gQ, block.first_query, block.a.seq_q, block.a.head_dim);
}

/// The tile of K or V that begins at first_key. Keys that no query of the block sees count as missing.
template <class Tile>
__device__ __forceinline__ void load_kv(typename Tile::T* sTile, HeadRows<const typename Tile::T> gRows,
                                        int first_key, const Block<Tile>& block) {
  load_tile<Tile, Tile::Bc>(sTile, gRows, first_key, block.seen_by_last, block.a.head_dim);
}

/// Tiles of K or V whose rows all exist, from the last to the first, as one thread copies them. Rows are
/// copied from the last to the first as well: each address is the one before it minus the same number.
template <class Tile>
struct TilesBackwards {
  using Mine = ThreadChunk<Tile>;
  const typename Tile::T* next;  ///< what this thread copies next
  std::int64_t step;             ///< elements in kStep rows. With kDense, this and `cols` are constants
  int cols;                      ///< that exist

  __device__ __forceinline__ TilesBackwards(HeadRows<const typename Tile::T> gRows, int last_tile,
                                            int head_dim)
      : next(gRows[(last_tile + 1) * Tile::Bc - Mine::kStep + Mine().row] + Mine().col),
        step(Mine::kStep * (Tile::kDense ? Tile::kHeadDim : gRows.stride)),
        cols(Tile::kDense ? Tile::kHeadDim : head_dim) {}

  /// Starts the copy of the next tile.
  __device__ __forceinline__ void load(typename Tile::T* sTile) {
    const Mine mine;
#pragma unroll
    for (int right = 0; right < Tile::kHeadDim; right += mine.kWidth) {
      const int col = right + mine.col;
      if (col >= cols) break;
      const typename Tile::T* g = next + right;
#pragma unroll
      for (int row = Tile::Bc - mine.kStep; row >= 0; row -= mine.kStep) {
        cp_async_16(sTile + Tile::Rows::offset(row + mine.row, col), g);
        g -= step;
      }
    }
    next -= Tile::Bc / Mine::kStep * step;
  }
};

/// Writes LSE and O / l. O takes a detour through the warp's rows of shared memory, so that each lane stores
/// 16 bytes and the warp stores whole rows.
/// @param pairs  which scores the rows have, for repair_rows(): PlainPairs, or MarkedRows
template <class Tile, class Pairs>
__device__ __forceinline__ void store(const Accumulators<Tile>& acc, const Block<Tile>& block,
                                      typename Tile::T* sO, const Pairs& pairs) {
  cp_async_wait<0>();
  __syncthreads();  // Q has landed, even if the block had no keys, and O may overwrite it
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim;
  const int lane = threadIdx.x % 32, first_query = block.first_query + block.warp_row;
  const Attention<T>& a = block.a;
  const HeadRows<T> gO = a.o_rows(block.head);
  float* gLse = a.lse + size_t(block.head) * a.seq_q + first_query;
#pragma unroll
  for (int i = 0; i < Tile::kLaneRows; ++i) {
    const int row = 8 * i + lane / 4;
    const float l = warp_reduce<4>(acc.l[i], Sum());
    const float inv_l = inverse_or_zero(l);
    if (lane % 4 == 0 && first_query + row < a.seq_q)
      gLse[row] = pairs.lse(l == 0.0f ? -INFINITY : acc.m[i] * kLn2 + logf(l), acc.m[i]);
#pragma unroll
    for (int ni = 0; ni < d / 8; ++ni) {
      const float* pair = row_pair(acc.o, i, ni);
      std::uint32_t* s = reinterpret_cast<std::uint32_t*>(sO + Tile::Rows::offset(row, 8 * ni)) + lane % 4;
      *s = pack<T>(pair[0] * inv_l, pair[1] * inv_l);
    }
  }
  repair_rows(acc.m, a, block.head, first_query, pairs, 0, a.head_dim,
              [&](int row, int col, float o) { sO[Tile::Rows::offset(row, col)] = T(o); });
  // EXERCISE 2: Store the warp's kWarpRows x d numbers from sO to gO, as far as they exist. Each lane stores 16 bytes at a time.
  __syncwarp();  // every lane has written its elements of the rows
  for (int element = lane * kChunk; element < Tile::kWarpRows * d; element += 32 * kChunk) {
    const int row = element / d, col = element % d;
    if (first_query + row >= a.seq_q || col >= a.head_dim) continue;
    *reinterpret_cast<uint4*>(gO[first_query + row] + col) =
        *reinterpret_cast<const uint4*>(sO + Tile::Rows::offset(row, col));
  }
  // END 2
}

}  // namespace fa::ch07
