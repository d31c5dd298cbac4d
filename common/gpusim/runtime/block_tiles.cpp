/// @file
/// Compares the descriptors of a product with the boxes that the copy engine has put there.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpusim/runtime/block.hpp"

namespace gpusim {
namespace {

constexpr int kMostParts = 3;  // a float is the sum of so many numbers of 16 bits

std::string swizzle_name(int bytes) {
  return bytes == 0 ? "no swizzle" : std::to_string(bytes) + "-byte swizzle";
}

/// The first element of chunk i: "B[8][0]".
std::string element_name(bool is_a, bool mn_major, const ChunkGrid& grid, int i) {
  const int row = i / grid.per_row, column = i % grid.per_row;
  const int mn = mn_major ? 8 * column : row, k = mn_major ? row : 8 * column;
  const auto index = [](int number) { return "[" + std::to_string(number) + "]"; };
  return is_a ? "A" + index(mn) + index(k) : "B" + index(k) + index(mn);
}

/// "row 3, column 64"
std::string place_in_tensor(const Element& e) {
  return "row " + std::to_string(e.y) + ", column " + std::to_string(e.x);
}

/// Whether one operand begins inside the other one.
bool share_bytes(const std::vector<std::uintptr_t>& one, const std::vector<std::uintptr_t>& other) {
  const auto has = [](const std::vector<std::uintptr_t>& chunks, std::uintptr_t chunk) {
    return std::find(chunks.begin(), chunks.end(), chunk) != chunks.end();
  };
  return has(one, other.front()) || has(other, one.front());
}

}  // namespace

/// The 16 bytes of a box that are at an address, unless an ordinary store came later.
std::optional<BoxChunk> BlockRunner::landed_chunk(std::uintptr_t address) const {
  const std::size_t offset = address - shared_base_;
  for (std::size_t word = offset / 4; word < offset / 4 + 4; ++word) {
    if (async_shadow_.write(word).thread_plus_1 != 0) return std::nullopt;
  }
  return landed_boxes_.at(offset);
}

/// Neighbours in the matrix have to be neighbours in the box, if both are in the same one. Boxes may lie
/// anywhere.
void BlockRunner::check_tile(int thread, const WarpgroupOp& op, bool is_a,
                             const std::vector<std::uintptr_t>& chunks) {
  const auto matrix = MatrixDescriptor::of(is_a ? op.a : op.b);
  const bool mn_major = is_a ? op.shape.transposed_a : op.shape.transposed_b;
  const ChunkGrid grid = chunks_of(int(chunks.size()) / 2, mn_major);  // two chunks for each m or n
  const int in_pattern = matrix.swizzle_bytes / 16;                    // chunks
  const auto chunk_at = [&](int i) { return landed_chunk(chunks[std::size_t(i)]); };
  const auto name = [&](int i) { return element_name(is_a, mn_major, grid, i); };
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
  check_columns(thread, op, is_a, chunks);
}

/// Elements of an operand with the same k must have the same coordinate in their tensor, also if they are in
/// different boxes: they are multiplied by the same elements of the other operand.
void BlockRunner::check_columns(int thread, const WarpgroupOp& op, bool is_a,
                                const std::vector<std::uintptr_t>& chunks) {
  const bool mn_major = is_a ? op.shape.transposed_a : op.shape.transposed_b;
  const ChunkGrid grid = chunks_of(int(chunks.size()) / 2, mn_major);
  std::array<std::optional<BoxChunk>, 2> firsts;  // K-major: of each column; MN-major: of the row
  for (int i = 0; i < grid.count; ++i) {
    const int first = mn_major ? i / grid.per_row * grid.per_row : i % grid.per_row;  // of this k
    const auto other = landed_chunk(chunks[std::size_t(i)]);
    std::optional<BoxChunk>& one = firsts[mn_major ? 0 : std::size_t(first)];
    if (i == first) one = other;
    if (!one || !other || one->box == other->box) continue;
    const Element a = one->first_element(), b = other->first_element();
    if (a.tensor == 0 || a.tensor != b.tensor || (mn_major ? a.y == b.y : a.x == b.x)) continue;
    const std::string letter = is_a ? "A" : "B";
    return product_defect(kOtherLayout, thread, {op.pc, other->box->pc}, [&] {
      return "The descriptor of " + letter +
             " at {0} does not fit the box that the copy at {1} has brought, in " + block_name() + "\n    " +
             element_name(is_a, mn_major, grid, first) + " is from " + place_in_tensor(a) +
             " of its tensor, and " + element_name(is_a, mn_major, grid, i) + " from " + place_in_tensor(b) +
             ": elements with the same k are in different " + (mn_major ? "rows" : "columns");
    });
  }
}

/// Where an operand begins in its tensor.
OperandPlace BlockRunner::place_of_operand(const std::vector<std::uintptr_t>& chunks, bool mn_major) const {
  const auto chunk = chunks.empty() ? std::nullopt : landed_chunk(chunks[0]);
  if (!chunk) return {};
  const Element e = chunk->first_element();
  return {e.tensor, mn_major ? e.y : e.x, mn_major ? e.x : e.y, {e.z, e.w}};
}

/// Products that add to the same accumulators have to go through the same k in both operands, and once.
void BlockRunner::check_factors(int thread, const PendingOp& pending, AccumulatorTile& tile) {
  const WarpgroupOp& op = pending.op;
  if (!op.add) tile.factors.clear();
  Factors now{.a = place_of_operand(pending.a_chunks, op.shape.transposed_a),
              .b = place_of_operand(pending.b_chunks, op.shape.transposed_b),
              .a_registers = op.a_in_registers ? warps_[thread / kWarpSize].products.arrived[0]->a : nullptr,
              .pc = op.pc};
  if (now.a.tensor == 0) now.a_chunks = pending.a_chunks;
  const auto report = [&](const Factors& other, const std::string& why) {
    product_defect(kOtherFactors, thread, {op.pc, other.pc}, [&] {
      return "The products at {1} and {0} add to the same accumulators, but do not go through k together, "
             "in " +
             block_name() + "\n    " + why;
    });
  };
  const auto range = [](int first) {
    return std::to_string(first) + " to " + std::to_string(first + kWgmmaK - 1);
  };
  int same_b = 0;
  for (const Factors& other : tile.factors) {
    if (now.b.tensor == 0 || other.b.tensor != now.b.tensor || other.b.plane != now.b.plane) continue;
    const int apart = std::abs(now.b.k - other.b.k);
    const bool overlap = apart < kWgmmaK;
    if (now.a.tensor == 0) {  // threads have written A
      if (!now.b.has_same_rows(other.b)) continue;
      if (op.a_in_registers != (other.a_registers != nullptr) ||
          now.a_chunks.empty() != other.a_chunks.empty())
        continue;
      const bool same_a = op.a_in_registers ? other.a_registers == now.a_registers
                                            : share_bytes(other.a_chunks, now.a_chunks);
      const std::string first = "k of B is from " + range(other.b.k) + " in its tensor";
      if (!overlap) {
        if (!same_a || op.a_in_registers) continue;
        return report(other, first + ", then " + range(now.b.k) + ": A is in part the same");
      }
      same_b += apart == 0;
      if (apart == 0 && !same_a && same_b < kMostParts) continue;
      if (same_b == kMostParts)
        return report(other, first + " in " + std::to_string(same_b + 1) + " products");
      return report(other, first + ", then " + range(now.b.k) + ": both have the elements from " +
                               std::to_string(std::max(now.b.k, other.b.k)) + " on");
    }
    if (now.a.tensor == 0 || other.a.tensor != now.a.tensor || other.a.plane != now.a.plane) continue;
    const bool same_rows = now.a.mn == other.a.mn && now.b.mn == other.b.mn;
    const bool shifted = now.a.mn != other.a.mn && std::abs(now.a.mn - other.a.mn) < 64 &&
                         now.a.mn - other.a.mn == now.b.mn - other.b.mn;
    if (shifted) {
      return report(other, "A begins in row " + std::to_string(other.a.mn) + " of its tensor, then in row " +
                               std::to_string(now.a.mn) + "; B in row " + std::to_string(other.b.mn) +
                               ", then in row " + std::to_string(now.b.mn));
    }
    if (!same_rows) continue;
    if (now.a.k - now.b.k != other.a.k - other.b.k) {
      return report(other, "k of A is from " + range(other.a.k) + " in its tensor and that of B from " +
                               range(other.b.k) + ", then " + range(now.a.k) + " and " + range(now.b.k));
    }
    if (overlap) {
      return report(other, "k is from " + range(other.b.k) + " in the tensor of B, then " + range(now.b.k) +
                               ": both have the elements from " +
                               std::to_string(std::max(now.b.k, other.b.k)) + " on");
    }
  }
  tile.factors.push_back(std::move(now));
}

}  // namespace gpusim
