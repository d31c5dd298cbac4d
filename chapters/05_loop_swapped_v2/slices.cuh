/// @file
/// Key tiles that come in slices, with K transposed on the way to shared memory. Taught by chapter 05.
#pragma once

#include <cuda_runtime.h>

#include "device/tile.cuh"

namespace fa {

/// Where a quad of a matrix begins.
struct Place {
  int row, col;
};

/// Quad n of a matrix of kRows rows that is to be transposed. Lanes 2i and 2i + 1 take 32 neighbouring bytes, a
/// sector, and a warp takes 16 rows: store_transposed() then finds 32 banks.
template <int kRows>
__device__ __forceinline__ Place transposed_place(int n) {
  return {n / 2 % kRows, 4 * (n % 2 + n / (2 * kRows) * 2)};
}

/// Quad n of a matrix of kCols columns, row by row.
template <int kCols>
__device__ __forceinline__ Place plain_place(int n) {
  return {4 * n / kCols, 4 * n % kCols};
}

/// A quad of a matrix of kCols columns, or zeros for a row behind the last.
template <int kCols>
__device__ __forceinline__ float4 quad_or_zero(const float* matrix, Place at, int rows) {
  return at.row < rows ? load_float4(matrix + at.row * kCols + at.col) : float4{0.0f, 0.0f, 0.0f, 0.0f};
}

/// A quad of a row becomes part of four columns.
///
/// @tparam kStride  floats from one column to the next: 4 more than a multiple of 32
template <int kStride>
__device__ __forceinline__ void store_transposed(float* s, Place at, float4 x) {
  s += at.col * kStride + at.row;
  s[0] = x.x;
  s[kStride] = x.y;
  s[2 * kStride] = x.z;
  s[3 * kStride] = x.w;
}

/// The slices of all key tiles, in the order in which they are needed: K of the first tile, its V, K of the next
/// one, ... A slice of K is Tile::kColsOfK columns of all keys of the tile, transposed. A slice of V is
/// Tile::kKeysOfV rows. Tile: see RegisterTiles of chapter 05.
template <class Tile>
struct Slices {
  const float* k;  ///< next column of the key tile
  const float* v;  ///< next value
  int keys;        ///< from the first of the key tile on. Behind the last one all slices are zeros
  int slice = 0;   ///< of the key tile, the next to be loaded
  float4 next[Tile::kQuads];

  /// Loads this thread's quads of the next slice to registers.
  __device__ __forceinline__ void load() {
    if (slice < Tile::kSlicesOfK) {
      for (int i = 0; i < Tile::kQuads; ++i) next[i] = quad_or_zero<Tile::kHeadDim>(k, place_in_k(i), keys);
      k += Tile::kColsOfK;
    } else {
      const int left = keys - (slice - Tile::kSlicesOfK) * Tile::kKeysOfV;
      for (int i = 0; i < Tile::kQuads; ++i) next[i] = quad_or_zero<Tile::kHeadDim>(v, place_in_v(i), left);
      v += Tile::kSlice;
    }
  }

  /// Stores them. Then the one after it can be loaded.
  __device__ __forceinline__ void store(float* sSlice) {
    for (int i = 0; i < Tile::kQuads; ++i) {
      if (slice < Tile::kSlicesOfK) {
        store_transposed<Tile::kKStride>(sSlice, place_in_k(i), next[i]);
      } else {
        const Place at = place_in_v(i);
        store_float4(sSlice + at.row * Tile::kHeadDim + at.col, next[i]);
      }
    }
    if (++slice < Tile::kSlices) return;
    slice = 0;
    keys -= Tile::Bc;
    k += (Tile::Bc - 1) * Tile::kHeadDim;  // all columns of these keys have been loaded
  }

 private:
  __device__ __forceinline__ static Place place_in_k(int i) {
    return transposed_place<Tile::Bc>(threadIdx.x + i * Tile::kThreads);
  }
  __device__ __forceinline__ static Place place_in_v(int i) {
    return plain_place<Tile::kHeadDim>(threadIdx.x + i * Tile::kThreads);
  }
};

}  // namespace fa
