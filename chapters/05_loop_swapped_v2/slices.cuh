/// @file
/// Loads key tiles from HBM in slices, and transposes K on the way to shared memory.
#pragma once

#include <cuda_runtime.h>

#include "device/attention.cuh"
#include "device/tile.cuh"

namespace fa::ch05 {

struct Coord {
  int row, col;
};

/// Where float4 n of a matrix of kRows rows begins, if the matrix is to be transposed. Lanes 2i and 2i + 1
/// take 32 neighbouring bytes, a sector, and a warp takes 16 rows: store_transposed() then writes to 32
/// different banks.
template <int kRows>
__device__ __forceinline__ Coord coord_to_transpose(int n) {
  return {n / 2 % kRows, 4 * (n % 2 + n / (2 * kRows) * 2)};
}

/// Where float4 n of a matrix of kCols columns begins, counted row by row.
template <int kCols>
__device__ __forceinline__ Coord coord_by_rows(int n) {
  return {4 * n / kCols, 4 * n % kCols};
}

/// 16 bytes of a matrix, or zeros if it has no such row or no such columns. With Tile::kDense it has all
/// columns.
template <class Tile>
__device__ __forceinline__ float4 load_float4_or_zero(HeadRows<const float> matrix, Coord at, int rows,
                                                      int cols) {
  const bool exists = at.row < rows && (Tile::kDense || at.col < cols);
  return exists ? load_float4(matrix[at.row] + at.col) : float4{0.0f, 0.0f, 0.0f, 0.0f};
}

/// Transposes: stores four neighbours of a row to four columns.
///
/// @tparam kStride  floats from one column to the next: 4 more than a multiple of 32
template <int kStride>
__device__ __forceinline__ void store_transposed(float* s, Coord at, float4 x) {
  s += at.col * kStride + at.row;
  s[0] = x.x;
  s[kStride] = x.y;
  s[2 * kStride] = x.z;
  s[3 * kStride] = x.w;
}

/// The slices of all key tiles in the order in which they are needed: K of the first tile, its V, K of the
/// next tile,
/// ... A slice of K is Tile::kColsOfK columns of all keys of the tile, transposed. A slice of V is
/// Tile::kKeysOfV rows.
template <class Tile>
struct Slices {
  HeadRows<const float> k;  ///< the next columns of the key tile
  HeadRows<const float> v;  ///< the next rows of V
  int keys;       ///< from the first of the key tile to the last of all; slices after them are zeros
  int cols;       ///< head_dim; columns after these are zeros
  int slice = 0;  ///< the slice of the key tile to load next
  float4 next[Tile::kFloat4s];

  /// Loads this thread's share of the next slice into registers.
  __device__ __forceinline__ void load() {
    if (slice < Tile::kSlicesOfK) {
      const int left = cols - slice * Tile::kColsOfK;
      for (int i = 0; i < Tile::kFloat4s; ++i) {
        next[i] = load_float4_or_zero<Tile>(k, coord_in_k(i), keys, left);
      }
      k.first += Tile::kColsOfK;
    } else {
      const int left = keys - (slice - Tile::kSlicesOfK) * Tile::kKeysOfV;
      for (int i = 0; i < Tile::kFloat4s; ++i) {
        next[i] = load_float4_or_zero<Tile>(v, coord_in_v(i), left, cols);
      }
      v.first += Tile::kKeysOfV * v.stride;
    }
  }

  /// Stores what load() has loaded. Then the next slice can be loaded.
  __device__ __forceinline__ void store(float* sSlice) {
    for (int i = 0; i < Tile::kFloat4s; ++i) {
      if (slice < Tile::kSlicesOfK) {
        store_transposed<Tile::kKStride>(sSlice, coord_in_k(i), next[i]);
      } else {
        const Coord at = coord_in_v(i);
        store_float4(sSlice + at.row * Tile::kHeadDim + at.col, next[i]);
      }
    }
    if (++slice < Tile::kSlices) return;
    slice = 0;
    keys -= Tile::Bc;
    k.first += Tile::Bc * k.stride - Tile::kHeadDim;  // all columns of these keys have been loaded
  }

 private:
  __device__ __forceinline__ static Coord coord_in_k(int i) {
    return coord_to_transpose<Tile::Bc>(threadIdx.x + i * Tile::kThreads);
  }
  __device__ __forceinline__ static Coord coord_in_v(int i) {
    return coord_by_rows<Tile::kHeadDim>(threadIdx.x + i * Tile::kThreads);
  }
};

}  // namespace fa::ch05
