/// @file
/// FlashAttention v2 as fast as the instructions of sm_80 go: copies, mma and exponentials at the same time.
///
/// Q and O are [batch, heads, seq_q, head_dim], K and V [batch, kv_heads, seq_k, head_dim], all __half or
/// __nv_bfloat16; LSE is [batch, heads, seq_q], fp32. Any lengths >= 1 and any kv_heads that divides heads.
/// A row that sees no key has O = 0 and LSE = -inf.
///
/// A key that is hidden from a row, but not from all rows of its slice, has the weight 0 there. If its value
/// is NaN or infinite, 0 times that is NaN.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "choices.cuh"
#include "device/attention.cuh"
#include "device/convert.cuh"
#include "device/cp_async.cuh"
#include "device/fragments.cuh"
#include "device/math.cuh"
#include "device/ptx.cuh"
#include "device/reduce.cuh"
#include "device/scores.cuh"
#include "device/tensor_core.cuh"

namespace fa::ch07 {

// --- the part of a block -------------------------------------------------------------------------------

/// One query tile of one head.
struct Part {
  int head;  ///< counts through all batches, and so does kv_head(head)
  int first_query;
};

/// Head after head, or under a mask the longest tiles first, so that short ones fill the gaps at the end; in groups of
/// heads whose K and V fit the L2 cache together.
template <class Tile>
__device__ __forceinline__ Part part_of_block(const Attention<typename Tile::T>& a) {
  const int block = blockIdx.x, heads = a.batch * a.heads, tiles = (a.seq_q + Tile::Br - 1) / Tile::Br;
  if (!Tile::kLongestFirst || !a.causal) return {block / tiles, block % tiles * Tile::Br};
  const size_t bytes = 2 * sizeof(typename Tile::T) * size_t(a.seq_k) * Tile::kHeadDim;  // K and V of a head
  const int cached = int(max(size_t(1), min(size_t(heads), Tile::kCachedBytes / bytes)));
  const int groups = (heads + cached - 1) / cached, group = (heads + groups - 1) / groups;
  const int first_head = block / (group * tiles) * group, here = min(group, heads - first_head);
  const int in_group = block - first_head * tiles;
  return {first_head + in_group % here, (tiles - 1 - in_group / here) * Tile::Br};
}

// --- from HBM to shared memory -------------------------------------------------------------------------

/// Copies tiles with all threads of the block: each takes 16 bytes of every kStep-th row.
template <class Tile>
struct TileCopy {
  using T = typename Tile::T;
  static constexpr int kChunk = 8;  ///< elements of 16 bytes
  static constexpr int kStep = Tile::kThreads * kChunk / Tile::kHeadDim;
  int row = threadIdx.x * kChunk / Tile::kHeadDim, col = threadIdx.x * kChunk % Tile::kHeadDim;

  /// The first kRows rows of a matrix, of which `rows` exist: the others become zeros and are not read.
  template <int kRows>
  __device__ __forceinline__ void ragged(T* sTile, const T* gMatrix, int rows) const {
    for (int step = 0; step < kRows; step += kStep) {
      // EXERCISE 1: Start this thread's copy of row step + row: 16 bytes from column col on, or zeros.
      const bool inside = step + row < rows;
      const T* g = gMatrix + (inside ? size_t(step + row) * Tile::kHeadDim + col : 0);
      cp_async_16_or_zero(sTile + Tile::Rows::offset(step + row, col), g, inside);
      // END 1
    }
  }

  /// kRows rows. @param g  what this thread copies of the first step: the others have constant distances
  template <int kRows>
  __device__ __forceinline__ void whole(T* sTile, const T* g) const {
#pragma unroll
    for (int step = 0; step < kRows; step += kStep)
      cp_async_16(sTile + Tile::Rows::offset(step + row, col), g + step * Tile::kHeadDim);
  }
};

// --- softmax and P V -----------------------------------------------------------------------------------

/// What a warp carries from slice to slice.
template <class Tile>
struct Accumulators {
  float o[Tile::kRowTiles][Tile::kHeadDim / 8][4] = {};  ///< the sum of 2^(s - m) * v: fragments C
  float m[Tile::kLaneRows];       ///< of a row: its maximum times scale * log2 e, or up to kSlack less
  float l[Tile::kLaneRows] = {};  ///< of a row: this lane's part of the sum of 2^(s - m)

  __device__ __forceinline__ Accumulators() {
    for (float& of_row : m) of_row = -FLT_MAX;  // finite: 2^(-inf - m) is 0, not NaN, before the first key
  }
};

/// The recurrence of chapter 03, but only where a maximum of the warp's rows grew by more than kSlack: else O
/// and l stay sums against the old one. O / l is the same, and P at most 2^kSlack.
template <class Tile>
__device__ __forceinline__ void rescale(Accumulators<Tile>& acc, const Scores<Tile>& rS, float factor) {
  float top[Tile::kLaneRows];  // of this lane's keys
  bool grew = false;
#pragma unroll
  for (int row = 0; row < Tile::kLaneRows; ++row) {
    top[row] = rS[row / 2][0][row % 2 * 2];
#pragma unroll
    for (int n = 0; n < Tile::kSlice / 8; ++n) {
      const float* pair = &rS[row / 2][n][row % 2 * 2];
      top[row] = fmaxf(top[row], fmaxf(pair[0], pair[1]));
    }
    grew |= top[row] * factor - acc.m[row] > Tile::kSlack;
  }
  // EXERCISE 2: Bring m, l and O of every row to the new maximum, but only if a lane of the warp says that one grew.
  if (!__any_sync(kAllLanes, grew)) return;  // no shuffle either
#pragma unroll
  for (int row = 0; row < Tile::kLaneRows; ++row) {
    const float m = warp_reduce<4>(top[row], Max());
    const float m_new = fmaxf(acc.m[row], m * factor);
    const float correction = ptx::exp2_approx(acc.m[row] - m_new);
    acc.m[row] = m_new;
    acc.l[row] *= correction;
#pragma unroll
    for (int n = 0; n < Tile::kHeadDim / 8; ++n) {
      acc.o[row / 2][n][row % 2 * 2] *= correction;
      acc.o[row / 2][n][row % 2 * 2 + 1] *= correction;
    }
  }
  // END 2
}

/// P = 2^(s - m), and O += P V: 16 keys at a time. The exponentials of the next 16 need nothing of the
/// products of these, and run meanwhile.
template <class Tile>
__device__ __forceinline__ void multiply_pv(Accumulators<Tile>& acc, Scores<Tile>& rS,
                                            const typename Tile::T* sV, float factor) {
  using T = typename Tile::T;
  const Coord from = row_for_a(threadIdx.x % 32);
  const int at = Tile::Rows::offset(from.row, from.col);
#pragma unroll
  for (int step = 0; step < Tile::kSlice / 16; ++step) {
    std::uint32_t p[Tile::kRowTiles][4];  // two fragments C are one fragment A
#pragma unroll
    for (int m = 0; m < Tile::kRowTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = 2 * m + i % 2;
        const float* pair = &rS[m][2 * step + i / 2][i % 2 * 2];
        const float left = ptx::exp2_approx(pair[0] * factor - acc.m[row]);
        const float right = ptx::exp2_approx(pair[1] * factor - acc.m[row]);
        acc.l[row] += left + right;
        p[m][i] = pack<T>(left, right);
      }
    }
    for_each_fragment<Tile::kFragmentDoubleBuffer, Tile::kHeadDim / 16>(  // 16 keys, 16 columns
        [&](std::uint32_t(&v)[4], int i) {
          ldmatrix_transposed(v, sV + Tile::Rows::advance(at, 16 * step, 16 * i));
        },
        [&](const std::uint32_t(&v)[4], int i) {
#pragma unroll
          for (int m = 0; m < Tile::kRowTiles; ++m) {
            mma<T>(acc.o[m][2 * i], p[m], {v[0], v[1]});
            mma<T>(acc.o[m][2 * i + 1], p[m], {v[2], v[3]});
          }
        });
  }
}

/// O / l, through the warp's rows of shared memory to stores of 16 bytes and whole rows; and LSE.
template <class Tile>
__device__ __forceinline__ void store(const Accumulators<Tile>& acc, const Attention<typename Tile::T>& a,
                                      typename Tile::T* sO, int head, int first_query) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, kChunk = TileCopy<Tile>::kChunk;
  const int lane = threadIdx.x % 32;
  const size_t first_row = size_t(head) * a.seq_q + first_query;
#pragma unroll
  for (int i = 0; i < Tile::kLaneRows; ++i) {
    const int row = 8 * i + lane / 4;
    const float l = warp_reduce<4>(acc.l[i], Sum());
    const float inv_l = inverse_or_zero(l);
    if (lane % 4 == 0 && first_query + row < a.seq_q)
      a.lse[first_row + row] = l == 0.0f ? -INFINITY : acc.m[i] * kLn2 + logf(l);
#pragma unroll
    for (int n = 0; n < d / 8; ++n) {
      const float* pair = &acc.o[i / 2][n][i % 2 * 2];
      std::uint32_t* s = reinterpret_cast<std::uint32_t*>(sO + Tile::Rows::offset(row, 8 * n)) + lane % 4;
      *s = pack<T>(pair[0] * inv_l, pair[1] * inv_l);
    }
  }
  // EXERCISE 3: Store the warp's kWarpRows x d numbers from sO to a.o, 16 bytes for each lane at a time.
  __syncwarp();  // all rows of the warp are there
  for (int at = lane * kChunk; at < Tile::kWarpRows * d; at += 32 * kChunk) {
    const int row = at / d, col = at % d;
    if (first_query + row >= a.seq_q) continue;
    *reinterpret_cast<uint4*>(a.o + (first_row + row) * d + col) =
        *reinterpret_cast<const uint4*>(sO + Tile::Rows::offset(row, col));
  }
  // END 3
}

// --- the kernel ----------------------------------------------------------------------------------------

/// FlashAttention v2, Algorithm 1 of Dao 2023: kAhead tiles are on their way while one is in use.
///
///   grid    batch * heads * ceil(seq_q / Br), in the order of part_of_block()
///   block   Tile::kThreads: a warp for kWarpRows queries
///   shared  Tile::kSharedBytes: a tile of Q, then of O; kStages tiles of K and of V
///   HBM     reads Q once, and for each block the keys and values that its last query sees; writes O and LSE
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    multi_stage_attention(Attention<typename Tile::T> a) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Bc = Tile::Bc, kAhead = Tile::kAhead;
  constexpr bool kBackwards = Tile::kMaskedFirst;  // the ragged tile comes first: all others are whole
  const Part part = part_of_block<Tile>(a);
  const int warp_row = threadIdx.x / 32 * Tile::kWarpRows;
  const int first_query = part.first_query + warp_row;  // of the warp
  const float factor = a.scale * kLog2e;

  extern __shared__ float4 smem[];
  T* sQ = reinterpret_cast<T*>(smem);
  T* sK = sQ + Tile::Br * d;
  T* sV = sK + Tile::kStages * Tile::kTile;
  const size_t first_key_of_head = size_t(a.kv_head(part.head)) * a.seq_k;
  const T *gK = a.k + first_key_of_head * d, *gV = a.v + first_key_of_head * d;

  const int seen_by_block = a.visible_keys(min(part.first_query + Tile::Br, a.seq_q) - 1);
  const int seen_by_warp = a.visible_keys(min(first_query + Tile::kWarpRows, a.seq_q) - 1);
  const int seen_by_all =  // by every row of the warp; forwards, of the block
      kBackwards ? min(a.visible_keys(first_query), seen_by_warp) : a.visible_keys(part.first_query);
  const int tiles = (seen_by_block + Bc - 1) / Bc;
  // EXERCISE 4: Count the tiles, from key 0 on, that every row of the block sees to the end: those behind need a mask.
  const int first_masked = min(a.visible_keys(part.first_query), seen_by_block) / Bc;
  // END 4

  const TileCopy<Tile> copy;
  const auto send = [&](T* s, const T* g, int first_key) {  // starts the copies of a tile of K or V
    copy.template ragged<Bc>(s, g + size_t(first_key) * d, seen_by_block - first_key);
  };
  copy.template ragged<Tile::Br>(sQ, a.q + (size_t(part.head) * a.seq_q + part.first_query) * d,
                                 a.seq_q - part.first_query);
  cp_async_commit();
  if constexpr (Tile::kSplitKv) {
    send(sK, gK, 0);
    cp_async_commit();
  }
  // EXERCISE 5: Send the first kAhead tiles of the walk, each to a place of its own and as a group of its own.
  for (int n = 0; n < kAhead; ++n) {
    const int first_key = (kBackwards ? tiles - 1 - n : n) * Bc, place = n * Tile::kTile;
    if (n < tiles) {
      send(sK + place, gK, first_key);
      send(sV + place, gV, first_key);
    }
    cp_async_commit();
  }
  // END 5
  QueryFragments<Tile> rQ = {sQ + warp_row * d};
  if constexpr (Tile::kKeepQ) {
    cp_async_wait<kAhead + Tile::kSplitKv>();
    __syncthreads();  // Q is there
#pragma unroll
    for (int step = 0; step < d / 16; ++step) rQ.load(rQ.kept[step], step);
  }

  const ptrdiff_t mine = ptrdiff_t(tiles - 1 - kAhead) * Bc * d + copy.row * d + copy.col;
  const T *next_k = gK + mine, *next_v = gV + mine;  // what this thread copies next
  int tile = kBackwards ? tiles - 1 : 0, stage = 0;  // which is in use, and where it is
  const auto wait_and_send = [&] {
    if constexpr (kAhead == 0) {
      if constexpr (Tile::kSplitKv) cp_async_wait<0>();
      __syncthreads();  // no warp uses the tile before any more; with kSplitKv, also: K is there
      if constexpr (!Tile::kSplitKv) send(sK, gK, tile * Bc);
      send(sV, gV, tile * Bc);
      cp_async_commit();
      if constexpr (Tile::kSplitKv) return;
      cp_async_wait<0>();
      __syncthreads();  // the tile is there
    } else {
      // EXERCISE 6: Wait until the tile that comes next is there for every warp, and wait for no other tile.
      cp_async_wait<kAhead - 1>();
      __syncthreads();  // the tile is there; and no warp uses the one before, whose place the next one takes
      // END 6
      // EXERCISE 7: Send the tile that comes kAhead tiles later to the place that is free, as a group.
      if (kBackwards ? tile >= kAhead : tile + kAhead < tiles) {
        const int free = (stage + kAhead) % Tile::kStages * Tile::kTile;
        if constexpr (kBackwards) {
          copy.template whole<Bc>(sK + free, next_k);
          copy.template whole<Bc>(sV + free, next_v);
          next_k -= Bc * d;
          next_v -= Bc * d;
        } else {
          send(sK + free, gK, (tile + kAhead) * Bc);
          send(sV + free, gV, (tile + kAhead) * Bc);
        }
      }
      cp_async_commit();  // of nothing, at the end: the count at the wait stays the same
      // END 7
    }
  };

  Accumulators<Tile> acc;
  const auto visit = [&](auto masked, int key) {
    const int first_key = tile * Bc + key, at = stage * Tile::kTile + key * d;
    constexpr bool kMasked = decltype(masked)::value;
    if (kMasked && kBackwards && first_key >= seen_by_warp) return;  // above the diagonal
    Scores<Tile> rS = {};
    multiply_qk<Tile>(rS, rQ, sK + at);
    if (kMasked && first_key + Tile::kSlice > seen_by_all) mask<Tile>(rS, a, first_query, first_key);
    rescale<Tile>(acc, rS, factor);
    if constexpr (Tile::kSplitKv) {
      cp_async_wait<0>();
      __syncthreads();  // V is there; and no warp uses K, whose place the next one takes
      if (tile + 1 < tiles) send(sK, gK, (tile + 1) * Bc);
      cp_async_commit();
    }
    multiply_pv<Tile>(acc, rS, sV + at, factor);
  };
  // EXERCISE 8: Visit all tiles. Backwards, those from first_masked on with a mask, and then the others without.
  for (; kBackwards ? tile >= first_masked : tile < tiles; tile += kBackwards ? -1 : 1) {
    wait_and_send();
#pragma unroll 1
    for (int key = Bc - Tile::kSlice; key >= 0; key -= Tile::kSlice) visit(std::true_type(), key);
    stage = Tile::behind(stage);
  }
  for (; kBackwards && tile >= 0; --tile) {  // every row sees every key: no thought about a mask
    wait_and_send();
#pragma unroll
    for (int key = Bc - Tile::kSlice; key >= 0; key -= Tile::kSlice) visit(std::false_type(), key);
    stage = Tile::behind(stage);
  }
  // END 8

  cp_async_wait<0>();
  __syncthreads();  // also without any key: the copies of Q have landed
  store<Tile>(acc, a, sQ + warp_row * d, part.head, first_query);
}

}  // namespace fa::ch07
