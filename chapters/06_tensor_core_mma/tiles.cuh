/// @file
/// How the kernels of this chapter divide the problem, and how tiles get from HBM to shared memory.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "device/attention.cuh"

namespace fa::ch06 {

/// How a kernel divides the problem.
///
/// @tparam Element         __half or __nv_bfloat16
/// @tparam Layout          of the tiles in shared memory: RowMajor, Padded or Swizzled
/// @tparam kQInRegisters_  each warp loads its fragments of Q once instead of for every key tile
/// @tparam Exponential     NaturalExp, FoldedExp2, or void for a kernel that does not use it
template <class Element, int kHeadDimension, template <int> class Layout, bool kQInRegisters_,
          class Exponential>
struct MmaTiles {
  using T = Element;
  using Rows = Layout<kHeadDimension>;
  using Exp = Exponential;
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr bool kQInRegisters = kQInRegisters_;
  static constexpr int kWarps = 8;  ///< Br grows with the number of warps
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int Br = 16 * kWarps;  ///< queries per block: 16 per warp, the rows of one mma
  static constexpr int Bc = 64;           ///< keys per tile: Bc grows with the registers of each lane
  static constexpr int kBlocksPerSm = kHeadDim <= 64 ? 2 : 1;  ///< that share an SM's registers
  static constexpr int kKTile = Bc * Rows::kStride;            ///< elements of shared memory
  static constexpr int kQTile = Br * Rows::kStride;
  /// Once Q is in registers, K and V overwrite it.
  static constexpr int kElements =
      kQInRegisters ? (kQTile > 2 * kKTile ? kQTile : 2 * kKTile) : kQTile + 2 * kKTile;
  static constexpr int kSharedBytes = int(sizeof(T)) * kElements;
};

/// A thread's share of a tile on its way from HBM to shared memory: 16 bytes of every kStep-th row.
template <class Tile, int kRows>
struct TileCopy {
  using T = typename Tile::T;
  static constexpr int kChunk = 8;  ///< elements in 16 bytes
  static constexpr int kStep = Tile::kThreads * kChunk / Tile::kHeadDim;
  static constexpr int kChunks = kRows / kStep;
  static_assert(kRows % kStep == 0 && kStep % 8 == 0);

  uint4 chunks[kChunks];

  /// Loads the first kRows rows of gTile. Only `rows` of them exist; the rest become zeros.
  __device__ __forceinline__ void load(const T* gTile, int rows) {
    const int row = threadIdx.x * kChunk / Tile::kHeadDim;
    const T* g = gTile + threadIdx.x * kChunk;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      chunks[i] = make_uint4(0, 0, 0, 0);
      if (row + i * kStep < rows) chunks[i] = *reinterpret_cast<const uint4*>(g + i * kStep * Tile::kHeadDim);
    }
  }

  __device__ __forceinline__ void store(T* sTile) const {
    const int row = threadIdx.x * kChunk / Tile::kHeadDim, col = threadIdx.x * kChunk % Tile::kHeadDim;
    const int at = Tile::Rows::offset(row, col);
#pragma unroll
    for (int i = 0; i < kChunks; ++i)
      *reinterpret_cast<uint4*>(sTile + Tile::Rows::advance(at, i * kStep, 0)) = chunks[i];
  }
};

/// What a block computes: one query tile of one head. Addresses are computed where they are needed, which is
/// cheaper than keeping them in registers.
template <class Tile>
struct Block {
  using T = typename Tile::T;
  const Attention<T>& a;

  // Both numbers count through all batches. gridDim.y neighbouring heads of Q share one head of K and V.
  __device__ __forceinline__ unsigned kv_head() const { return blockIdx.z; }
  __device__ __forceinline__ unsigned head() const { return blockIdx.z * gridDim.y + blockIdx.y; }
  __device__ __forceinline__ int first_query() const { return blockIdx.x * Tile::Br; }
  /// How many keys the last query of the tile sees. No other query of the tile sees more.
  __device__ __forceinline__ int seen_by_last() const {
    return a.visible_keys(min(first_query() + Tile::Br, a.seq_q) - 1);
  }
  __device__ __forceinline__ size_t query_row() const { return size_t(head()) * a.seq_q; }
  __device__ __forceinline__ size_t key_row() const { return size_t(kv_head()) * a.seq_k; }

  // The tensors of the head: Q and O [seq_q, d], K and V [seq_k, d], LSE [seq_q].
  __device__ __forceinline__ const T* gQ() const { return a.q + query_row() * Tile::kHeadDim; }
  __device__ __forceinline__ const T* gK() const { return a.k + key_row() * Tile::kHeadDim; }
  __device__ __forceinline__ const T* gV() const { return a.v + key_row() * Tile::kHeadDim; }
  __device__ __forceinline__ T* gO() const { return a.o + query_row() * Tile::kHeadDim; }
  __device__ __forceinline__ float* gLse() const { return a.lse + query_row(); }
};

}  // namespace fa::ch06
