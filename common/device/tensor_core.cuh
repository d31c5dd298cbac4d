/// @file
/// The tensor-core instructions for either 16-bit type. Taught by chapter 06.
///
/// mma.m16n8k16 multiplies and adds matrices whose elements are distributed over the registers of 32 lanes;
/// fragments.cuh has the maps. ldmatrix loads 8 x 8 matrices of 16-bit elements: lane 8 * i + r supplies the
/// address of row r of matrix i, 16 aligned bytes. From each matrix M, lane 4 * g + t receives the pair
/// M[g][2 * t] and M[g][2 * t + 1] in one register; transposed, M[2 * t][g] and M[2 * t + 1][g].
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "device/ptx.cuh"

namespace fa {

/// c += a * b. All 32 lanes execute it together. @tparam T  of a and b: __half or __nv_bfloat16
template <class T>
__device__ __forceinline__ void mma(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
  if constexpr (std::is_same_v<T, __half>) {
    ptx::mma_m16n8k16_f16(c, a, b);
  } else {
    ptx::mma_m16n8k16_bf16(c, a, b);
  }
}

/// Loads kMatrices = 1, 2 or 4 matrices, one into each register. All 32 lanes execute it together.
/// @param row  in shared memory; ignored in lanes from 8 * kMatrices on
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

}  // namespace fa
