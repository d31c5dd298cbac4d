/// @file
/// The forward pass of fp32 as the host sees it: its launches, and the bytes that they move.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "pair_fp32.cuh"
#include "shapes.hpp"

namespace fa::ch12 {

template <class F>
auto with_split_tiles(std::int64_t head_dim_v, F f) {
  if (head_dim_v <= 512) return f(std::type_identity<SplitTiles<128>>());
  return f(std::type_identity<SplitTiles<256>>());
}

inline std::int64_t padded_keys(std::int64_t seq_k) {
  constexpr int Bc = SplitTiles<256>::Bc;
  return (seq_k + Bc - 1) / Bc * Bc;
}

/// Launches split_rows() of Q, K and V, and split_attention().
void launch_pairs_of_fp32(const Args& args, cudaStream_t stream);

/// What split_rows() leaves for the pairs.
inline std::vector<TensorSpec> halves_of(const Shape& shape) {
  const auto halves = [&](const char* name, std::int64_t heads, std::int64_t rows, std::int64_t cols) {
    return TensorSpec{.name = name, .shape = {2, shape.batch, heads, rows, cols}, .dtype = DType::kFloat16};
  };
  const std::int64_t padded = padded_keys(shape.seq_k);
  return {halves("q_halves", shape.heads, shape.seq_q, shape.head_dim),
          halves("k_halves", shape.kv_heads, shape.seq_k, shape.head_dim),
          halves("v_halves", shape.kv_heads, shape.seq_k, shape.value_dim()),
          {.name = "q_exponents", .shape = {shape.batch, shape.heads, shape.seq_q}},
          {.name = "k_exponents", .shape = {shape.batch, shape.kv_heads, padded}},
          {.name = "v_exponents", .shape = {shape.batch, shape.kv_heads, padded}}};
}

/// Two halves have as many bytes as a float. The exponents of a query are read by eight warps of a pair.
inline Traffic traffic_of_pairs_of_fp32(const Shape& shape) {
  return with_split_tiles(shape.value_dim(), [&]<class Tile>(std::type_identity<Tile>) {
    const std::int64_t heads = shape.batch * shape.heads, kv_heads = shape.batch * shape.kv_heads;
    const PairReads reads = pair_reads<Tile>(shape);
    const std::int64_t d = shape.head_dim * kFloat, d_v = shape.value_dim() * kFloat;
    const std::int64_t q = heads * shape.seq_q * d, k = kv_heads * shape.seq_k * d;
    const std::int64_t v = kv_heads * shape.seq_k * d_v, rows = heads * shape.seq_q * kFloat;
    const std::int64_t exponents = heads * reads.tiles * Tile::Bc * kFloat;
    const std::int64_t padded_rows = kv_heads * padded_keys(shape.seq_k) * kFloat;
    return Traffic{.tensors = {{"q", {.read_bytes = q}},
                               {"k", {.read_bytes = k}},
                               {"v", {.read_bytes = v}},
                               {"q_halves", {.read_bytes = 2 * heads * reads.rows * d, .write_bytes = q}},
                               {"k_halves", {.read_bytes = heads * reads.keys * d, .write_bytes = k}},
                               {"v_halves", {.read_bytes = heads * reads.keys * d_v, .write_bytes = v}},
                               {"q_exponents", {.read_bytes = 4 * rows, .write_bytes = rows}},
                               {"k_exponents", {.read_bytes = exponents, .write_bytes = padded_rows}},
                               {"v_exponents", {.read_bytes = exponents, .write_bytes = padded_rows}},
                               {"o", {.write_bytes = heads * shape.seq_q * d_v}},
                               {"lse", {.write_bytes = rows}}}};
  });
}

inline std::size_t shared_bytes_of_fp32(const Shape& shape) {
  return with_split_tiles(shape.value_dim(), [&]<class Tile>(std::type_identity<Tile>) {
    return split_shared_bytes<Tile>(split_sizes<Tile>(int(shape.head_dim), kSharedBytesOfHopper));
  });
}

}  // namespace fa::ch12
