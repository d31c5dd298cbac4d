/// @file
/// Makes the tensor maps of chapter 10, on the host.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "09_hopper/tensor_maps.cuh"
#include "copies.cuh"
#include "deterministic.cuh"

namespace fa::ch10 {

using ch09::tensor_map;

/// @throws std::invalid_argument  unless the tensor, to which threads store 16 bytes at a time, is at a multiple of 16
template <class T>
void require_alignment(const char* name, const T* tensor) {
  const auto address = reinterpret_cast<std::uintptr_t>(tensor);
  if (address % 16 != 0)
    throw std::invalid_argument(std::string(name) + " is at address " + std::to_string(address) +
                                ": must be a multiple of 16");
}

/// The maps of a kernel with one block per key tile.
/// @param dk, dv  [batch, kv_heads, seq_k, head_dim]
template <class Tile>
TensorMaps key_tile_maps(const Backward<typename Tile::T>& a, typename Tile::T* dk, typename Tile::T* dv) {
  const std::int64_t heads = std::int64_t(a.batch) * a.heads, kv_heads = std::int64_t(a.batch) * a.kv_heads;
  return {.q = tensor_map(a.q, heads, a.seq_q, a.head_dim, Tile::Br),
          .d_o = tensor_map(a.d_o, heads, a.seq_q, a.head_dim, Tile::Br),
          .k = tensor_map(a.k, kv_heads, a.seq_k, a.head_dim, Tile::Bc),
          .v = tensor_map(a.v, kv_heads, a.seq_k, a.head_dim, Tile::Bc),
          .dk = tensor_map(dk, kv_heads, a.seq_k, a.head_dim, 16),
          .dv = tensor_map(dv, kv_heads, a.seq_k, a.head_dim, 16)};
}

/// The maps of a kernel with one block per query tile.
template <class Tile>
QueryMaps query_tile_maps(const Backward<typename Tile::T>& a) {
  const std::int64_t heads = std::int64_t(a.batch) * a.heads, kv_heads = std::int64_t(a.batch) * a.kv_heads;
  return {.q = tensor_map(a.q, heads, a.seq_q, a.head_dim, Tile::Br),
          .d_o = tensor_map(a.d_o, heads, a.seq_q, a.head_dim, Tile::Br),
          .k = tensor_map(a.k, kv_heads, a.seq_k, a.head_dim, Tile::Bc),
          .v = tensor_map(a.v, kv_heads, a.seq_k, a.head_dim, Tile::Bc),
          .dq = tensor_map(a.dq, heads, a.seq_q, a.head_dim, 16)};
}

}  // namespace fa::ch10
