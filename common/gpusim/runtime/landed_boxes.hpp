/// @file
/// Which box of a tensor the copy engine has put where in shared memory, so that the descriptor of a product
/// can be compared with it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "gpusim/runtime/bulk_copy.hpp"

namespace gpusim {

/// A box that has landed.
struct LandedBox {
  int swizzle_bytes = 0;
  std::uint32_t row_bytes = 0;
  std::uint32_t rows = 0;    ///< along the second dimension
  std::uint32_t planes = 1;  ///< along the third
  const void* pc = nullptr;
  // For boxes of consecutive elements of a tensor of up to four dimensions:
  std::uintptr_t tensor = 0;  ///< its address; 0: another box
  int element_bytes = 0;
  std::array<int, 4> at{};  ///< the coordinates of the first element
};

/// The coordinates of an element of a tensor.
struct Element {
  std::uintptr_t tensor = 0;  ///< 0: unknown
  int x = 0, y = 0, z = 0, w = 0;

  bool operator==(const Element&) const = default;
};

/// 16 bytes of a box, whatever the swizzle.
struct BoxChunk {
  const LandedBox* box = nullptr;
  std::uint32_t row = 0;     ///< in the box
  std::uint32_t column = 0;  ///< in the row: 16 bytes each

  Element first_element() const {
    if (box->tensor == 0) return {};
    return {box->tensor, box->at[0] + int(column) * 16 / box->element_bytes,
            box->at[1] + int(row % box->rows), box->at[2] + int(row / box->rows % box->planes),
            box->at[3] + int(row / box->rows / box->planes)};
  }
};

class LandedBoxes {
 public:
  /// Before a block.
  void forget() {
    first_ += std::uint32_t(boxes_.size());
    boxes_.clear();
  }

  void add(const BulkCopy& copy, std::uintptr_t shared_base, std::size_t shared_bytes) {
    constexpr int kSwizzles[] = {0, 32, 64, 128};
    if (origins_.empty()) origins_.resize(shared_bytes / kChunk + 2);
    const bool known = copy.is_tensor() && copy.map.swizzle < 4;
    if (!known && boxes_.empty()) return;
    const auto serial = first_ + std::uint32_t(boxes_.size());
    if (known) {
      LandedBox& box = boxes_.emplace_back();
      box.swizzle_bytes = kSwizzles[copy.map.swizzle];
      box.row_bytes = std::uint32_t(copy.map.row_bytes());
      box.rows = copy.map.count(1);
      if (copy.map.rank > 2) box.planes = copy.map.count(2);
      box.pc = copy.pc;
      const auto& steps = copy.map.steps;
      if (copy.map.rank <= 4 && std::all_of(&steps[0], &steps[copy.map.rank], [](int s) { return s == 1; })) {
        box.tensor = copy.map.address;
        box.element_bytes = copy.map.element_bytes;
        std::copy_n(copy.at.begin(), 4, box.at.begin());
      }
    }
    copy.for_each_chunk([&](std::uintptr_t address, std::size_t offset) {
      origins_[(address - shared_base) / kChunk] =
          known ? Origin{serial, std::uint32_t(offset / kChunk)} : Origin{};
    });
  }

  /// The box that these 16 bytes have come from; ordinary stores since then do not count.
  std::optional<BoxChunk> at(std::size_t offset) const {
    if (boxes_.empty() || offset % kChunk != 0) return std::nullopt;
    const Origin& origin = origins_[offset / kChunk];
    if (origin.box < first_ || origin.box - first_ >= boxes_.size()) return std::nullopt;
    const LandedBox& box = boxes_[origin.box - first_];
    const std::uint32_t in_row = std::max(box.row_bytes / std::uint32_t(kChunk), 1u);
    return BoxChunk{&box, origin.chunk / in_row, origin.chunk % in_row};
  }

 private:
  static constexpr std::size_t kChunk = 16;

  struct Origin {
    std::uint32_t box = 0;    ///< a serial number
    std::uint32_t chunk = 0;  ///< in the box
  };

  std::uint32_t first_ = 1;  ///< the serial number of the block's first box
  std::vector<LandedBox> boxes_;
  std::vector<Origin> origins_;  ///< of each 16 bytes of shared memory
};

}  // namespace gpusim
