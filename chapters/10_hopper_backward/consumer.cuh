/// @file
/// A consumer warpgroup: its descriptors, its registers, and how it stores dK and dV.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backward.cuh"
#include "copies.cuh"
#include "device/convert.cuh"
#include "device/hopper.cuh"
#include "device/math.cuh"
#include "device/reduce.cuh"
#include "dq_sums.cuh"
#include "gradients.cuh"
#include "products.cuh"
#include "shared_tiles.cuh"

namespace fa::ch10 {

/// Stores a warp's 16 rows of a gradient where an operand was, in 16 bits, and from there to HBM by TMA,
/// which drops rows past the end.
/// @param tile  of kRows rows
/// @param warp_row  the warp's first row in it
/// @param first_row  the tile's in the tensor
template <int kRows, int kHeadDim, class T>
__device__ __forceinline__ void store_rows(const TensorMap& map, T* tile, const float (&r)[kHeadDim / 2],
                                           float scale, int warp_row, int first_row, int head) {
  const int lane = threadIdx.x % 32;
  T* rows = tile + warp_row * 64;
#pragma unroll
  for (int n = 0; n < kHeadDim / 8; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half)  // of the 16 rows
      store_pair<kRows>(rows, 8 * half, n,
                        pack<T>(scale * r[4 * n + 2 * half], scale * r[4 * n + 2 * half + 1]));
  }
  ptx::fence_proxy_async();
  __syncwarp();
  if (lane == 0) {
    for (int panel = 0; panel < (kHeadDim + 63) / 64; ++panel)
      ptx::tma_store(&map, rows + panel * kRows * 64, 64 * panel, first_row + warp_row, head % map.heads,
                     head / map.heads);
    ptx::bulk_commit();
    ptx::bulk_wait_read<0>();
  }
}

/// What the threads of a consumer warpgroup hold. Its 64 keys are rows of everything except dQ.
template <class Tile>
struct Consumer {
  using T = typename Tile::T;

  const Backward<T>& a;
  KeyTileMemory<Tile>& s;
  const KeyTile keys;
  const int index;     ///< of this warpgroup among the consumers
  const int warp_key;  ///< the first of this warp's 16 keys in the tile
  const float factor;  ///< turns q.k into an exponent of 2: scale * log2 e

  // Descriptors. Q and dO have two: their rows are the columns of S^T and dP^T, and dK and dV sum over
  // them.
  const std::uint64_t k_rows, v_rows;  ///< this warpgroup's keys
  std::uint64_t first_q, first_do, first_q_summed, first_do_summed;
  const std::uint64_t first_ds, k_of_dq;  ///< this warpgroup's part of dQ = dS K

  Place<Tile::kStages> place{};  ///< in the rings of Q and dO

  Scores<Tile> rS, rdP;  ///< P replaces S, dS replaces dP
  Operand<Tile> rP, rdS;
  KeyGradient<Tile> rdK, rdV;
  DqPart<Tile> rdQ;

  __device__ __forceinline__ Consumer(const Backward<T>& backward, KeyTileMemory<Tile>& shared,
                                      const KeyTile& of_block, int number)
      : a(backward),
        s(shared),
        keys(of_block),
        index(number),
        warp_key(64 * number + __shfl_sync(kAllLanes, int(threadIdx.x) / 32 % 4, 0) * 16),
        factor(backward.scale * kLog2e),
        k_rows(descriptor(shared.k + 64 * 64 * number, 16)),
        v_rows(descriptor(shared.v + 64 * 64 * number, 16)),
        first_q(descriptor(shared.q[0], 16)),
        first_do(descriptor(shared.d_o[0], 16)),
        first_q_summed(descriptor(shared.q[0], Tile::Br * 128)),
        first_do_summed(descriptor(shared.d_o[0], Tile::Br * 128)),
        first_ds(descriptor(shared.ds[0] + query_panel() * Tile::Bc * 64, 16)),
        k_of_dq(descriptor(shared.k + first_dq_panel() * Tile::Bc * 64, Tile::Bc * 128)) {
#pragma unroll
    for (float& x : rdK) x = 0.0f;
#pragma unroll
    for (float& x : rdV) x = 0.0f;
    ptx::keep_in_place(rdK);  // here, not between two products
    ptx::keep_in_place(rdV);
  }

  // With 128 queries each consumer has 64 rows of dQ; with 64, half of the columns.
  __device__ __forceinline__ int query_panel() const { return Tile::Br == 128 ? index : 0; }
  __device__ __forceinline__ int first_dq_panel() const {
    return Tile::Br == 128 ? 0 : index * Tile::kFirstDqCols / 64;
  }

  __device__ __forceinline__ std::uint64_t in_stage(std::uint64_t first) const {
    return moved(first, place.stage * int(sizeof s.q[0]));
  }
  __device__ __forceinline__ std::uint64_t ds(int stage) const {
    return moved(first_ds, stage * int(sizeof s.ds[0]));
  }
  __device__ __forceinline__ float* sums(const QueryWalk<Tile>& walk) const {
    return a.dq_sum + walk.padded_row() * head_dim<Tile>(a);
  }

  /// At the top of a step: dK of the step before is complete, and Q of the step before is no longer needed.
  /// @param first  whether there is no step before
  __device__ __forceinline__ void release_q_before(bool first) {
    if (first || threadIdx.x % 32 != 0) return;
    ptx::mbarrier_arrive(&s.q_ring.empty[(place.stage + Tile::kStages - 1) % Tile::kStages]);
  }
  /// From a complete S^T on: computes P^T and dS^T, each as an operand, and adds to dV. On return dV is still
  /// in flight, alone.
  /// @param queries  of the step; hide_scores(*this, queries) sets to -inf what they do not see of rS
  template <class Queries>
  __device__ __forceinline__ void p_and_ds(const Queries& queries) {
    // EXERCISE 6: Issue dP and dV, and compute P and dS. During the arithmetic of both, a product is to be in flight.
    hide_scores(*this, queries);
    place.wait_full(s.do_ring);
    ptx::wgmma_fence();
    issue_scores<Tile>(rdP, v_rows, in_stage(first_do));
    ptx::wgmma_commit();
    probabilities<Tile>(rS, s.log2_sum[place.stage], factor);
    pack_operand<Tile>(rP, rS);
    ptx::wgmma_fence();
    issue_key_gradient<Tile>(rdV, rP, in_stage(first_do_summed));
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>(rdP);
    score_gradients<Tile>(rdP, rS, s.delta[place.stage]);
    pack_operand<Tile>(rdS, rdP);
    // END 6
  }
  /// Before the first step: issues its S^T.
  __device__ __forceinline__ void issue_first_scores() {
    place.wait_full(s.q_ring);
    ptx::wgmma_fence();
    issue_scores<Tile>(rS, k_rows, in_stage(first_q));
    ptx::wgmma_commit();
  }
  /// At the bottom of a step: issues S^T of the next one. After the last step it multiplies keys by keys, and
  /// nothing uses the result: a branch here would make the compiler wait for every product.
  /// @param more  whether there is a next step
  __device__ __forceinline__ void issue_next_scores(bool more) {
    place.advance();
    if (more) place.wait_full(s.q_ring);
    ptx::wgmma_fence();
    issue_scores<Tile>(rS, k_rows, more ? in_stage(first_q) : descriptor(s.k, 16));
    ptx::wgmma_commit();
  }
  /// Stores a tile of zeros for dS.
  __device__ __forceinline__ void store_zeros(Place<Tile::kDsStages>& stored) {
#pragma unroll
    for (auto& step : rdS) {
#pragma unroll
      for (std::uint32_t& pair : step) pair = 0;
    }
    store_ds<Tile>(s.ds[stored.stage], rdS, warp_key);
    ptx::fence_proxy_async();
    warp_arrives(s.ds_ring.full[stored.stage]);
    stored.advance();
  }

  /// Both gradients, when no warp of the block multiplies K or V any more.
  __device__ __forceinline__ void store_gradients(const TensorMaps& maps) {
    ptx::barrier_sync(1, 128 * Tile::kConsumers);
    constexpr int d = Tile::kHeadDim;
    store_rows<Tile::Bc, d>(maps.dk, s.k, rdK, a.scale, warp_key, keys.first_key, keys.kv_head);
    store_rows<Tile::Bc, d>(maps.dv, s.v, rdV, 1.0f, warp_key, keys.first_key, keys.kv_head);
  }
};

/// Adds dQ to a query tile's sums in HBM.
template <class Tile>
__device__ __forceinline__ void put_dq(const Consumer<Tile>& consumer, float* sums) {
  add_to_sums<Tile>(sums, consumer.rdQ, consumer.index, head_dim<Tile>(consumer.a));
}

/// Sets the scores of a query tile to -inf that a causal mask or the end of the keys hides.
template <class Tile>
__device__ __forceinline__ void hide_scores(Consumer<Tile>& consumer, const QueryWalk<Tile>& walk) {
  if (walk.masked(consumer.a, consumer.keys))
    mask<Tile>(consumer.rS, consumer.a, walk.first_query(), consumer.keys.first_key + consumer.warp_key);
}

}  // namespace fa::ch10
