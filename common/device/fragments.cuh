/// @file
/// Fragments: which lane holds which element of the operands of mma, and which rows it passes to ldmatrix.
/// Taught by chapter 06.
///
/// mma.m16n8k16: D = A B + C, with A 16 x 16 and B 16 x 8 in 16 bits, C and D 16 x 8 in fp32. Each of the
/// three is a fragment: distributed over the registers of the 32 lanes. With lane = 4 * g + t, register i of
///
///   A   holds row g + 8 * (i % 2), columns 2 * t + 8 * (i / 2) and the one after
///   B   holds column g, rows 2 * t + 8 * i and the one after
///   C   holds row g + 8 * (i / 2), column 2 * t + i % 2
///
/// Two 16-bit elements share a register, the first in the lower half.
#pragma once

#include <cuda_runtime.h>

namespace fa {

/// Row and column of an element in its matrix.
struct Coord {
  int row, col;
};

/// Element i of the 8 that a lane holds of A (16 x 16).
__host__ __device__ constexpr Coord element_of_a(int lane, int i) {
  return {lane / 4 + 8 * (i / 2 % 2), lane % 4 * 2 + i % 2 + 8 * (i / 4)};
}
/// Element i of the 4 that a lane holds of B (16 x 8).
__host__ __device__ constexpr Coord element_of_b(int lane, int i) {
  return {lane % 4 * 2 + i % 2 + 8 * (i / 2), lane / 4};
}
/// Element i of the 4 that a lane holds of C and D (16 x 8).
__host__ __device__ constexpr Coord element_of_c(int lane, int i) {
  return {lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2};
}

/// The two neighbouring elements of C that a lane holds in row lane / 4 (half 0), or in the row 8 further
/// down (half 1).
__device__ __forceinline__ float* row_pair(float (&c)[4], int half) { return c + 2 * half; }
__device__ __forceinline__ const float* row_pair(const float (&c)[4], int half) { return c + 2 * half; }

/// The element of a 16 x 16 tile whose address this lane supplies, so that ldmatrix fills fragment A with the
/// tile. The matrices are the quarters of the tile in the order of A's registers: down, then to the right.
///
/// Transposed, the same addresses load the tile as B: two 16 x 8 fragments, the left half in registers 0
/// and 1.
__host__ __device__ constexpr Coord row_for_a(int lane) { return {lane % 16, lane / 16 * 8}; }

/// The same for a tile of B^T: each row is a column of B. The quarters are taken to the right, then down:
/// registers 0 and 1 are B's fragment for the first 8 rows of the tile, registers 2 and 3 for the last 8.
__host__ __device__ constexpr Coord row_for_b(int lane) {
  return {lane % 8 + lane / 16 * 8, lane / 8 % 2 * 8};
}

}  // namespace fa
