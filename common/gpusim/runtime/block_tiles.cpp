/// @file
/// Compares the descriptors of a product with the boxes that the copy engine has put there.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gpusim/runtime/block.hpp"

namespace gpusim {
namespace {

std::string swizzle_name(int bytes) {
  return bytes == 0 ? "no swizzle" : std::to_string(bytes) + "-byte swizzle";
}

}  // namespace

/// Neighbours in the matrix have to be neighbours in the box, if both are in the same one. Boxes may lie anywhere.
void BlockRunner::check_tile(int thread, const WarpgroupOp& op, bool is_a,
                             const std::vector<std::uintptr_t>& chunks) {
  const auto matrix = MatrixDescriptor::of(is_a ? op.a : op.b);
  const bool mn_major = is_a ? op.shape.transposed_a : op.shape.transposed_b;
  const ChunkGrid grid = chunks_of(int(chunks.size()) / 2, mn_major);  // two chunks for each m or n
  const int in_pattern = matrix.swizzle_bytes / 16;                    // chunks
  const auto chunk_at = [&](int i) -> std::optional<BoxChunk> {
    const std::size_t offset = chunks[std::size_t(i)] - shared_base_;
    for (std::size_t word = offset / 4; word < offset / 4 + 4; ++word) {
      if (async_shadow_.write(word).thread_plus_1 != 0) return std::nullopt;  // an ordinary store came later
    }
    return landed_boxes_.at(offset);
  };
  const auto name = [&](int i) {
    const int row = i / grid.per_row, column = i % grid.per_row;
    const int mn = mn_major ? 8 * column : row, k = mn_major ? row : 8 * column;
    const auto index = [](int number) { return "[" + std::to_string(number) + "]"; };
    return is_a ? "A" + index(mn) + index(k) : "B" + index(k) + index(mn);
  };
  const auto report = [&](const BoxChunk& chunk, const std::string& why) {
    product_defect(kOtherLayout, thread, {op.pc, chunk.box->pc}, [&] {
      return "The descriptor of " + std::string(is_a ? "A" : "B") +
             " at {0} does not fit the box that the copy at {1} has brought, in " + block_name() + "\n    " +
             why;
    });
  };
  const auto misplaced = [&](int i, const BoxChunk& one, int j, const BoxChunk& other,
                             const std::string& blame) {
    const auto place = [](const BoxChunk& c) {
      return "row " + std::to_string(c.row) + ", byte " + std::to_string(16 * c.column);
    };
    report(other, name(i) + " is in " + place(one) + " of the box, and " + name(j) + " in " + place(other) +
                      ": " + blame);
  };
  const std::string leading = "the leading byte offset is " + std::to_string(matrix.leading);
  const std::string stride = "the stride byte offset is " + std::to_string(matrix.stride);
  for (int i = 0; i < grid.count; ++i) {
    const auto here = chunk_at(i);
    if (!here) continue;
    if (here->box->swizzle_bytes != matrix.swizzle_bytes) {
      return report(*here, "the tensor map has " + swizzle_name(here->box->swizzle_bytes) +
                               ", the descriptor has " + swizzle_name(matrix.swizzle_bytes));
    }
    const int row = i / grid.per_row, column = i % grid.per_row;
    if (row > 0) {
      const auto above = chunk_at(i - grid.per_row);
      if (above && above->box == here->box &&
          (here->row != above->row + 1 || here->column != above->column)) {
        const bool in_eight = row % 8 != 0;
        return misplaced(i - grid.per_row, *above, i, *here,
                         in_eight ? "a row of the box has " + std::to_string(here->box->row_bytes) + " bytes"
                         : in_pattern == 0 && mn_major ? leading
                                                       : stride);
      }
    }
    if (column > 0) {
      const auto left = chunk_at(i - 1);
      if (!left || left->box != here->box) continue;
      const bool next = here->row == left->row && here->column == left->column + 1;
      const bool panel_ends = mn_major && (in_pattern == 0 || column % in_pattern == 0);
      const bool next_panel =
          panel_ends && here->row != left->row && here->row % here->box->rows == left->row % left->box->rows;
      if (next || next_panel) continue;
      const std::string base = "the base offset is " + std::to_string(matrix.base_offset);
      return misplaced(i - 1, *left, i, *here,
                       in_pattern == 0 && mn_major                   ? stride
                       : in_pattern == 0 || column % in_pattern == 0 ? leading
                                                                     : base);
    }
  }
}

}  // namespace gpusim
