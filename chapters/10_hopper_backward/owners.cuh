/// @file
/// head_dim 192 and 256: dK and dV of 64 keys take 96 or 128 registers per thread each. So one consumer owns
/// dV and the other one dK. The first computes S and P, the second dP and dS. P passes from one to the other
/// through shared memory. Also for a V of up to 128 columns with a Q and K of up to 192.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backward.cuh"
#include "consumer.cuh"
#include "copies.cuh"
#include "device/convert.cuh"
#include "device/hopper.cuh"
#include "device/math.cuh"
#include "device/reduce.cuh"
#include "device/tile.cuh"
#include "dq_sums.cuh"
#include "gradients.cuh"
#include "products.cuh"
#include "shared_tiles.cuh"

namespace fa::ch10 {

template <class Element, int kHeadDimension, int kValueDimension = kHeadDimension>
struct OwnerTiles {
  using T = Element;
  static constexpr int kHeadDim = kHeadDimension, kHeadDimV = kValueDimension;
  static constexpr int Br = 64;
  static constexpr int Bc = 64;
  static constexpr int kStages = 2;
  static constexpr int kDsStages = 2;
  static constexpr int kDsWarps = 4;  ///< only one consumer stores dS
  static constexpr int kConsumers = 2;
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;
  static constexpr int kCols = kHeadDim;
  static constexpr bool kPads = false;
  static constexpr int kDqCols = 128;  ///< of the owner of dV; the other one has the rest
  static constexpr int kFirstDqCols = kDqCols;
  static constexpr int kQueryTile = Br * kCols;
};

/// KeyTileMemory with room for P on its way from one consumer to the other: the bits of four registers at a
/// time, thread by thread.
template <class Tile>
struct __align__(1024) OwnersMemory {
  KeyTileMemory<Tile> tiles;
  alignas(128) float p[Tile::kDsStages][Tile::Br / 16][4 * 128];
  RingBarriers<Tile::kDsStages> p_ring;
  RingBarriers<1> turn_ring[Tile::kConsumers];  ///< of `deterministic`
};

template <class Tile>
__device__ __forceinline__ void init_barriers(OwnersMemory<Tile>& s) {
  if (threadIdx.x == 0) {
    declare_members(s);
    init_tiles(s.tiles);
    for (int stage = 0; stage < Tile::kDsStages; ++stage) {
      ptx::mbarrier_init(&s.p_ring.full[stage], 4);
      ptx::mbarrier_init(&s.p_ring.empty[stage], 4);
    }
    for (auto& ring : s.turn_ring) {
      ptx::mbarrier_init(&ring.full[0], 1);
      ptx::mbarrier_init(&ring.empty[0], 4);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
}

/// The owner of dV is consumer 0, that of dK consumer 1.
template <class Tile>
struct OfDv {
  static constexpr int kIndex = 0;
  using Sum = OfValues<Tile>;  ///< the tiles whose gradient this is
  using Dq = Tile;             ///< the tiles with this owner's columns of dQ
};
template <class Tile>
struct OfDk {
  static constexpr int kIndex = 1;
  using Sum = Tile;
  struct Dq : Tile {
    static constexpr int kDqCols = Tile::kCols - Tile::kFirstDqCols;
  };
};

/// What both owners have. @tparam Role  OfDv or OfDk
template <class Tile, class Role>
struct Owner {
  using T = typename Tile::T;
  using Sum = typename Role::Sum;
  using Dq = typename Role::Dq;
  using Walk = QueryWalk<Tile>;  ///< the order of the query tiles
  const Backward<T>& a;
  OwnersMemory<Tile>& with_p;
  KeyTileMemory<Tile>& s;
  const KeyTile keys;
  const int warp_key;
  const std::uint64_t first_ds, k_of_dq;
  Place<Tile::kStages> place{};
  Place<Tile::kDsStages> p{}, ds{};
  KeyGradient<Sum> rSum;  ///< dV or dK
  DqPart<Dq> rdQ;

  __device__ __forceinline__ Owner(const Backward<T>& backward, OwnersMemory<Tile>& shared,
                                   const KeyTile& of_block)
      : a(backward),
        with_p(shared),
        s(shared.tiles),
        keys(of_block),
        warp_key(__shfl_sync(kAllLanes, int(threadIdx.x) / 32 % 4, 0) * 16),
        first_ds(descriptor(s.ds[0], 16)),
        k_of_dq(descriptor(s.k + Role::kIndex * Tile::kFirstDqCols * Tile::Bc, Tile::Bc * 128)) {
#pragma unroll
    for (float& x : rSum) x = 0.0f;
    ptx::keep_in_place(rSum);
  }
  __device__ __forceinline__ std::uint64_t q_in_stage(std::uint64_t first) const {
    return moved(first, place.stage * int(sizeof s.q[0]));
  }
  __device__ __forceinline__ std::uint64_t do_in_stage(std::uint64_t first) const {
    return moved(first, place.stage * int(sizeof s.d_o[0]));
  }
  __device__ __forceinline__ std::uint64_t ds_tile() const {
    return moved(first_ds, ds.stage * int(sizeof s.ds[0]));
  }
  /// Adds this owner's part of dQ to a query tile. @param tile  its number
  __device__ __forceinline__ void put_dq(int tile) {
    const int d = head_dim<Tile>(a);
    add_to_sums<Dq>(a.dq_sum + size_t(tile) * Tile::Br * d, rdQ, Role::kIndex, d);
  }
};

/// Computes P and dV.
template <class Tile, class AnyOwner>
__device__ __forceinline__ void own_dv(AnyOwner& owner) {
  auto& s = owner.s;
  const std::uint64_t k = descriptor(s.k, 16), q = descriptor(s.q[0], 16),
                      d_o = descriptor(s.d_o[0], Tile::Br * 128);
  const float factor = owner.a.scale * kLog2e;
  Scores<Tile> rS;
  Operand<Tile> rP;
  int before = -1;  // dQ one step later, as in `decoupled`: of this tile
  for (typename AnyOwner::Walk walk(owner.a, owner.keys); !walk.done(); walk.next()) {
    owner.place.wait_full(s.q_ring);
    ptx::wgmma_fence();
    issue_scores<Tile>(rS, k, owner.q_in_stage(q));
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>(rS);
    if (walk.masked(owner.a, owner.keys))
      mask<Tile>(rS, owner.a, walk.first_query(), owner.keys.first_key + owner.warp_key);
    probabilities<Tile>(rS, s.log2_sum[owner.place.stage], factor);
    pack_operand<Tile>(rP, rS);
    owner.p.wait_empty(owner.with_p.p_ring);
#pragma unroll
    for (int step = 0; step < Tile::Br / 16; ++step)
      store_float4(owner.with_p.p[owner.p.stage][step] + 4 * (threadIdx.x % 128),
                   {__uint_as_float(rP[step][0]), __uint_as_float(rP[step][1]), __uint_as_float(rP[step][2]),
                    __uint_as_float(rP[step][3])});
    warp_arrives(owner.with_p.p_ring.full[owner.p.stage]);
    owner.place.leave(s.q_ring);
    owner.p.advance();
    owner.place.wait_full(s.do_ring);
    ptx::wgmma_fence();
    issue_key_gradient<OfValues<Tile>>(owner.rSum, rP, owner.do_in_stage(d_o));
    ptx::wgmma_commit();
    if (before >= 0) {
      owner.ds.wait_full(s.ds_ring);
      ptx::wgmma_fence();
      issue_dq<typename AnyOwner::Dq>(owner.rdQ, owner.ds_tile(), owner.k_of_dq);
      ptx::wgmma_commit();
      ptx::wgmma_wait<0>(owner.rdQ, owner.rSum);
      owner.ds.release(s.ds_ring);
      owner.put_dq(before);
    }
    ptx::wgmma_wait<0>(owner.rSum);
    owner.place.release(s.do_ring);
    before = walk.number();
  }
  owner.ds.wait_full(s.ds_ring);
  ptx::wgmma_fence();
  issue_dq<typename AnyOwner::Dq>(owner.rdQ, owner.ds_tile(), owner.k_of_dq);
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>(owner.rdQ);
  owner.put_dq(before);
}

/// Computes dS, from P in 16 bits, and dK.
template <class Tile, class AnyOwner>
__device__ __forceinline__ void own_dk(AnyOwner& owner) {
  using T = typename Tile::T;
  auto& s = owner.s;
  const std::uint64_t v = descriptor(s.v, 16), d_o = descriptor(s.d_o[0], 16),
                      q = descriptor(s.q[0], Tile::Br * 128);
  Scores<Tile> rdP;
  Operand<Tile> rdS;
  for (typename AnyOwner::Walk walk(owner.a, owner.keys); !walk.done(); walk.next()) {
    owner.place.wait_full(s.do_ring);
    ptx::wgmma_fence();
    issue_scores<OfValues<Tile>>(rdP, v, owner.do_in_stage(d_o));
    ptx::wgmma_commit();
    owner.p.wait_full(owner.with_p.p_ring);
    ptx::wgmma_wait<0>(rdP);
    const float* delta = s.delta[owner.place.stage] + threadIdx.x % 4 * 2;
#pragma unroll
    for (int step = 0; step < Tile::Br / 16; ++step) {
      const float4 p = load_float4(owner.with_p.p[owner.p.stage][step] + 4 * (threadIdx.x % 128));
      const std::uint32_t pairs[4] = {__float_as_uint(p.x), __float_as_uint(p.y), __float_as_uint(p.z),
                                      __float_as_uint(p.w)};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 d = *reinterpret_cast<const float2*>(delta + 16 * step + i / 2 * 8);
        const float2 of_pair = unpack<T>(pairs[i]);
        rdS[step][i] =
            pack<T>(of_pair.x * (rdP[8 * step + 2 * i] - d.x), of_pair.y * (rdP[8 * step + 2 * i + 1] - d.y));
      }
    }
    __syncwarp();  // all lanes have read P
    owner.p.release(owner.with_p.p_ring);
    owner.place.leave(s.do_ring);
    owner.ds.wait_empty(s.ds_ring);
    store_ds<Tile>(s.ds[owner.ds.stage], rdS, owner.warp_key);
    ptx::fence_proxy_async();
    warp_arrives(s.ds_ring.full[owner.ds.stage]);
    owner.place.wait_full(s.q_ring);
    owner.ds.wait_full(s.ds_ring);
    ptx::wgmma_fence();
    issue_dq<typename AnyOwner::Dq>(owner.rdQ, owner.ds_tile(), owner.k_of_dq);
    ptx::wgmma_commit();
    issue_key_gradient<Tile>(owner.rSum, rdS, owner.q_in_stage(q));
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>(owner.rdQ);
    owner.ds.release(s.ds_ring);
    owner.put_dq(walk.number());
    ptx::wgmma_wait<0>(owner.rSum);
    owner.place.release(s.q_ring);
  }
}

/// What both owners do. @tparam AnyOwner  Owner, or what adds to dQ in another way
template <class Tile, template <class, class> class AnyOwner>
__device__ __forceinline__ void own(const Backward<typename Tile::T>& a, const TensorMaps& maps,
                                    OwnersMemory<Tile>& with_p, const KeyTile& keys, int index) {
  auto& s = with_p.tiles;
  const auto own_as = [&](auto role, const auto& compute, const TensorMap& map, auto* tile, float scale) {
    using Sum = typename decltype(role)::Sum;
    AnyOwner<Tile, decltype(role)> owner(a, with_p, keys);
    ptx::mbarrier_wait(&s.kv_full, 0);
    compute(owner);
    ptx::barrier_sync(1, 128 * Tile::kConsumers);  // no warp of the block multiplies K or V any more
    store_rows<Tile::Bc, Sum::kHeadDim>(map, tile, owner.rSum, scale, owner.warp_key, keys.first_key,
                                        keys.kv_head);
  };
  if (index == 0) {
    own_as(
        OfDv<Tile>(), [](auto& owner) { own_dv<Tile>(owner); }, maps.dv, s.v, 1.0f);
  } else {
    own_as(
        OfDk<Tile>(), [](auto& owner) { own_dk<Tile>(owner); }, maps.dk, s.k, a.scale);
  }
}

/// As the kernels of kernel.cuh, with P exchanged between the consumers.
///
///   smem    sizeof(OwnersMemory<Tile>)
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    two_owners_gradients(Backward<typename Tile::T> a, const __grid_constant__ TensorMaps maps) {
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& with_p = *reinterpret_cast<OwnersMemory<Tile>*>(smem);
  init_barriers(with_p);
  auto& s = with_p.tiles;
  const KeyTile keys = KeyTile::of_block<Tile>(blockIdx.x, a);
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    ptx::setmaxnreg_dec<Tile::kProducerRegisters>();
    if (threadIdx.x < 32 && ptx::elect_sync()) produce<Tile>(a, maps, s, keys);
  } else {
    ptx::setmaxnreg_inc<Tile::kConsumerRegisters>();
    own<Tile, Owner>(a, maps, with_p, keys, warpgroup - 1);
  }
}

}  // namespace fa::ch10
