/// @file
/// Which address each lane gives to ldmatrix, so that it fills fragments. Taught by chapter 06.
#pragma once

#include <cuda_runtime.h>

#include "device/mma.cuh"
#include "device/tensor_core.cuh"

namespace fa {

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
