/// @file
/// The products of the tensor-core kernels, and P and dS as operands.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "device/convert.cuh"
#include "device/fragments.cuh"
#include "device/tensor_core.cuh"

namespace fa::ch08 {

/// A warp's part of a product: fragments C, [rows / 16][columns / 8].
template <class Tile, int kCols>
using Fragments = float[Tile::kRowFragments][kCols / 8][4];

/// P^T or dS^T (P or dS where queries are rows) in 16 bits: fragments A, [rows / 16][columns / 16].
template <class Tile>
using Operand = std::uint32_t[Tile::kRowFragments][Tile::kScoreCols / 16][4];

/// C += A B for 16 columns of B, whose four registers ldmatrix has loaded. @param rC  two adjacent fragments
template <class T>
__device__ __forceinline__ void mma_16_columns(float (*rC)[4], const std::uint32_t (&a)[4],
                                               const std::uint32_t (&b)[4]) {
  mma<T>(rC[0], a, {b[0], b[1]});
  mma<T>(rC[1], a, {b[2], b[3]});
}

/// C = A B^T, for kScoreCols rows of B: S^T = K Q^T and dP^T = V dO^T. Each row of B is a column of the
/// operand.
/// @param sA  the warp's rows
template <class Tile>
__device__ __forceinline__ void mma_nt(Fragments<Tile, Tile::kScoreCols>& rC, const typename Tile::T* sA,
                                       const typename Tile::T* sB) {
  using T = typename Tile::T;
  using Rows = typename Tile::Rows;
  const Coord from_a = row_for_a(threadIdx.x % 32), from_b = row_for_b(threadIdx.x % 32);
  const int at_a = Rows::offset(from_a.row, from_a.col), at_b = Rows::offset(from_b.row, from_b.col);
#pragma unroll
  for (int mi = 0; mi < Tile::kRowFragments; ++mi) {
#pragma unroll
    for (int ni = 0; ni < Tile::kScoreCols / 8; ++ni) {
#pragma unroll
      for (int i = 0; i < 4; ++i) rC[mi][ni][i] = 0.0f;
    }
  }
#pragma unroll
  for (int step = 0; step < Tile::kHeadDim / 16; ++step) {
    std::uint32_t a[Tile::kRowFragments][4];
#pragma unroll
    for (int mi = 0; mi < Tile::kRowFragments; ++mi)
      ldmatrix(a[mi], sA + Rows::advance(at_a, 16 * mi, 16 * step));
#pragma unroll
    for (int ni = 0; ni < Tile::kScoreCols / 16; ++ni) {
      std::uint32_t b[4];
      ldmatrix(b, sB + Rows::advance(at_b, 16 * ni, 16 * step));
#pragma unroll
      for (int mi = 0; mi < Tile::kRowFragments; ++mi) mma_16_columns<T>(rC[mi] + 2 * ni, a[mi], b);
    }
  }
}

/// C += A B, for kScoreCols rows of B: dV += P^T dO, dK += dS^T Q, dQ += dS K. Each row of B is a row of the
/// operand.
/// @param sB  at the first of the warp's columns
template <class Tile>
__device__ __forceinline__ void mma_nn(Fragments<Tile, Tile::kCols>& rC, const Operand<Tile>& rA,
                                       const typename Tile::T* sB) {
  using T = typename Tile::T;
  using Rows = typename Tile::Rows;
  const Coord from = row_for_a(threadIdx.x % 32);
  const int offset = Rows::offset(from.row, from.col);
#pragma unroll
  for (int step = 0; step < Tile::kScoreCols / 16; ++step) {
#pragma unroll
    for (int ni = 0; ni < Tile::kCols / 16; ++ni) {
      std::uint32_t b[4];
      ldmatrix_transposed(b, sB + Rows::advance(offset, 16 * step, 16 * ni));
#pragma unroll
      for (int mi = 0; mi < Tile::kRowFragments; ++mi) mma_16_columns<T>(rC[mi] + 2 * ni, rA[mi][step], b);
    }
  }
}

/// Rounds C to 16 bits. Two adjacent fragments C are one fragment A (chapter 06).
template <class Tile>
__device__ __forceinline__ void to_operand(Operand<Tile>& rA, const Fragments<Tile, Tile::kScoreCols>& rC) {
#pragma unroll
  for (int mi = 0; mi < Tile::kRowFragments; ++mi) {
#pragma unroll
    for (int step = 0; step < Tile::kScoreCols / 16; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* pair = row_pair(rC[mi][2 * step + i / 2], i % 2);
        rA[mi][step][i] = pack<typename Tile::T>(pair[0], pair[1]);
      }
    }
  }
}

/// Stores the warp's part of P^T or dS^T, [Bc, Br].
/// @param s  at element (first key of the warp, 0)     @param query  the first query
template <class Tile>
__device__ __forceinline__ void store_operand(typename Tile::T* s, int query, const Operand<Tile>& rA) {
#pragma unroll
  for (int mi = 0; mi < Tile::kRowFragments; ++mi) {
#pragma unroll
    for (int step = 0; step < Tile::kScoreCols / 16; ++step) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Coord pos = element_of_a(threadIdx.x % 32, 2 * i);  // and the element to its right
        *reinterpret_cast<std::uint32_t*>(
            s + Tile::PRows::offset(16 * mi + pos.row, query + 16 * step + pos.col)) = rA[mi][step][i];
      }
    }
  }
}
/// Loads such a part, which another warp may have stored.
template <class Tile>
__device__ __forceinline__ void load_operand(Operand<Tile>& rA, const typename Tile::T* s, int query) {
  const Coord from = row_for_a(threadIdx.x % 32);
  const int offset = Tile::PRows::offset(from.row, query + from.col);
#pragma unroll
  for (int mi = 0; mi < Tile::kRowFragments; ++mi) {
#pragma unroll
    for (int step = 0; step < Tile::kScoreCols / 16; ++step) {
      ldmatrix(rA[mi][step], s + Tile::PRows::advance(offset, 16 * mi, 16 * step));
    }
  }
}

}  // namespace fa::ch08
