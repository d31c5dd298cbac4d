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
#include "softmax.cuh"

namespace fa::ch07 {

inline constexpr int kChunk = 8;  ///< elements in 16 bytes

/// What one thread copies of a tile: 16 bytes of every kStep-th row, starting at this row and column.
template <class Tile>
struct ThreadChunk {
  static constexpr int kStep = Tile::kThreads * kChunk / Tile::kHeadDim;
  int row = threadIdx.x * kChunk / Tile::kHeadDim, col = threadIdx.x * kChunk % Tile::kHeadDim;
};

/// Starts the copy of kRows rows of a matrix, with all threads of the block. Only the first `rows` of them exist. The
/// others are not read, and the tile gets zeros in their place.
template <class Tile, int kRows>
__device__ __forceinline__ void load_tile(typename Tile::T* sTile, const typename Tile::T* gTile, int rows) {
  const ThreadChunk<Tile> mine;
  for (int step = 0; step < kRows; step += mine.kStep) {
    // EXERCISE 1: Start this thread's copy of row step + mine.row: 16 bytes from column mine.col, or zeros.
    const int row = step + mine.row;
    const bool inside = row < rows;
    const typename Tile::T* g = gTile + (inside ? size_t(row) * Tile::kHeadDim + mine.col : 0);
    cp_async_16_or_zero(sTile + Tile::Rows::offset(row, mine.col), g, inside);
    // END 1
  }
}

/// The same for the tile of K or V that begins at first_key. Keys that no query of the block sees count as missing.
template <class Tile>
__device__ __forceinline__ void load_kv(typename Tile::T* sTile, const typename Tile::T* gMatrix,
                                        int first_key, const Block<Tile>& block) {
  load_tile<Tile, Tile::Bc>(sTile, gMatrix + size_t(first_key) * Tile::kHeadDim,
                            block.seen_by_last - first_key);
}

/// Starts the copy of a tile of K or V whose rows all exist. @param g  the 16 bytes that this thread copies first
template <class Tile>
__device__ __forceinline__ void load_whole_tile(typename Tile::T* sTile, const typename Tile::T* g) {
  const ThreadChunk<Tile> mine;
#pragma unroll
  for (int step = 0; step < Tile::Bc; step += mine.kStep)
    cp_async_16(sTile + Tile::Rows::offset(step + mine.row, mine.col), g + step * Tile::kHeadDim);
}

/// Writes LSE and O / l. O takes a detour through the warp's rows of shared memory, so that each lane stores 16 bytes and
/// the warp stores whole rows.
template <class Tile>
__device__ __forceinline__ void store(const Accumulators<Tile>& acc, const Block<Tile>& block,
                                      typename Tile::T* sO) {
  cp_async_wait<0>();
  __syncthreads();  // Q has landed, even if the block had no keys, and O may overwrite it
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim;
  const int lane = threadIdx.x % 32, first_query = block.first_query + block.warp_row;
  const Attention<T>& a = block.a;
  const size_t first_row = size_t(block.head) * a.seq_q + first_query;
#pragma unroll
  for (int i = 0; i < Tile::kLaneRows; ++i) {
    const int row = 8 * i + lane / 4;
    const float l = warp_reduce<4>(acc.l[i], Sum());
    const float inv_l = inverse_or_zero(l);
    if (lane % 4 == 0 && first_query + row < a.seq_q)
      a.lse[first_row + row] = l == 0.0f ? -INFINITY : acc.m[i] * kLn2 + logf(l);
#pragma unroll
    for (int ni = 0; ni < d / 8; ++ni) {
      const float* pair = row_pair(acc.o, i, ni);
      std::uint32_t* s = reinterpret_cast<std::uint32_t*>(sO + Tile::Rows::offset(row, 8 * ni)) + lane % 4;
      *s = pack<T>(pair[0] * inv_l, pair[1] * inv_l);
    }
  }
  // EXERCISE 2: Store the warp's kWarpRows x d numbers from sO to a.o. Each lane stores 16 bytes at a time.
  __syncwarp();  // every lane has written its elements of the rows
  for (int at = lane * kChunk; at < Tile::kWarpRows * d; at += 32 * kChunk) {
    const int row = at / d, col = at % d;
    if (first_query + row >= a.seq_q) continue;
    *reinterpret_cast<uint4*>(a.o + (first_row + row) * d + col) =
        *reinterpret_cast<const uint4*>(sO + Tile::Rows::offset(row, col));
  }
  // END 2
}

}  // namespace fa::ch07
