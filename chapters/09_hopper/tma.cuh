/// @file
/// The products of chapter 07 on tiles that TMA has copied.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "07_multi_stage/softmax.cuh"
#include "copies.cuh"
#include "device/attention.cuh"
#include "device/convert.cuh"
#include "device/hopper.cuh"
#include "device/math.cuh"
#include "device/reduce.cuh"
#include "device/unresolved_rows.cuh"
#include "shared_tiles.cuh"
#include "work.cuh"

namespace fa::ch09 {

/// Where TMA puts element (row, col) of a tile of kRows rows: panels of 64 columns, whose rows of 128 bytes
/// are swizzled as in chapter 06.
template <int kRows>
struct Panels {
  __host__ __device__ static constexpr int offset(int row, int col) {
    return col / 64 * kRows * 64 + row * 64 + (col % 64 ^ row % 8 * 8);
  }
  __host__ __device__ static constexpr int advance(int offset, int rows, int cols) {
    return (offset ^ cols % 64) + cols / 64 * kRows * 64 + rows * 64;
  }
};

/// The tiles of `two_rows_of_mma` in chapter 07, with a lazy rescale. Its softmax knows them under these
/// names.
template <class Element, int kHeadDimension>
struct TmaTiles {
  using T = Element;
  using Rows = Panels<64>;
  static constexpr int kHeadDim = kHeadDimension, kHeadDimV = kHeadDim;
  static constexpr int kWarps = 4, kWarpRows = 32, kThreads = 32 * kWarps, kBlocksPerSm = 2;
  static constexpr int kConsumers = 1;  ///< kWarps warps
  static constexpr int kPanels = kHeadDim / 64, kCols = kHeadDim, kColsV = kHeadDim;
  static constexpr int kRowTiles = kWarpRows / 16, kLaneRows = 2 * kRowTiles;
  static constexpr int Br = kWarps * kWarpRows, Bc = 64, kSlice = Bc, kStages = 2, kQueryBuffers = 1;
  static constexpr bool kQInRegisters = kHeadDim <= 64;
  static constexpr float kRescaleThreshold = 8.0f;
};

/// Divides O by its rows' sums and stores it with LSE, as Consumer::store() does from other registers.
template <class Tile>
__device__ __forceinline__ void store(ch07::Accumulators<Tile>& acc, const Attention<typename Tile::T>& a,
                                      const TensorMaps& maps, typename Tile::T* sO, int head,
                                      int first_query) {
  using T = typename Tile::T;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int row = 0; row < Tile::kLaneRows; ++row) {
    const float l = warp_reduce<4>(acc.l[row], Sum()), inv_l = inverse_or_zero(l);
    const int query = first_query + 8 * row + lane / 4;
    if (lane % 4 == 0 && query < a.seq_q)
      a.lse[size_t(head) * a.seq_q + query] = l == 0.0f ? -INFINITY : acc.m[row] * kLn2 + logf(l);
#pragma unroll
    for (int ni = 0; ni < Tile::kHeadDim / 8; ++ni) {
      const float* pair = ch07::row_pair(acc.o, row, ni);
      *reinterpret_cast<std::uint32_t*>(sO + Tile::Rows::offset(8 * row + lane / 4, 8 * ni + lane % 4 * 2)) =
          pack<T>(pair[0] * inv_l, pair[1] * inv_l);
    }
  }
  repair_rows(acc.m, a, head, first_query, PlainPairs{a}, 0, a.head_dim,
              [&](int row, int col, float o) { sO[Tile::Rows::offset(row, col)] = T(o); });
  ptx::fence_proxy_async();
  __syncwarp();
  if (lane == 0) {
    for (int panel = 0; panel < Tile::kPanels; ++panel) {
      for (int row = 0; row < Tile::kWarpRows; row += 16)
        ptx::tma_store(&maps.o, sO + panel * 64 * 64 + row * 64, 64 * panel, first_query + row,
                       head % maps.o.heads, head / maps.o.heads);
    }
    ptx::bulk_commit();
    ptx::bulk_wait_read<0>();
  }
}

/// `two_rows_of_mma` of chapter 07 with other copies: one thread starts them, and barriers in shared memory
/// say when tiles have landed and when they are no longer needed. No thread computes an address, and nothing
/// waits for the whole block.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    tma_attention(Attention<typename Tile::T> a, const __grid_constant__ TensorMaps maps) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Bc = Tile::Bc, kStages = Tile::kStages;
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& s = *reinterpret_cast<SharedTiles<Tile>*>(smem);
  init_barriers(s);
  const QueryTile tile = query_tile<Tile>(blockIdx.x, a);
  const int last = key_tiles<Tile>(tile.first_query, Tile::Br, a) - 1;
  Producer<Tile> producer{maps, s};
  if (threadIdx.x == 0) {
    s.query_tile[0] = tile;  // registers have no room for its head
    // Q as two tiles of 64 rows, like those of K and V
    ptx::mbarrier_arrive_expect_tx(&s.q_ring.full[0], int(sizeof s.q));
    for (int half = 0; half < 2; ++half) {
      for (int panel = 0; panel < Tile::kPanels; ++panel)
        ptx::tma_load(s.q[0] + (half * d + 64 * panel) * 64, &maps.q, &s.q_ring.full[0], 64 * panel,
                      tile.first_query + 64 * half, tile.head % maps.q.heads, tile.head / maps.q.heads);
    }
    const int kv_head = a.kv_head(tile.head);
    for (int n = 0; n < kStages && n <= last; ++n) {
      producer.load_k((last - n) * Bc, kv_head);
      producer.load_v((last - n) * Bc, kv_head);
    }
  }
  const int warp = threadIdx.x / 32, first_query = tile.first_query + 32 * warp;
  T* sQ = s.q[0] + warp / 2 * 64 * d + warp % 2 * 32 * 64;
  const float factor = a.exp2_scale;
  ptx::mbarrier_wait(&s.q_ring.full[0], 0);
  ch07::QueryFragments<Tile> rQ = {sQ};
  if constexpr (Tile::kQInRegisters) {
#pragma unroll
    for (int step = 0; step < rQ.kSteps; ++step) rQ.load(rQ.registers[step], step);
  }

  ch07::Accumulators<Tile> acc;
  Place<kStages> place;
  for (int j = last; j >= 0; --j) {
    place.wait_full(s.k_ring);
    ch07::Scores<Tile> rS = {};
    ch07::multiply_qk<Tile>(rS, rQ, s.k[place.stage]);
    __syncwarp();  // all lanes have read K
    place.leave(s.k_ring);
    if ((j + 1) * Bc > a.visible_keys(first_query)) ch07::mask<Tile>(rS, a, first_query, j * Bc);
    ch07::rescale<Tile>(acc, rS, factor);
    place.wait_full(s.v_ring);
    ch07::multiply_pv<Tile>(acc, rS, s.v[place.stage], factor);
    __syncwarp();
    place.leave(s.v_ring);
    place.advance();
    if (threadIdx.x == 0 && j >= kStages) {
      const int kv_head = a.kv_head(s.query_tile[0].head);
      producer.load_k((j - kStages) * Bc, kv_head);
      producer.load_v((j - kStages) * Bc, kv_head);
    }
  }
  store<Tile>(acc, a, maps, sQ, s.query_tile[0].head, first_query);
}

}  // namespace fa::ch09
