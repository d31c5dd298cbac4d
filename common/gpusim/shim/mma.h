/// @file
/// <mma.h>: nvcuda::wmma for matrices of 16 x 16 x 16 with 16-bit operands and fp32 accumulators.
///
/// Which lane holds which element is known only to this file, as on a GPU. ldmatrix loads operands from shared
/// memory; accumulators are loaded in pieces of up to 8 bytes. A product is two mma.m16n8k16.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "gpusim_ptx.h"

namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };

template <class Use, int kM, int kN, int kK, class T, class Layout = void>
struct fragment;

/// 16 x 16 elements of an operand: 8 in each lane.
template <class Use, class T, class Layout>
requires(std::is_same_v<Use, matrix_a> ||
         std::is_same_v<Use, matrix_b>) struct fragment<Use, 16, 16, 16, T, Layout> {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
  static constexpr int num_elements = 8;
  alignas(4) T x[num_elements];
};

template <>
struct fragment<accumulator, 16, 16, 16, float, void> {
  static constexpr int num_elements = 8;
  float x[num_elements];  ///< the left half of the columns, then the right one
};

template <class Fragment, class T>
GPUSIM_INLINE void fill_fragment(Fragment& f, T value) {
  for (auto& element : f.x) element = value;
}

/// @param memory  in shared memory; it and all its rows (columns) are 16-byte aligned
template <class Use, class T, class Layout>
GPUSIM_INLINE void load_matrix_sync(fragment<Use, 16, 16, 16, T, Layout>& f, const T* memory, unsigned ldm) {
  // ldmatrix fills a with rows of a, and b with columns of b; transposed, each with the other.
  constexpr bool kIsA = std::is_same_v<Use, matrix_a>;
  constexpr bool kTransposed = kIsA != std::is_same_v<Layout, row_major>;
  const unsigned lane = unsigned(gpusim::device::lane());
  const unsigned low = lane % 8, middle = lane / 8 % 2 * 8, high = lane / 16 * 8;
  // The quarters of the matrix in memory, in the order of the registers: down first, or to the right first.
  constexpr bool kDownFirst = std::is_same_v<Layout, row_major>;
  const unsigned line = low + (kDownFirst ? middle : high), column = kDownFirst ? high : middle;
  std::uint32_t registers[4];
  gpusim::ptx::ldmatrix<kTransposed>(registers, memory + line * ldm + column);
  __builtin_memcpy(f.x, registers, sizeof registers);
}

/// Row and column of elements 2 * i and 2 * i + 1 of an accumulator: neighbours in a row.
GPUSIM_INLINE unsigned row_of_pair(int i) { return unsigned(gpusim::device::lane() / 4 + 8 * (i % 2)); }
GPUSIM_INLINE unsigned column_of_pair(int i) {
  return unsigned(gpusim::device::lane() % 4 * 2 + 8 * (i / 2));
}

GPUSIM_INLINE void load_matrix_sync(fragment<accumulator, 16, 16, 16, float>& f, const float* memory,
                                    unsigned ldm, layout_t layout) {
  gpusim::device::warp_rendezvous(~0u, gpusim::device::WarpOp::kMatrixLoad, nullptr, nullptr);
  for (int i = 0; i < 4; ++i) {
    const unsigned row = row_of_pair(i), column = column_of_pair(i);
    if (layout == mem_row_major) {
      const float2 pair = *reinterpret_cast<const float2*>(memory + row * ldm + column);
      f.x[2 * i] = pair.x;
      f.x[2 * i + 1] = pair.y;
    } else {
      f.x[2 * i] = memory[column * ldm + row];
      f.x[2 * i + 1] = memory[(column + 1) * ldm + row];
    }
  }
}

GPUSIM_INLINE void store_matrix_sync(float* memory, const fragment<accumulator, 16, 16, 16, float>& f,
                                     unsigned ldm, layout_t layout) {
  gpusim::device::warp_rendezvous(~0u, gpusim::device::WarpOp::kMatrixLoad, nullptr, nullptr);
  for (int i = 0; i < 4; ++i) {
    const unsigned row = row_of_pair(i), column = column_of_pair(i);
    if (layout == mem_row_major) {
      *reinterpret_cast<float2*>(memory + row * ldm + column) = make_float2(f.x[2 * i], f.x[2 * i + 1]);
    } else {
      memory[column * ldm + row] = f.x[2 * i];
      memory[(column + 1) * ldm + row] = f.x[2 * i + 1];
    }
  }
}

/// d = a * b + c
template <class T, class LayoutA, class LayoutB>
GPUSIM_INLINE void mma_sync(fragment<accumulator, 16, 16, 16, float>& d,
                            const fragment<matrix_a, 16, 16, 16, T, LayoutA>& a,
                            const fragment<matrix_b, 16, 16, 16, T, LayoutB>& b,
                            const fragment<accumulator, 16, 16, 16, float>& c) {
  constexpr auto kType =
      std::is_same_v<T, __half> ? gpusim::device::MmaType::kFloat16 : gpusim::device::MmaType::kBFloat16;
  std::uint32_t rA[4], rB[4];
  __builtin_memcpy(rA, a.x, sizeof rA);
  __builtin_memcpy(rB, b.x, sizeof rB);
  constexpr int kSince = std::is_same_v<T, __half> ? 70 : 80;
  gpusim::device::mma_m16n8k16(kType, d.x, rA, rB, c.x, kSince);
  gpusim::device::mma_m16n8k16(kType, d.x + 4, rA, rB + 2, c.x + 4, kSince);
}

}  // namespace nvcuda::wmma
