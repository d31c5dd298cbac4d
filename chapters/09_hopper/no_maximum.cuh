/// @file
/// Without a search for the maximum: the last step of chapter 09.
///
/// A row's m need not be its maximum. O / l is the same for any m, as long as no 2^(s - m) overflows and not
/// all of them vanish. fp32 and bf16 have the same exponents, up to 2^127, and the same relative precision
/// for all of them. So m is the maximum of the first tile and of the masked ones, and the scores of all other
/// tiles are used as they are. fp16 ends below 2^16: not for fp16.
///
/// If l exceeds 2^40, the row is divided by a power of 2, which rounds nothing. If a score lies so far above
/// m that l exceeds 2^100 at once, the query tile is marked, and a second launch computes it again, with
/// maxima.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

#include "consumer.cuh"
#include "device/attention.cuh"
#include "device/hopper.cuh"
#include "ping_pong.cuh"

namespace fa::ch09 {

inline constexpr float kLargeSum = 0x1p40f;     ///< more: the row is scaled down
inline constexpr float kLargestSum = 0x1p100f;  ///< more: 2^(s - m) may have overflowed

/// The place of a query tile among the marks. The first one says whether any tile is marked.
template <class Tile>
__device__ __forceinline__ int mark_of(QueryTile tile, const Attention<typename Tile::T>& a) {
  const int tiles = (a.seq_q + Tile::Br - 1) / Tile::Br;
  return 1 + tile.head * tiles + (tile.first_query - first_query_of_head<Tile>(a.seq_q)) / Tile::Br;
}

/// Divides rows whose sum is large by a power of 2.
///
/// @return  whether there is anything to correct in O: the same in all lanes
template <class Tile>
__device__ __forceinline__ bool bound_sum(Consumer<Tile>& consumer, float (&correction)[2], QueryTile tile,
                                          int* marks) {
  correction[0] = correction[1] = 1.0f;
  if (!__any_sync(kAllLanes, !(fmaxf(consumer.state.l[0], consumer.state.l[1]) <= kLargeSum))) return false;
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    const float l = warp_reduce<4>(consumer.state.l[row], Max());  // of any lane
    if (!(l <= kLargestSum)) {
      // Other lanes and blocks may do the same at this moment.
      atomicExch(&marks[0], 1);
      atomicExch(&marks[mark_of<Tile>(tile, consumer.a)], 1);
    }
    const float shift = l > kLargeSum ? floorf(log2f(l)) : 0.0f;
    correction[row] = ptx::exp2_approx(-shift);
    consumer.state.m[row] += shift;
    consumer.state.l[row] *= correction[row];
  }
  scale_rows(consumer.rS, correction);
  return true;
}

/// step_in_turn<false>() without raise_maximum(). The sum is known only after P: if it is large, P is made
/// anew.
template <class Tile>
struct NoMaximum {
  static __device__ __forceinline__ void run(Consumer<Tile>& consumer, const Turns<Tile::kConsumers>& turn,
                                             QueryTile tile, int* marks) {
    consumer.k.wait_unless_landed(consumer.s.k_ring);
    consumer.v.wait_unless_landed(consumer.s.v_ring);
    turn.take();
    ptx::wgmma_fence();
    issue_qk<Tile>(consumer.rS, consumer.q_rows(), consumer.k_tile());
    ptx::wgmma_commit();
    issue_pv<Tile>(consumer.rO, consumer.rP, consumer.v_tile());
    ptx::wgmma_commit();
    turn.pass();
    ptx::wgmma_wait<1>(consumer.rS);
    consumer.k.release(consumer.s.k_ring);
    ptx::wgmma_wait<0>(consumer.rO);
    consumer.v.release(consumer.s.v_ring);
    consumer.k.look(consumer.s.k_ring);
    consumer.v.look(consumer.s.v_ring);
    exponentials<Tile>(consumer.rS, consumer.state, consumer.factor);
    pack_p<Tile>(consumer.rP, consumer.rS);
    float correction[2];
    if (bound_sum(consumer, correction, tile, marks)) {
      scale_rows(consumer.rO, correction);
      pack_p<Tile>(consumer.rP, consumer.rS);
    }
  }
};

/// The second launch: `persistent` for the marked query tiles alone. Nearly always there are none.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    repair_attention(Attention<typename Tile::T> a, const __grid_constant__ TensorMaps maps,
                     const int* marks) {
  if (marks[0] == 0) return;
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& s = *reinterpret_cast<SharedTiles<Tile>*>(smem);
  init_barriers(s);
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    if (threadIdx.x < 32 && ptx::elect_sync()) {
      Producer<Tile> producer{maps, s};
      for (int n = blockIdx.x; n < query_tiles<Tile>(a); n += gridDim.x) {
        const QueryTile tile = query_tile<Tile>(n, a);
        if (marks[mark_of<Tile>(tile, a)] != 0) producer.load(tile, a);
      }
      producer.end();
    }
  } else {
    ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    Consumer<Tile> consumer(a, s, warpgroup - 1);
    consume(consumer, maps);
  }
}

}  // namespace fa::ch09
