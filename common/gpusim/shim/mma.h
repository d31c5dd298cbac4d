/// @file
/// <mma.h>: nvcuda::wmma for matrices of 16 x 16 x 16, 32 x 8 x 16 and 8 x 32 x 16 with 16-bit operands and
/// accumulators in fp32 or fp16.
///
/// Which lane holds which element is known only to this file, as on a GPU. From shared memory, ldmatrix loads
/// operands; from global memory, each lane loads pairs of elements. Accumulators are loaded in pairs too
/// where these are neighbours. A product is two mma.m16n8k16.
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

/// What is not simulated: products of integers, of doubles and of tf32.
template <class Use, int kM, int kN, int kK, class T, class Layout = void>
struct fragment {
  static_assert(!std::is_same_v<T, T>,
                "simulated are 16 x 16 x 16, 32 x 8 x 16 and 8 x 32 x 16 with operands of __half or "
                "__nv_bfloat16, which "
                "have a layout, and accumulators of float or __half, which have none");
};

template <int kM, int kN, int kK>
concept IsShape = kK == 16 && ((kM == 16 && kN == 16) || (kM == 32 && kN == 8) || (kM == 8 && kN == 32));

/// M x 16 or 16 x N elements of an operand, divided among the 32 lanes.
template <class Use, int kM, int kN, int kK, class T, class Layout>
requires(IsShape<kM, kN, kK> &&
         (std::is_same_v<Use, matrix_a> || std::is_same_v<Use, matrix_b>)&&(
             std::is_same_v<T, __half> ||
             std::is_same_v<T, __nv_bfloat16>)&&(std::is_same_v<Layout, row_major> ||
                                                 std::is_same_v<Layout,
                                                                col_major>)) struct fragment<Use, kM, kN, kK,
                                                                                             T, Layout> {
  using element_type = T;
  static constexpr int num_elements = (std::is_same_v<Use, matrix_a> ? kM : kN) / 2;
  alignas(4) T x[num_elements];
};

/// M x N sums: 8 in each lane.
template <int kM, int kN, int kK, class T>
requires(IsShape<kM, kN, kK> &&
         (std::is_same_v<T, float> ||
          std::is_same_v<T, __half>)) struct fragment<accumulator, kM, kN, kK, T, void> {
  using element_type = T;
  static constexpr int num_elements = 8;
  alignas(2 * sizeof(T)) T x[num_elements];
};

template <class Use, int kM, int kN, int kK, class T, class Layout>
GPUSIM_INLINE void fill_fragment(fragment<Use, kM, kN, kK, T, Layout>& f, gpusim::type_identity_t<T> value) {
  for (auto& element : f.x) element = value;
}

/// The product that is computed has 16 or 32 rows and 8 or 16 columns: of 8 x 32 elements, it is the
/// transposed one.
template <int kM>
inline constexpr bool kIsTransposed = kM == 8;

/// One of the 8 x 8 matrices of which an operand consists. `line` counts rows of A, or columns of B.
struct Piece {
  unsigned line, k;
};

/// Piece i, whose elements are in register i of an mma: first down in A, and first to the right in B.
template <bool kIsRows>
GPUSIM_INLINE Piece piece(unsigned i) {
  if (kIsRows) return {i / 4 * 16 + i % 2 * 8, i / 2 % 2 * 8};
  return {i / 2 * 8, i % 2 * 8};
}

/// @param memory  in shared or global memory; it and all its rows (columns) are 16-byte aligned
template <class Use, int kM, int kN, int kK, class T, class Layout>
requires(!std::is_same_v<Use, accumulator>) GPUSIM_INLINE
    void load_matrix_sync(fragment<Use, kM, kN, kK, T, Layout>& f, const T* memory, unsigned ldm) {
  constexpr bool kIsA = std::is_same_v<Use, matrix_a>;
  constexpr bool kIsRows = kIsA != kIsTransposed<kM>;  // of the product that is computed
  constexpr bool kAlongK = kIsA == std::is_same_v<Layout, row_major>;
  constexpr unsigned kPieces = fragment<Use, kM, kN, kK, T, Layout>::num_elements / 2;
  // Where an 8 x 8 matrix begins in memory.
  const auto begin = [&](unsigned i) __attribute__((always_inline)) {
    const Piece p = piece<kIsRows>(i);
    return memory + (kAlongK ? p.line * ldm + p.k : p.k * ldm + p.line);
  };
  const unsigned lane = unsigned(gpusim::device::lane());
  std::uint32_t registers[kPieces];
  if (gpusim::device::is_shared(memory)) {
    constexpr int kAtOnce = kPieces < 4 ? kPieces : 4;
    for (unsigned i = 0; i < kPieces; i += kAtOnce) {
      std::uint32_t loaded[kAtOnce];
      gpusim::ptx::ldmatrix<!kAlongK>(loaded, begin(i + lane / 8 % kAtOnce) + lane % 8 * ldm);
      __builtin_memcpy(registers + i, loaded, sizeof loaded);
    }
  } else {
    gpusim::device::warp_rendezvous(~0u, gpusim::device::WarpOp::kMatrixLoad, nullptr, nullptr);
    for (unsigned i = 0; i < kPieces; ++i) {
      const T* const pair = begin(i) + lane / 4 * ldm + lane % 4 * 2;
      const std::uint32_t loaded = *reinterpret_cast<const std::uint32_t*>(pair);
      registers[i] = kAlongK ? loaded : gpusim::device::transpose_matrix(loaded);
    }
  }
  __builtin_memcpy(f.x, registers, sizeof registers);
}

/// Row and column of elements i and i + 1 of an accumulator, for an even i: neighbours in a row, or, in a
/// transposed product, in a column.
struct Place {
  unsigned row, column;
};
template <int kM, int kN>
GPUSIM_INLINE Place place_of_pair(int i) {
  const int lane = gpusim::device::lane(), part = i / 4;
  const unsigned across = unsigned(lane % 4 * 2 + (kM == kN ? 8 * part : 0));
  const unsigned down = unsigned(lane / 4 + i % 4 * 4 + (kM == kN ? 0 : 16 * part));
  return kIsTransposed<kM> ? Place{across, down} : Place{down, across};
}

/// Two neighbours in memory, in one access.
template <class T>
using Pair [[gnu::may_alias]] = std::conditional_t<sizeof(T) == 4, std::uint64_t, std::uint32_t>;

template <int kM, int kN, int kK, class T>
GPUSIM_INLINE void load_matrix_sync(fragment<accumulator, kM, kN, kK, T>& f, const T* memory, unsigned ldm,
                                    layout_t layout) {
  gpusim::device::warp_rendezvous(~0u, gpusim::device::WarpOp::kMatrixLoad, nullptr, nullptr);
  for (int i = 0; i < 8; i += 2) {
    const Place at = place_of_pair<kM, kN>(i);
    const unsigned offset = layout == mem_row_major ? at.row * ldm + at.column : at.column * ldm + at.row;
    if ((layout == mem_row_major) != kIsTransposed<kM>) {
      const Pair<T> pair = *reinterpret_cast<const Pair<T>*>(memory + offset);
      __builtin_memcpy(f.x + i, &pair, sizeof pair);
    } else {  // one access if ldm is the constant 0
      f.x[i] = memory[offset];
      f.x[i + 1] = memory[offset + ldm];
    }
  }
}

template <int kM, int kN, int kK, class T>
GPUSIM_INLINE void store_matrix_sync(T* memory, const fragment<accumulator, kM, kN, kK, T>& f, unsigned ldm,
                                     layout_t layout) {
  gpusim::device::warp_rendezvous(~0u, gpusim::device::WarpOp::kMatrixLoad, nullptr, nullptr);
  for (int i = 0; i < 8; i += 2) {
    const Place at = place_of_pair<kM, kN>(i);
    const unsigned offset = layout == mem_row_major ? at.row * ldm + at.column : at.column * ldm + at.row;
    if ((layout == mem_row_major) != kIsTransposed<kM>) {
      Pair<T> pair;
      __builtin_memcpy(&pair, f.x + i, sizeof pair);
      *reinterpret_cast<Pair<T>*>(memory + offset) = pair;
    } else {
      memory[offset] = f.x[i];
      memory[offset + ldm] = f.x[i + 1];
    }
  }
}

/// d = a * b + c. Sums are rounded to fp32, and then to fp16 if that is what d holds.
template <int kM, int kN, int kK, class T, class LayoutA, class LayoutB, class D, class C>
GPUSIM_INLINE void mma_sync(fragment<accumulator, kM, kN, kK, D>& d,
                            const fragment<matrix_a, kM, kN, kK, T, LayoutA>& a,
                            const fragment<matrix_b, kM, kN, kK, T, LayoutB>& b,
                            const fragment<accumulator, kM, kN, kK, C>& c, bool = false) {
  constexpr bool kIsHalf = std::is_same_v<T, __half>;
  static_assert(kIsHalf || (std::is_same_v<D, float> && std::is_same_v<C, float>),
                "products of __nv_bfloat16 are summed in float");
  constexpr auto kType = kIsHalf ? gpusim::device::MmaType::kFloat16 : gpusim::device::MmaType::kBFloat16;
  constexpr int kSince = kIsHalf ? 70 : 80;
  std::uint32_t rA[kM / 4], rB[kN / 4];
  __builtin_memcpy(rA, a.x, sizeof rA);
  __builtin_memcpy(rB, b.x, sizeof rB);
  float sums[8];
  for (int i = 0; i < 8; ++i) sums[i] = float(c.x[i]);
  const std::uint32_t* const rows = kIsTransposed<kM> ? rB : rA;
  const std::uint32_t* const columns = kIsTransposed<kM> ? rA : rB;
  gpusim::device::mma_m16n8k16(kType, sums, rows, columns, sums, kSince);
  gpusim::device::mma_m16n8k16(kType, sums + 4, kM == kN ? rows : rows + 4, kM == kN ? columns + 2 : columns,
                               sums + 4, kSince);
  for (int i = 0; i < 8; ++i) d.x[i] = D(sums[i]);
}

}  // namespace nvcuda::wmma
