/// @file
/// A consumer warpgroup: its places in the rings, its registers, and how it stores O.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "copies.cuh"
#include "device/attention.cuh"
#include "device/convert.cuh"
#include "device/hopper.cuh"
#include "device/math.cuh"
#include "device/reduce.cuh"
#include "device/unresolved_rows.cuh"
#include "products.cuh"
#include "shared_tiles.cuh"
#include "softmax.cuh"
#include "work.cuh"

namespace fa::ch09 {

/// What the threads of a consumer warpgroup hold.
template <class Tile>
struct Consumer {
  using T = typename Tile::T;

  const Attention<T>& a;
  SharedTiles<Tile>& s;
  const int index;                                ///< of this warpgroup among the consumers
  const int warp_row;                             ///< the first of this warp's 16 rows in the query tile
  const float factor;                             ///< turns q.k into an exponent of 2: scale * log2 e
  const std::uint64_t first_q, first_k, first_v;  ///< descriptors of this warpgroup's rows and of stage 0

  Place<Tile::kQueryBuffers> q{};
  LookingPlace<Tile::kStages> k{}, v{};

  Scores<Tile> rS;
  Probabilities<Tile> rP;
  Output<Tile> rO;
  RowState state;
  float inv_l[2], lse[2];  ///< from finish_rows() on

  __device__ __forceinline__ Consumer(const Attention<T>& attention, SharedTiles<Tile>& shared, int number)
      : a(attention),
        s(shared),
        index(number),
        warp_row(64 * number + __shfl_sync(kAllLanes, int(threadIdx.x) / 32 % 4, 0) * 16),
        factor(attention.exp2_scale),
        first_q(descriptor(shared.q[0] + 64 * 64 * number, 16)),
        first_k(descriptor(shared.k[0], 16)),
        first_v(descriptor(shared.v[0], Tile::Bc * 128)) {}

  __device__ __forceinline__ std::uint64_t q_rows() const { return q_rows(q); }
  __device__ __forceinline__ std::uint64_t q_rows(const Place<Tile::kQueryBuffers>& place) const {
    return moved(first_q, place.stage * int(sizeof s.q[0]));
  }
  __device__ __forceinline__ std::uint64_t k_tile() const {
    return moved(first_k, k.stage * int(sizeof s.k[0]));
  }
  __device__ __forceinline__ std::uint64_t v_tile() const {
    return moved(first_v, v.stage * int(sizeof s.v[0]));
  }

  /// Before the first key of a query tile.
  __device__ __forceinline__ void reset() {
#pragma unroll
    for (float& o : rO) o = 0.0f;
    state = {};
  }

  /// Waits for a tile that is masked in all rows of this warpgroup, and releases it.
  __device__ __forceinline__ void skip_tile() {
    k.wait_full(s.k_ring);
    k.release(s.k_ring);
    v.wait_full(s.v_ring);
    v.release(s.v_ring);
  }

  /// What O is divided by, and LSE: after the last scores of a query tile. Without branches, because a
  /// product may be in flight.
  __device__ __forceinline__ void finish_rows() {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float l = warp_reduce<4>(state.l[row], Sum());
      inv_l[row] = l == 0.0f ? 0.0f : __fdividef(1.0f, l);
      lse[row] = l == 0.0f ? -INFINITY : (state.m[row] + __log2f(l)) * kLn2;
    }
  }

  /// After finish_rows(): divides O by its rows' sums, and stores it with LSE: in 16 bits to where this
  /// warp's queries were, then to HBM by TMA.
  /// @param pairs  which scores the rows have; see device/unresolved_rows.cuh
  template <class Pairs>
  __device__ __forceinline__ void store(const TensorMaps& maps, QueryTile tile, const Pairs& pairs) {
    const int lane = threadIdx.x % 32, first_query = tile.first_query + warp_row;
    ptx::barrier_sync(8 + index, 128);  // the wait before covers only the products of the calling warp
    if (first_query < 0) return;  // a warpgroup without queries: TMA refuses boxes that lie before the tensor
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const int query = first_query + 8 * row + lane / 4;
      if (lane % 4 == 0 && query < a.seq_q) a.lse[size_t(tile.head) * a.seq_q + query] = lse[row];
    }
    scale_rows(rO, inv_l);
    T* sO = s.q[q.stage] + warp_row * 64;
#pragma unroll
    for (int n = 0; n < Tile::kHeadDimV / 8; ++n) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        const int panel = n / 8 * Tile::Br * 64, chunk = n % 8 ^ lane / 4;  // swizzled by the row, modulo 8
        const std::uint32_t pair = pack<T>(rO[4 * n + 2 * row], rO[4 * n + 2 * row + 1]);
        *reinterpret_cast<std::uint32_t*>(sO + panel + (8 * row + lane / 4) * 64 + 8 * chunk + lane % 4 * 2) =
            pair;
      }
    }
    repair_rows(state.m, a, tile.head, first_query, pairs, 0, a.head_dim_v, [&](int row, int col, float o) {
      sO[col / 64 * Tile::Br * 64 + row * 64 + ((col / 8 % 8) ^ (row % 8)) * 8 + col % 8] = T(o);
    });
    // EXERCISE 4: Let the copy engine see the warp's stores. Let lane 0 copy the panels, and wait until they have been read.
    ptx::fence_proxy_async();
    __syncwarp();
    if (lane == 0) {
      for (int panel = 0; panel < Tile::kColsV / 64; ++panel)
        ptx::tma_store(&maps.o, sO + panel * Tile::Br * 64, 64 * panel, first_query, tile.head % maps.o.heads,
                       tile.head / maps.o.heads);
      ptx::bulk_commit();
      ptx::bulk_wait_read<0>();
    }
    // END 4
  }
  __device__ __forceinline__ void store(const TensorMaps& maps, QueryTile tile) {
    store(maps, tile, PlainPairs{a});
  }
};

}  // namespace fa::ch09
