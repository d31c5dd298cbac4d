/// @file
/// Tensor maps: how a tensor lies in global memory, and which boxes of it the copy engine moves.
#pragma once

#include <cuda.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace gpusim {

/// The contents of a CUtensorMap.
struct TensorMap {
  static constexpr int kMaxRank = 5;
  static constexpr std::uint64_t kMagic = 0x70616d2d6d697367;

  std::uint64_t magic = 0;  ///< kMagic, or these bytes are no map
  std::uintptr_t address = 0;
  std::array<std::uint64_t, kMaxRank - 1> strides{};  ///< bytes
  std::array<std::uint32_t, kMaxRank> last{};         ///< size - 1, of each dimension
  std::array<std::uint16_t, kMaxRank> box{};          ///< the elements that a box spans
  std::array<std::uint8_t, kMaxRank> steps{};         ///< a box takes every n-th of them
  std::uint8_t rank = 0;
  std::uint8_t type = 0;     ///< CUtensorMapDataType
  std::uint8_t swizzle = 0;  ///< CUtensorMapSwizzle
  std::uint8_t element_bytes = 0;
  std::uint8_t nan_fill = 0;  ///< elements outside are NaN, not zero

  bool is_valid() const { return magic == kMagic; }

  /// Elements of a box along a dimension.
  std::uint32_t count(int dimension) const {
    const auto d = std::size_t(dimension);
    return (std::uint32_t(box[d]) + steps[d] - 1) / steps[d];
  }
  /// Bytes of a row: the elements of a box along the innermost dimension.
  std::size_t row_bytes() const { return std::size_t(box[0]) * element_bytes; }
  std::size_t rows() const {
    std::size_t n = 1;
    for (int d = 1; d < rank; ++d) n *= count(d);
    return n;
  }
  std::size_t box_bytes() const { return row_bytes() * rows(); }

  /// What an address in shared memory of an unswizzled box becomes.
  std::uintptr_t swizzled(std::uintptr_t a) const {
    switch (swizzle) {
      case CU_TENSOR_MAP_SWIZZLE_32B: return a ^ ((a >> 3) & 0x10);
      case CU_TENSOR_MAP_SWIZZLE_64B: return a ^ ((a >> 3) & 0x30);
      case CU_TENSOR_MAP_SWIZZLE_128B: return a ^ ((a >> 3) & 0x70);
      default: return a;
    }
  }
  /// The alignment in shared memory from which on the pattern repeats, at least.
  std::size_t alignment() const { return 128; }
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap));

/// A row of a box: so many bytes of it are inside the tensor, from the first on that is.
struct BoxRow {
  std::size_t offset;     ///< of the row in the box
  std::size_t begin;      ///< bytes of the row before the tensor
  std::size_t bytes;      ///< inside; 0 if the row is outside
  std::uintptr_t global;  ///< of the first byte inside
};

/// Calls f(BoxRow) for each row of the box at these coordinates, in the order of shared memory.
template <class F>
void for_each_row(const TensorMap& map, const std::array<std::int32_t, TensorMap::kMaxRank>& at, F&& f) {
  const std::int64_t size = std::int64_t(map.last[0]) + 1;
  const std::int64_t first = std::clamp<std::int64_t>(-std::int64_t(at[0]), 0, map.box[0]);
  const std::int64_t end = std::clamp<std::int64_t>(size - at[0], first, map.box[0]);
  std::array<std::uint32_t, TensorMap::kMaxRank> index{};
  for (std::size_t row = 0, rows = map.rows(); row < rows; ++row) {
    bool inside = end > first;
    std::uintptr_t global = map.address + std::uintptr_t(std::int64_t(at[0]) + first) * map.element_bytes;
    for (std::size_t d = 1; d < map.rank; ++d) {
      const std::int64_t position = std::int64_t(at[d]) + std::int64_t(index[d]) * map.steps[d];
      inside &= position >= 0 && position <= std::int64_t(map.last[d]);
      global += std::uintptr_t(position) * map.strides[d - 1];
    }
    f(BoxRow{row * map.row_bytes(), std::size_t(first) * map.element_bytes,
             inside ? std::size_t(end - first) * map.element_bytes : 0, global});
    for (std::size_t d = 1; d < map.rank; ++d) {
      if (++index[d] < map.count(int(d))) break;
      index[d] = 0;
    }
  }
}

}  // namespace gpusim
