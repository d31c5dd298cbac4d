/// @file
/// The portable way to use tensor cores, for comparison: nvcuda::wmma, which hides which lane holds which
/// element.
#pragma once

#include <cuda_runtime.h>
#include <mma.h>

#include <cmath>
#include <cstddef>

#include "device/attention.cuh"
#include "device/convert.cuh"
#include "device/declare_rows.cuh"
#include "device/math.cuh"
#include "device/reduce.cuh"
#include "tiles.cuh"

namespace fa::ch06 {

/// How `wmma` divides the problem: as `mma` does, with a tile of S for each warp in shared memory.
template <class Element, int kHeadDimension, template <int> class Layout>
struct WmmaTiles : MmaTiles<Element, kHeadDimension, Layout, false, void> {
  using Base = MmaTiles<Element, kHeadDimension, Layout, false, void>;
  static constexpr int kScoreStride = Base::Bc + 4;              ///< floats from one row of S to the next
  static constexpr int kFloatsPerWarp = 16 * kScoreStride + 16;  ///< S, later P; a factor for each row
  static constexpr int kSharedBytes = Base::kSharedBytes + int(sizeof(float)) * Base::kWarps * kFloatsPerWarp;
};

/// f[row, col] *= sFactor[row]. The library does not say which elements a lane holds, but a lane holds the
/// same ones of every accumulator. So the factors are loaded as a matrix whose columns, 0 elements apart, are
/// all sFactor.
template <class Accumulator>
__device__ __forceinline__ void scale_rows(Accumulator& f, const float* sFactor) {
  Accumulator factor;
  nvcuda::wmma::load_matrix_sync(factor, sFactor, 0, nvcuda::wmma::mem_col_major);
  for (int i = 0; i < f.num_elements; ++i) f.x[i] *= factor.x[i];
}

/// FlashAttention v2 with nvcuda::wmma, which hides which lane holds which element. The softmax works on
/// rows, so it goes through shared memory: S is stored there, and P and the correction of each row are loaded
/// from there.
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
  declare_rows<kStride>(sQ, sK, sV);
  declare_rows<Tile::kScoreStride>(sS);

  TileCopy<Tile, Tile::Br> query_tile;
  query_tile.load(block.gQ() + size_t(first_query) * d, a.seq_q - first_query);
  query_tile.store(sQ);
  TileCopy<Tile, Bc> key_tile;
  key_tile.load(block.gK(), seen_by_last);
  key_tile.store(sK);
  __syncthreads();  // Q and the first key tile are in shared memory

  const int query = first_query + warp * 16 + lane / 2;
  float m = -INFINITY, l = 0.0f;  // of the row; l: over this lane's columns only
  Accumulator rO[d / 16];
  for (int ni = 0; ni < d / 16; ++ni) wmma::fill_fragment(rO[ni], 0.0f);
  for (int first_key = 0; first_key < seen_by_last; first_key += Bc) {
    TileCopy<Tile, Bc> value_tile;
    value_tile.load(block.gV() + size_t(first_key) * d, seen_by_last - first_key);
    for (int key = 0; key < Bc; key += 16) {
      Accumulator s;
      wmma::fill_fragment(s, 0.0f);
      for (int col = 0; col < d; col += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> q;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::col_major> k;
        wmma::load_matrix_sync(q, sQ + warp * 16 * kStride + col, kStride);
        wmma::load_matrix_sync(k, sK + key * kStride + col, kStride);
        wmma::mma_sync(s, q, k, s);
      }
      wmma::store_matrix_sync(sS + key, s, Tile::kScoreStride, wmma::mem_row_major);
    }
    value_tile.store(sV);
    key_tile.load(block.gK() + size_t(first_key + Bc) * d, seen_by_last - first_key - Bc);
    __syncwarp();  // all of S is in shared memory

    const int seen = a.visible_keys(query) - first_key;
    float rP[Bc / 2];
    float m_new = m;
    for (int i = 0; i < Bc / 2; ++i) {
      const int col = 2 * i + lane % 2;
      rP[i] = col < seen ? __fmul_rn(sRow[col], a.scale) : -INFINITY;  // rounded, as the maximum is
      m_new = fmaxf(m_new, rP[i]);
    }
    m_new = warp_reduce<2>(m_new, Max());
    const float base = m_new == -INFINITY ? 0.0f : m_new;
    const float correction = expf(m - base);
    m = m_new;
    l *= correction;
    if (lane % 2 == 0) sFactor[lane / 2] = correction;
    __syncwarp();  // S has been read: P may overwrite it
    for (int i = 0; i < Bc / 2; ++i) {
      const float p = expf(rP[i] - base);
      l += p;
      sP[lane / 2 * 2 * Tile::kScoreStride + 2 * i + lane % 2] = T(p);
    }
    __syncthreads();  // P and the value tile are in shared memory, and no warp reads the key tile any more
    for (int ni = 0; ni < d / 16; ++ni) scale_rows(rO[ni], sFactor);
    for (int key = 0; key < Bc; key += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> p;
      wmma::load_matrix_sync(p, sP + key, 2 * Tile::kScoreStride);
      for (int ni = 0; ni < d / 16; ++ni) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> v;
        wmma::load_matrix_sync(v, sV + key * kStride + 16 * ni, kStride);
        wmma::mma_sync(rO[ni], p, v, rO[ni]);
      }
    }
    key_tile.store(sK);
    __syncthreads();  // the next key tile is in shared memory, and no warp reads P or the value tile any more
  }

  l = warp_reduce<2>(l, Sum());
  if (lane % 2 == 0) sFactor[lane / 2] = inverse_or_zero(l);
  if (lane % 2 == 0 && query < a.seq_q) block.gLse()[query] = l == 0.0f ? -INFINITY : m + logf(l);
  __syncwarp();  // all factors are in shared memory
  for (int ni = 0; ni < d / 16; ++ni) {
    scale_rows(rO[ni], sFactor);
    wmma::store_matrix_sync(sS, rO[ni], Tile::kScoreStride, wmma::mem_row_major);
    __syncwarp();  // 16 columns of O are in shared memory: each lane takes 8 of them
    const float* sHalf = sRow + lane % 2 * 8;
    const uint4 o = make_uint4(pack<T>(sHalf[0], sHalf[1]), pack<T>(sHalf[2], sHalf[3]),
                               pack<T>(sHalf[4], sHalf[5]), pack<T>(sHalf[6], sHalf[7]));
    if (query < a.seq_q)
      *reinterpret_cast<uint4*>(block.gO() + size_t(query) * d + 16 * ni + lane % 2 * 8) = o;
    __syncwarp();  // every lane has read them
  }
}

}  // namespace fa::ch06
