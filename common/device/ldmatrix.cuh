/// @file
/// From shared memory to fragments. Taught by chapter 06.
///
/// ldmatrix loads matrices of 8 x 8 elements of 16 bits: lane 8 * m + r gives the address of row r of matrix m, 16
/// aligned bytes. Lane 4 * g + t receives, of each matrix M, the pair M[g][2 * t], M[g][2 * t + 1] in one register;
/// transposed, M[2 * t][g] and M[2 * t + 1][g].
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "device/mma.cuh"
#include "device/ptx.cuh"

namespace fa {

/// Loads kMatrices = 1, 2 or 4 matrices, one into each register. All 32 lanes execute it together.
/// @param row  in shared memory; that of lanes from 8 * kMatrices on is not used
template <int kMatrices, class T>
__device__ __forceinline__ void ldmatrix(std::uint32_t (&registers)[kMatrices], const T* row) {
  static_assert(sizeof(T) == 2);
  ptx::ldmatrix<false>(registers, row);
}
template <int kMatrices, class T>
__device__ __forceinline__ void ldmatrix_transposed(std::uint32_t (&registers)[kMatrices], const T* row) {
  static_assert(sizeof(T) == 2);
  ptx::ldmatrix<true>(registers, row);
}

/// The element of a 16 x 16 tile whose address this lane gives, so that ldmatrix fills fragment A with the tile. The
/// matrices are the quarters of the tile in the order of A's registers: down, then to the right.
///
/// Transposed, the same addresses load the tile as B: two fragments of 16 x 8, the left half in registers 0 and 1.
__host__ __device__ constexpr Coord row_for_a(int lane) { return {lane % 16, lane / 16 * 8}; }

/// The same for a tile that is B^T: 16 columns of B, one in each row. The quarters are taken to the right, then down:
/// registers 0 and 1 are B's fragment for the first 8 rows of the tile, registers 2 and 3 for the last.
__host__ __device__ constexpr Coord row_for_b(int lane) {
  return {lane % 8 + lane / 16 * 8, lane / 8 % 2 * 8};
}

}  // namespace fa
