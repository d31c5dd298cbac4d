/// @file
/// The bytes that the kernels of this chapter move.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/attention.hpp"
#include "attention/traffic.hpp"
#include "work.cuh"

namespace fa::ch09 {

/// Q once; for each query tile the whole key tiles that its last query sees, or one; O and LSE once.
template <class Tile>
Traffic traffic_of(const AttentionShape& shape) {
  const std::int64_t heads = shape.batch * shape.heads;
  const std::int64_t of_column = heads * std::int64_t(size_of(shape.dtype));  // of a row, in all heads
  const std::int64_t row = shape.head_dim * of_column, row_of_v = shape.value_dim() * of_column;
  std::int64_t keys = 0;
  for (std::int64_t first = first_query_of_head<Tile>(int(shape.seq_q)); first < shape.seq_q;
       first += Tile::Br) {
    const std::int64_t seen = shape.visible_keys(std::min(first + Tile::Br, shape.seq_q) - 1);
    keys += std::min(shape.seq_k, std::max<std::int64_t>(1, (seen + Tile::Bc - 1) / Tile::Bc) * Tile::Bc);
  }
  return {.tensors = {{"q", {.read_bytes = row * shape.seq_q}},
                      {"k", {.read_bytes = row * keys}},
                      {"v", {.read_bytes = row_of_v * keys}},
                      {"o", {.write_bytes = row_of_v * shape.seq_q}},
                      {"lse", {.write_bytes = heads * shape.seq_q * std::int64_t(sizeof(float))}}}};
}

}  // namespace fa::ch09
