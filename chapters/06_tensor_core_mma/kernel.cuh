/// @file
/// FlashAttention v2 on tensor cores: Q K^T and P V as products of 16-bit matrices, summed in fp32.
///
/// Q and O are [batch, heads, seq_q, head_dim], K and V [batch, kv_heads, seq_k, head_dim], all __half or
/// __nv_bfloat16; LSE is [batch, heads, seq_q], fp32. Every kernel takes any lengths >= 1 and any kv_heads that
/// divides heads. A row that sees no key has O = 0 and LSE = -inf.
///
/// A key that is hidden from a row, but not from all rows of its tile, has the weight 0 there. If its value
/// is NaN or infinite, 0 times that is NaN.
#pragma once

#include <cuda_runtime.h>
#include <mma.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "device/attention.cuh"
#include "device/convert.cuh"
#include "device/ldmatrix.cuh"
#include "device/math.cuh"
#include "device/mma.cuh"
#include "device/reduce.cuh"
#include "device/swizzle.cuh"

namespace fa {

// --- what the variants choose ----------------------------------------------------------------------

/// exp(x), as one writes it: a multiplication by log2 e, the split of the result into integer and fraction, 2 to
/// the power of both.
struct NaturalExp {
  static __device__ __forceinline__ float factor(float scale) { return scale; }
  static __device__ __forceinline__ float exp(float x) { return expf(x); }
};

/// exp(x) = 2^(x * log2 e): the multiplication moves into the scale, what is left is one instruction.
struct FoldedExp2 {
  static __device__ __forceinline__ float factor(float scale) { return scale * 1.44269504f; }
  static __device__ __forceinline__ float exp(float x) { return ptx::exp2_approx(x); }
};

/// How a kernel cuts the problem.
///
/// @tparam Element         __half or __nv_bfloat16
/// @tparam Layout          of the tiles in shared memory: see device/swizzle.cuh
/// @tparam kQInRegisters_  each warp loads its fragments of Q once, not for every key tile
/// @tparam Exponential     NaturalExp or FoldedExp2
template <class Element, int kHeadDimension, template <int> class Layout, bool kQInRegisters_,
          class Exponential, int kWarps_ = 8, int kBlocks_ = kHeadDimension <= 64 ? 2 : 1>
struct MmaTiles {
  using T = Element;
  using Rows = Layout<kHeadDimension>;
  using Exp = Exponential;
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr bool kQInRegisters = kQInRegisters_;
  static constexpr int kWarps = kWarps_;  ///< more warps, more queries: Br grows by warps
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int Br = 16 * kWarps;    ///< queries of a block, 16 for each warp: the rows of one mma
  static constexpr int Bc = 64;             ///< keys of a tile: Bc grows by registers of each warp
  static constexpr int kBlocks = kBlocks_;  ///< that share a multiprocessor and its registers
  static constexpr int kKTile = Bc * Rows::kStride;  ///< elements of shared memory
  static constexpr int kQTile = Br * Rows::kStride;
  /// Q that moves to registers leaves its place to K and V.
  static constexpr int kElements =
      kQInRegisters ? (kQTile > 2 * kKTile ? kQTile : 2 * kKTile) : kQTile + 2 * kKTile;
  static constexpr int kSharedBytes = int(sizeof(T)) * kElements;
};

// --- tiles from HBM to shared memory ---------------------------------------------------------------

/// A thread's part of a tile on its way from HBM to shared memory: 16 bytes of each kStep-th row.
template <class Tile, int kRows>
struct TileCopy {
  using T = typename Tile::T;
  static constexpr int kChunk = 8;  ///< elements of 16 bytes
  static constexpr int kStep = Tile::kThreads * kChunk / Tile::kHeadDim;
  static constexpr int kChunks = kRows / kStep;
  static_assert(kRows % kStep == 0 && kStep % 8 == 0);

  uint4 chunks[kChunks];

  /// The first kRows rows behind gTile, of which only `rows` exist: those behind them are zeros.
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

/// The part of the problem that a block computes: one query tile of one head. Addresses are worked out where they
/// are needed, which is cheaper than registers that keep them.
template <class Tile>
struct Block {
  using T = typename Tile::T;
  const Attention<T>& a;

  // Both count through all batches. gridDim.y neighbouring heads of Q share one of K and V.
  __device__ __forceinline__ unsigned kv_head() const { return blockIdx.z; }
  __device__ __forceinline__ unsigned head() const { return blockIdx.z * gridDim.y + blockIdx.y; }
  __device__ __forceinline__ int first_query() const { return blockIdx.x * Tile::Br; }
  /// How many keys the last query of the tile sees, which are the most.
  __device__ __forceinline__ int seen_by_last() const {
    return a.visible_keys(min(first_query() + Tile::Br, a.seq_q) - 1);
  }
  __device__ __forceinline__ size_t query_row() const { return size_t(head()) * a.seq_q; }
  __device__ __forceinline__ size_t key_row() const { return size_t(kv_head()) * a.seq_k; }

  __device__ __forceinline__ const T* gQ() const {
    return a.q + query_row() * Tile::kHeadDim;
  }                                                                                            ///< [seq_q, d]
  __device__ __forceinline__ const T* gK() const { return a.k + key_row() * Tile::kHeadDim; }  ///< [seq_k, d]
  __device__ __forceinline__ const T* gV() const { return a.v + key_row() * Tile::kHeadDim; }  ///< [seq_k, d]
  __device__ __forceinline__ T* gO() const { return a.o + query_row() * Tile::kHeadDim; }      ///< [seq_q, d]
  __device__ __forceinline__ float* gLse() const { return a.lse + query_row(); }               ///< [seq_q]
};

// --- wmma: the portable way ------------------------------------------------------------------------

/// How `wmma` cuts the problem: as `mma` does, with a tile of S for each warp in shared memory.
template <class Element, int kHeadDimension>
struct WmmaTiles : MmaTiles<Element, kHeadDimension, RowMajor, false, NaturalExp> {
  using Base = MmaTiles<Element, kHeadDimension, RowMajor, false, NaturalExp>;
  static constexpr int kScoreStride = Base::Bc + 4;              ///< floats from one row of S to the next
  static constexpr int kFloatsPerWarp = 16 * kScoreStride + 16;  ///< S, in its place P; a factor for each row
  static constexpr int kSharedBytes = Base::kSharedBytes + int(sizeof(float)) * Base::kWarps * kFloatsPerWarp;
};

/// f[row, col] *= sFactor[row]. Which element a lane holds is not told, but it is the same in all accumulators: the
/// factors are loaded as a matrix whose columns, 0 elements apart, are all sFactor.
template <class Accumulator>
__device__ __forceinline__ void scale_rows(Accumulator& f, const float* sFactor) {
  Accumulator factor;
  nvcuda::wmma::load_matrix_sync(factor, sFactor, 0, nvcuda::wmma::mem_col_major);
  for (int i = 0; i < f.num_elements; ++i) f.x[i] *= factor.x[i];
}

/// FlashAttention v2 with nvcuda::wmma, which hides who holds which element. So a softmax by rows has to go through
/// shared memory: S out, P and the correction of each row in.
///
///   grid, block, HBM  as mma_attention
///   shared            Tile::kSharedBytes: tiles of Q, K and V, and for each warp S and factors
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1) wmma_attention(Attention<typename Tile::T> a) {
  namespace wmma = nvcuda::wmma;
  using T = typename Tile::T;
  using Accumulator = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;
  constexpr int d = Tile::kHeadDim, Bc = Tile::Bc, kStride = Tile::Rows::kStride;
  const Block<Tile> block{a};
  const int first_query = block.first_query(), seen_by_last = block.seen_by_last();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  extern __shared__ float4 smem[];
  T* sQ = reinterpret_cast<T*>(smem);
  T* sK = sQ + Tile::kQTile;
  T* sV = sK + Tile::kKTile;
  float* sS = reinterpret_cast<float*>(sV + Tile::kKTile) + warp * Tile::kFloatsPerWarp;  // of this warp
  float* sFactor = sS + 16 * Tile::kScoreStride;
  float* sRow = sS + lane / 2 * Tile::kScoreStride;  // two lanes share a row: even and odd columns
  T* sP = reinterpret_cast<T*>(sS);

  TileCopy<Tile, Tile::Br> query_tile;
  query_tile.load(block.gQ() + size_t(first_query) * d, a.seq_q - first_query);
  query_tile.store(sQ);
  TileCopy<Tile, Bc> key_tile;
  key_tile.load(block.gK(), seen_by_last);
  key_tile.store(sK);
  __syncthreads();  // Q and the first key tile are there

  const int query = first_query + warp * 16 + lane / 2;
  float m = -INFINITY, l = 0.0f;  // of the row; l: this lane's columns
  Accumulator rO[d / 16];
  for (int n = 0; n < d / 16; ++n) wmma::fill_fragment(rO[n], 0.0f);
  for (int first_key = 0; first_key < seen_by_last; first_key += Bc) {
    TileCopy<Tile, Bc> value_tile;
    value_tile.load(block.gV() + size_t(first_key) * d, seen_by_last - first_key);
    for (int n = 0; n < Bc; n += 16) {
      Accumulator s;
      wmma::fill_fragment(s, 0.0f);
      for (int col = 0; col < d; col += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> q;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::col_major> k;
        wmma::load_matrix_sync(q, sQ + warp * 16 * kStride + col, kStride);
        wmma::load_matrix_sync(k, sK + n * kStride + col, kStride);
        wmma::mma_sync(s, q, k, s);
      }
      wmma::store_matrix_sync(sS + n, s, Tile::kScoreStride, wmma::mem_row_major);
    }
    value_tile.store(sV);
    key_tile.load(block.gK() + size_t(first_key + Bc) * d, seen_by_last - first_key - Bc);
    __syncwarp();  // all of S is there

    const int seen = a.visible_keys(query) - first_key;
    float rP[Bc / 2];
    float m_new = m;
    for (int i = 0; i < Bc / 2; ++i) {
      const int col = 2 * i + lane % 2;
      rP[i] = col < seen ? sRow[col] * a.scale : -INFINITY;
      m_new = fmaxf(m_new, rP[i]);
    }
    m_new = warp_reduce<2>(m_new, [](float x, float y) { return fmaxf(x, y); });
    const float base = m_new == -INFINITY ? 0.0f : m_new;
    const float correction = expf(m - base);
    m = m_new;
    l *= correction;
    if (lane % 2 == 0) sFactor[lane / 2] = correction;
    __syncwarp();  // S is read: P takes its place
    for (int i = 0; i < Bc / 2; ++i) {
      const float p = expf(rP[i] - base);
      l += p;
      sP[lane / 2 * 2 * Tile::kScoreStride + 2 * i + lane % 2] = T(p);
    }
    __syncthreads();  // P and the value tile are there, and no warp reads the key tile any more
    for (int n = 0; n < d / 16; ++n) scale_rows(rO[n], sFactor);
    for (int key = 0; key < Bc; key += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> p;
      wmma::load_matrix_sync(p, sP + key, 2 * Tile::kScoreStride);
      for (int n = 0; n < d / 16; ++n) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> v;
        wmma::load_matrix_sync(v, sV + key * kStride + 16 * n, kStride);
        wmma::mma_sync(rO[n], p, v, rO[n]);
      }
    }
    key_tile.store(sK);
    __syncthreads();  // the next key tile is there, and no warp reads P or the value tile any more
  }

  l = warp_reduce<2>(l, [](float x, float y) { return x + y; });
  if (lane % 2 == 0) sFactor[lane / 2] = inverse_or_zero(l);
  if (lane % 2 == 0 && query < a.seq_q) block.gLse()[query] = l == 0.0f ? -INFINITY : m + logf(l);
  __syncwarp();  // all factors are there
  for (int n = 0; n < d / 16; ++n) {
    scale_rows(rO[n], sFactor);
    wmma::store_matrix_sync(sS, rO[n], Tile::kScoreStride, wmma::mem_row_major);
    __syncwarp();  // 16 columns of O are there: each lane has 8 of them
    const float* sHalf = sRow + lane % 2 * 8;
    const uint4 o = make_uint4(pack<T>(sHalf[0], sHalf[1]), pack<T>(sHalf[2], sHalf[3]),
                               pack<T>(sHalf[4], sHalf[5]), pack<T>(sHalf[6], sHalf[7]));
    if (query < a.seq_q)
      *reinterpret_cast<uint4*>(block.gO() + size_t(query) * d + 16 * n + lane % 2 * 8) = o;
    __syncwarp();  // they are read
  }
}

// --- mma: the products -----------------------------------------------------------------------------

/// A warp's 16 rows of Q, as fragments A: 16 columns each.
template <class Tile>
struct QueryFragments {
  static constexpr int kSteps = Tile::kHeadDim / 16;
  const typename Tile::T* sQ;
  int at;  ///< where the row begins whose address this lane gives
  std::uint32_t registers[Tile::kQInRegisters ? kSteps : 1][4];

  __device__ __forceinline__ explicit QueryFragments(const typename Tile::T* sTile) : sQ(sTile) {
    const Coord from = row_for_a(threadIdx.x % 32);
    at = Tile::Rows::offset(threadIdx.x / 32 * 16 + from.row, from.col);
    if constexpr (Tile::kQInRegisters) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
        ldmatrix(registers[step], sQ + Tile::Rows::advance(at, 0, 16 * step));
    }
  }

  /// The fragment of columns 16 * step to 16 * step + 15.
  __device__ __forceinline__ void get(std::uint32_t (&q)[4], int step) const {
    if constexpr (Tile::kQInRegisters) {
#pragma unroll
      for (int i = 0; i < 4; ++i) q[i] = registers[step][i];
    } else {
      ldmatrix(q, sQ + Tile::Rows::advance(at, 0, 16 * step));
    }
  }
};

/// S = Q K^T for the warp's 16 queries and the tile's keys. rS[n] is the fragment C of keys 8 n to 8 n + 7.
template <class Tile>
__device__ __forceinline__ void multiply_qk(float (&rS)[Tile::Bc / 8][4], const QueryFragments<Tile>& rQ,
                                            const typename Tile::T* sK) {
  const Coord from = row_for_b(threadIdx.x % 32);
  const int at = Tile::Rows::offset(from.row, from.col);
#pragma unroll
  for (int n = 0; n < Tile::Bc / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) rS[n][i] = 0.0f;
  }
#pragma unroll
  for (int step = 0; step < Tile::kHeadDim / 16; ++step) {
    std::uint32_t q[4];
    rQ.get(q, step);
#pragma unroll
    for (int n = 0; n < Tile::Bc / 8; n += 2) {
      std::uint32_t k[4];  // B = K^T, so a row of K is a column of B: 16 keys, 16 columns
      ldmatrix(k, sK + Tile::Rows::advance(at, 8 * n, 16 * step));
      mma<typename Tile::T>(rS[n], q, {k[0], k[1]});
      mma<typename Tile::T>(rS[n + 1], q, {k[2], k[3]});
    }
  }
}

/// O += P V. rO[n] is the fragment C of columns 8 n to 8 n + 7.
template <class Tile>
__device__ __forceinline__ void multiply_pv(float (&rO)[Tile::kHeadDim / 8][4],
                                            const float (&rP)[Tile::Bc / 8][4], const typename Tile::T* sV) {
  using T = typename Tile::T;
  const Coord from = row_for_a(threadIdx.x % 32);
  const int at = Tile::Rows::offset(from.row, from.col);
#pragma unroll
  for (int step = 0; step < Tile::Bc / 16; ++step) {
    // Two fragments C, 16 x 8 each, are one fragment A, 16 x 16: the same lane holds the same elements.
    const float(&left)[4] = rP[2 * step];
    const float(&right)[4] = rP[2 * step + 1];
    const std::uint32_t p[4] = {pack<T>(left[0], left[1]), pack<T>(left[2], left[3]),
                                pack<T>(right[0], right[1]), pack<T>(right[2], right[3])};
#pragma unroll
    for (int n = 0; n < Tile::kHeadDim / 8; n += 2) {
      std::uint32_t v[4];  // B = V, and a row of V is a row of B: transposed on the way. 16 keys, 16 columns
      ldmatrix_transposed(v, sV + Tile::Rows::advance(at, 16 * step, 8 * n));
      mma<T>(rO[n], p, {v[0], v[1]});
      mma<T>(rO[n + 1], p, {v[2], v[3]});
    }
  }
}

// --- softmax in fragments --------------------------------------------------------------------------

/// A lane holds elements of two rows: registers 0 and 1 of each fragment C are of row lane / 4, 2 and 3 of the row
/// 8 further down. The four lanes 4 g to 4 g + 3 share these rows.
struct RowStatistics {
  float m[2] = {-INFINITY, -INFINITY};  ///< the maximum of q.k, without the scale
  float l[2] = {0.0f, 0.0f};            ///< this lane's part of the sum
};

/// Scores of keys that a row does not see become -inf. @param seen  how many keys of the tile each row sees
template <int kFragments>
__device__ __forceinline__ void mask(float (&rS)[kFragments][4], const int (&seen)[2]) {
#pragma unroll
  for (int n = 0; n < kFragments; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Coord element = element_of_c(threadIdx.x % 4, i);  // the column: 8 * n more
      if (8 * n + element.col >= seen[i / 2]) rS[n][i] = -INFINITY;
    }
  }
}

/// The recurrence for one tile: rS becomes P, O and l so far are brought to the new maximum.
template <class Exp, int kFragments, int kOutputs>
__device__ __forceinline__ void online_softmax(float (&rS)[kFragments][4], float (&rO)[kOutputs][4],
                                               RowStatistics& row, float factor) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float m = row.m[half];
#pragma unroll
    for (int n = 0; n < kFragments; ++n) m = fmaxf(m, fmaxf(rS[n][2 * half], rS[n][2 * half + 1]));
    m = warp_reduce<4>(m, [](float a, float b) { return fmaxf(a, b); });
    const float base = m == -INFINITY ? 0.0f : m * factor;  // no key so far: (-inf) - (-inf) would be NaN
    const float correction = Exp::exp(row.m[half] * factor - base);
    float l = 0.0f;
#pragma unroll
    for (int n = 0; n < kFragments; ++n) {
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        rS[n][i] = Exp::exp(rS[n][i] * factor - base);
        l += rS[n][i];
      }
    }
    row.m[half] = m;
    row.l[half] = row.l[half] * correction + l;
#pragma unroll
    for (int n = 0; n < kOutputs; ++n) {
      rO[n][2 * half] *= correction;
      rO[n][2 * half + 1] *= correction;
    }
  }
}

// --- the kernel ------------------------------------------------------------------------------------

/// FlashAttention v2, Algorithm 1 of Dao 2023, with mma: a block for each query tile, a warp for 16 of its rows.
///
///   grid    x: ceil(seq_q / Br), y: heads / kv_heads, z: batch * kv_heads
///   block   Tile::kThreads
///   shared  Tile::kSharedBytes: tiles of K and V, and one of Q unless it takes their place
///   HBM     reads Q once; of K and V, for each block, the keys that its last query sees; writes O and LSE
///           once. traffic_of() in chapter.cu
///
/// K and V come through registers: the loads of one tile are under way while the other is multiplied.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    mma_attention(Attention<typename Tile::T> a) {
  using T = typename Tile::T;
  constexpr int d = Tile::kHeadDim, Br = Tile::Br, Bc = Tile::Bc;
  const Block<Tile> block{a};
  const int first_query = block.first_query(), seen_by_last = block.seen_by_last();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  extern __shared__ float4 smem[];
  T* sQ = reinterpret_cast<T*>(smem);
  T* sK = sQ + (Tile::kQInRegisters ? 0 : Tile::kQTile);
  T* sV = sK + Tile::kKTile;

  TileCopy<Tile, Br> query_tile;
  query_tile.load(block.gQ() + size_t(first_query) * d, a.seq_q - first_query);
  query_tile.store(sQ);
  TileCopy<Tile, Bc> key_tile;
  key_tile.load(block.gK(), seen_by_last);
  __syncthreads();  // every row of Q is there
  const QueryFragments<Tile> rQ(sQ);
  if (Tile::kQInRegisters) __syncthreads();  // every warp has its fragments: K may take their place
  key_tile.store(sK);
  __syncthreads();  // the first key tile is there

  const int row = first_query + warp * 16 + lane / 4;  // and row + 8
  const int seen[2] = {a.visible_keys(row), a.visible_keys(row + 8)};
  const float factor = Tile::Exp::factor(a.scale);
  RowStatistics stats;
  float rO[d / 8][4] = {};
  for (int first_key = 0; first_key < seen_by_last; first_key += Bc) {
    TileCopy<Tile, Bc> value_tile;
    value_tile.load(block.gV() + size_t(first_key) * d, seen_by_last - first_key);
    float rS[Bc / 8][4];
    multiply_qk<Tile>(rS, rQ, sK);
    value_tile.store(sV);
    key_tile.load(block.gK() + size_t(first_key + Bc) * d, seen_by_last - first_key - Bc);
    if (first_key + Bc > seen[0]) mask(rS, {seen[0] - first_key, seen[1] - first_key});
    online_softmax<typename Tile::Exp>(rS, rO, stats, factor);
    __syncthreads();  // the value tile is there, and no warp reads the key tile any more
    multiply_pv<Tile>(rO, rS, sV);
    key_tile.store(sK);
    __syncthreads();  // the next key tile is there, and no warp reads the value tile any more
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float l = warp_reduce<4>(stats.l[half], [](float x, float y) { return x + y; });
    const float inv_l = inverse_or_zero(l);
    const int query = row + 8 * half;
    if (query >= a.seq_q) continue;
    if (lane % 4 == 0) block.gLse()[query] = l == 0.0f ? -INFINITY : stats.m[half] * a.scale + logf(l);
#pragma unroll
    for (int n = 0; n < d / 8; ++n) {
      const int col = 8 * n + element_of_c(lane, 0).col;
      *reinterpret_cast<std::uint32_t*>(block.gO() + size_t(query) * d + col) =
          pack<T>(rO[n][2 * half] * inv_l, rO[n][2 * half + 1] * inv_l);
    }
  }
}

}  // namespace fa
