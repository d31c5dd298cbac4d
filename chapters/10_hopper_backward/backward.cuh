/// @file
/// The arguments of the kernels of chapter 10.
#pragma once

#include <cuda_runtime.h>

#include "09_hopper/products.cuh"
#include "09_hopper/shared_tiles.cuh"
#include "device/attention.cuh"
#include "device/divisor.cuh"

namespace fa::ch10 {

// From chapter 09: rings of tiles, and how wgmma finds a tile.
using ch09::descriptor;
using ch09::init_ring;
using ch09::moved;
using ch09::Place;
using ch09::RingBarriers;
using ch09::warpgroup_index;

/// The arguments of the backward pass, passed to a kernel by value. O and LSE come from the forward pass.
///
/// log2_sum, delta and dq_sum are padded: each head has a whole number of query tiles.
template <class T>
struct Backward : Attention<T> {
  const T* d_o;        ///< [batch, heads, seq_q, head_dim]
  int padded_queries;  ///< of a head: a multiple of each kernel's Br
  float* log2_sum;     ///< [batch, heads, padded_queries]: LSE * log2 e; +inf where P must be 0
  float* delta;        ///< [batch, heads, padded_queries]: rowsum(dO * O), the papers' D
  float* dq_sum;  ///< [batch, heads, padded_queries, head_dim]: where dQ accumulates, tiles in fragment order
  T* dq;          ///< [batch, heads, seq_q, head_dim]
  Strides do_strides, dq_strides, dk_strides, dv_strides;

  /// The first query that sees a key; all later queries see it too.
  __host__ __device__ int first_query(int key) const {
    const int query = this->causal ? key - this->seq_k + this->seq_q : 0;
    return query > 0 ? query : 0;
  }
};

/// What kernels divide the numbers of blocks by that go through all rows of all heads.
struct BlocksOfHeads {
  Divisor blocks;  ///< of a head
  Divisor heads;   ///< of a batch
};

/// The tensors' columns: a constant, unless the tiles are wider.
template <class Tile>
__device__ __forceinline__ int head_dim(const Backward<typename Tile::T>& a) {
  return Tile::kPads ? a.head_dim : Tile::kHeadDim;
}

}  // namespace fa::ch10
