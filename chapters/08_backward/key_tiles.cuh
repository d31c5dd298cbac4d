/// @file
/// The tensor-core kernels with one block per key tile: their sizes, each warp's part of the key tile, and
/// the query tiles over which the block loops.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "backward.cuh"
#include "device/reduce.cuh"
#include "device/swizzle.cuh"

namespace fa::ch08 {

/// The sizes that the three kernels share.
///
/// A warp has 32 keys, which halves its loads from shared memory: each fragment of Q or dO feeds two rows of
/// fragments. At head_dim 128 its part of dK and dV would take 256 registers per thread, more than there are.
/// So two warps share the same keys: each computes S and dP for half of the queries, owns half of the columns
/// of dK and dV, and needs the P and dS of the other (exchange.cuh). At head_dim 256 the two share 16 keys,
/// and a block has 64.
///
/// @tparam kStagesOfQueries  tiles of Q and dO in shared memory
/// @tparam kQueries, kKeys   Br and Bc
template <class Element, int kHeadDimension, int kStagesOfQueries, int kQueries = 64,
          int kKeys = kHeadDimension <= 128 ? 128 : 64>
struct MmaKeyTiles {
  using T = Element;
  using Rows = Swizzled<kHeadDimension>;
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr bool kDense = false;
  static constexpr int Br = kQueries;                           ///< queries of a step
  static constexpr int Bc = kKeys;                              ///< keys of a block
  static constexpr int kWarpRows = kHeadDim <= 128 ? 32 : 16;   ///< keys of a warp
  static constexpr int kWarpsPerKeys = kHeadDim <= 64 ? 1 : 2;  ///< warps that share their keys
  static constexpr int kWarps = Bc / kWarpRows * kWarpsPerKeys;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kBlocksPerSm = 8 / kWarps;
  static constexpr int kRowFragments = kWarpRows / 16;    ///< rows of fragments of a warp
  static constexpr int kScoreCols = Br / 2;               ///< queries whose S and dP a warp holds at a time
  static constexpr int kCols = kHeadDim / kWarpsPerKeys;  ///< columns of dK and dV of a warp
  static constexpr int kScoreSteps = Br / kScoreCols / kWarpsPerKeys;  ///< rounds of a warp per query tile
  static constexpr int kStages = kStagesOfQueries;
  static constexpr int kKeyTile = Bc * kHeadDim, kQueryTile = Br * kHeadDim;  ///< elements

  // P^T and dS^T in shared memory, [Bc, Br], if a warp reads those of another.
  using PRows = Swizzled<Br>;
  static constexpr int kPTile = (kWarpsPerKeys - 1) * Bc * Br;  ///< elements
  static constexpr int bytes(int ds_tile) {
    return int(sizeof(T)) * (2 * kKeyTile + kStages * 2 * kQueryTile + kPTile + ds_tile) +
           kStages * 2 * Br * int(sizeof(float));
  }
};

/// dK and dV: `mma_key_gradients`.
template <class Base>
struct WithDsForPartner : Base {
  static constexpr int kDsTile = Base::kPTile;  ///< for the other warp with the same keys
  static constexpr int kSharedBytes = Base::bytes(kDsTile);
};
template <class T, int d>
struct KeyGradientTiles : WithDsForPartner<MmaKeyTiles<T, d, 2>> {};

/// dK, dV and contributions to dQ: `mma_fused_gradients`, with one stage, and `mma_pipelined_gradients`, with
/// two.
/// @tparam SumsOfDq  how the contributions to dQ are added (dq_sums.cuh)
template <class Base, class SumsOfDq>
struct WithDsForDq : Base {
  using Sums = SumsOfDq;
  static constexpr int kDsTile = Base::Bc * Base::Br;  ///< of all warps, for dQ
  static constexpr int kSharedBytes = Base::bytes(kDsTile);
  // How the warps divide dQ, [Br, kHeadDim]: 32 columns each.
  static constexpr int kColWarps = Base::kHeadDim / 32;
  static constexpr int kDqRowFragments = Base::Br / 16 * kColWarps / Base::kWarps;
};
template <class T, int d, int kStagesOfQueries, class SumsOfDq>
struct FusedTiles : WithDsForDq<MmaKeyTiles<T, d, kStagesOfQueries>, SumsOfDq> {};

// For devices on which a block has 99 KiB of shared memory, or 163 KiB at head_dim 256: half of the queries,
// and 64 keys.
template <class T, int d>
struct SmallKeyGradientTiles : WithDsForPartner<MmaKeyTiles<T, d, 2, 32, 64>> {};
template <class T, int d, int kStagesOfQueries, class SumsOfDq>
struct SmallFusedTiles : WithDsForDq<MmaKeyTiles<T, d, kStagesOfQueries, 32, 64>, SumsOfDq> {};

/// The key tile of a block, and this warp's part of it.
template <class Tile>
struct KeyBlock {
  int batch, kv_head;  ///< the head counts within its batch
  int first_key;
  int warp_key;  ///< the warp's first key, in the tile
  int part;      ///< which of kWarpsPerKeys parts of a step's queries, and of the columns of dK and dV

  __device__ __forceinline__ explicit KeyBlock(const Backward<typename Tile::T>& a)
      : KeyBlock(a, blockIdx.x / key_tiles(a), blockIdx.x % key_tiles(a)) {}
  /// @param head  of K and V, counted through all batches
  __device__ __forceinline__ KeyBlock(const Backward<typename Tile::T>& a, int head, int key_tile) {
    batch = head / a.kv_heads, kv_head = head % a.kv_heads;
    first_key = key_tile * Tile::Bc;
    // Broadcast by lane 0: now the compiler knows that all lanes have the same value, and uses uniform
    // registers.
    const int warp = __shfl_sync(kAllLanes, threadIdx.x / 32, 0);
    warp_key = warp / Tile::kWarpsPerKeys * Tile::kWarpRows;
    part = warp % Tile::kWarpsPerKeys;
  }
  __device__ __forceinline__ static int key_tiles(const Backward<typename Tile::T>& a) {
    return (a.seq_k + Tile::Bc - 1) / Tile::Bc;
  }
  /// The first query of the warp's round n, counted in the query tile.
  __device__ __forceinline__ int query(int n) const {
    return (n * Tile::kWarpsPerKeys + part) * Tile::kScoreCols;
  }
};

/// Iterates over the query tiles of all heads that share a key tile, in each head from the first tile that
/// sees it.
template <class Tile>
struct QueryWalk {
  int batch;
  int head, tile;  ///< the current ones; the head counts within its batch
  int first_tile, end_tile, end_head;

  __device__ __forceinline__ QueryWalk(const Backward<typename Tile::T>& a, const KeyBlock<Tile>& block) {
    end_tile = (a.seq_q + Tile::Br - 1) / Tile::Br;
    first_tile = max(0, a.first_query(block.first_key)) / Tile::Br;
    const int group = a.heads / a.kv_heads;
    batch = block.batch;
    end_head = (block.kv_head + 1) * group;
    head = block.kv_head * group, tile = first_tile;
  }
  __device__ __forceinline__ bool done() const { return head >= end_head; }
  __device__ __forceinline__ int first_query() const { return tile * Tile::Br; }
  /// The sums of dQ of the current query tile.
  __device__ __forceinline__ float* sums_of_dq(const Backward<typename Tile::T>& a) const {
    return a.dq_sum + ((size_t(batch) * a.heads + head) * end_tile + tile) * (Tile::Br * a.head_dim);
  }
  __device__ __forceinline__ void next() {
    if (++tile == end_tile) {
      tile = first_tile;
      ++head;
    }
  }
};

}  // namespace fa::ch08
