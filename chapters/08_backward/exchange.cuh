/// @file
/// How two warps with the same keys exchange P and dS.
///
/// From head_dim 128 on each of the two computes P^T and dS^T for half of the queries of a step, and owns
/// half of the columns of dK and dV. dK and dV are sums over all queries, so each warp needs the P^T and dS^T
/// of the other. Up to head_dim 64 a warp has its keys to itself and exchanges nothing.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "key_tiles.cuh"
#include "products.cuh"
#include "rows.cuh"

namespace fa::ch08 {

/// The other warp with the same keys, and the buffers in shared memory through which the two exchange P^T and
/// dS^T.
template <class Tile>
struct Partner {
  using T = typename Tile::T;
  T *p, *ds;  ///< of the keys that the two share, [kWarpRows, Br]
  int part;   ///< of this warp

  __device__ __forceinline__ Partner(const KeyTileMemory<Tile>& s, const KeyBlock<Tile>& block)
      : p(s.p + block.warp_key * Tile::Br), ds(s.ds + block.warp_key * Tile::Br), part(block.part) {}

  /// Stores P^T, or dS^T, of this warp's queries for the partner.
  /// @param query  the first of them, in its tile
  __device__ __forceinline__ void pass_p(int query, const Operand<Tile>& rP) const {
    store_operand<Tile>(p, query, rP);
  }
  __device__ __forceinline__ void pass_ds(int query, const Operand<Tile>& rdS) const {
    store_operand<Tile>(ds, query, rdS);
  }
  __device__ __forceinline__ void wait() const { __syncthreads(); }

  /// dV += P^T dO and dK += dS^T Q, for the queries of the other warp and the columns of this one.
  __device__ __forceinline__ void add_its_queries(Fragments<Tile, Tile::kCols>& rdV,
                                                  Fragments<Tile, Tile::kCols>& rdK,
                                                  const QueryTile<Tile>& tile) const {
    static_assert(Tile::Br == 2 * Tile::kScoreCols);
    const int query = (1 - part) * Tile::kScoreCols;  // the other warp's first query
    const int offset = query * Tile::kHeadDim + part * Tile::kCols;
    Operand<Tile> other;  // its P^T, then its dS^T
    load_operand<Tile>(other, p, query);
    mma_nn<Tile>(rdV, other, tile.d_o + offset);
    load_operand<Tile>(other, ds, query);
    mma_nn<Tile>(rdK, other, tile.q + offset);
  }
};

/// For a warp that has its keys to itself: no function does anything.
template <class Tile>
struct NoPartner {
  __device__ __forceinline__ NoPartner(const KeyTileMemory<Tile>&, const KeyBlock<Tile>&) {}
  __device__ __forceinline__ void pass_p(int, const Operand<Tile>&) const {}
  __device__ __forceinline__ void pass_ds(int, const Operand<Tile>&) const {}
  __device__ __forceinline__ void wait() const {}
  __device__ __forceinline__ void add_its_queries(Fragments<Tile, Tile::kCols>&,
                                                  Fragments<Tile, Tile::kCols>&,
                                                  const QueryTile<Tile>&) const {}
};

template <class Tile>
using PartnerOf = std::conditional_t<Tile::kWarpsPerKeys == 1, NoPartner<Tile>, Partner<Tile>>;

}  // namespace fa::ch08
