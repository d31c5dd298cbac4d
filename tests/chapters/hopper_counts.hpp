/// @file
/// What the kernels of chapters 09 and 10 visit, for formulas of their products.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/attention.hpp"

namespace fa {

inline std::int64_t ceil_div(std::int64_t n, std::int64_t d) { return (n + d - 1) / d; }

/// The tiles of Bc keys that the forward pass takes for the queries [first, first + rows): one even if they
/// see none, or if there are no such queries.
inline std::int64_t key_tiles(const AttentionShape& shape, std::int64_t Bc, std::int64_t first,
                              std::int64_t rows) {
  if (first + rows <= 0 || first >= shape.seq_q) return 1;
  const std::int64_t seen = shape.visible_keys(std::min(first + rows, shape.seq_q) - 1);
  return std::max<std::int64_t>(1, ceil_div(seen, Bc));
}

}  // namespace fa
