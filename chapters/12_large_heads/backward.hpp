/// @file
/// The backward pass as the host sees it: its launches, and the bytes that they move.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "backward_tiles.cuh"
#include "shapes.hpp"

namespace fa::ch12 {

constexpr std::int64_t kMostColsOfBackward = 512;

inline std::int64_t padded_queries(std::int64_t seq_q) { return (seq_q + 127) / 128 * 128; }

struct Backward {
  /// Calls f(std::type_identity<Tile>()) with the tiles for these widths.
  template <class T, class F>
  static constexpr auto with_tiles(std::int64_t head_dim, std::int64_t head_dim_v, F f) {
    const std::int64_t cols = std::max(head_dim, head_dim_v);
    if (cols <= 128) return f(std::type_identity<BackwardTiles<T, 64>>());
    if (cols <= 256) return f(std::type_identity<BackwardTiles<T, 128>>());
    return f(std::type_identity<BackwardTiles<T, 256>>());
  }
};

/// Launches prepare_backward(), pair_gradients() and finish_dq(), for fp16 and bf16.
void launch_backward(const Args& args, cudaStream_t stream);

/// What the kernels of the backward pass need of the forward pass, and of each other.
inline std::vector<TensorSpec> workspace_of_backward(const Shape& shape) {
  const std::int64_t padded = padded_queries(shape.seq_q), panels = (shape.head_dim + 63) / 64;
  std::vector<TensorSpec> specs = AttentionForward::outputs(shape);
  specs.push_back({.name = "log2_sum", .shape = {shape.batch, shape.heads, padded}});
  specs.push_back({.name = "delta", .shape = {shape.batch, shape.heads, padded}});
  specs.push_back({.name = "dq_sum", .shape = {shape.batch, shape.heads, padded / 64, panels, 64 * 64}});
  return specs;
}

inline Traffic traffic_of_backward(const Shape& shape) {
  return Backward::with_tiles<__half>(
      shape.head_dim, shape.value_dim(), [&]<class Tile>(std::type_identity<Tile>) {
        constexpr std::int64_t kHalf = 2;
        const std::int64_t heads = shape.batch * shape.heads, kv_heads = shape.batch * shape.kv_heads;
        const std::int64_t padded = padded_queries(shape.seq_q), panels = (shape.head_dim + 63) / 64;
        const std::int64_t rows = heads * shape.seq_q, keys = kv_heads * shape.seq_k;
        std::int64_t visited = 0, steps = 0;  // queries that exist, and tiles of them, by all pairs of a head
        for (std::int64_t key = 0; key < shape.seq_k; key += Tile::Bc) {
          const std::int64_t blind =
              shape.causal ? std::max<std::int64_t>(0, key - (shape.seq_k - shape.seq_q)) : 0;
          const std::int64_t first = blind / Tile::Br * Tile::Br;
          visited += std::max<std::int64_t>(0, shape.seq_q - first);
          steps += std::max<std::int64_t>(0, padded - first) / Tile::Br;
        }
        const std::int64_t d = shape.head_dim * kHalf, d_v = shape.value_dim() * kHalf;
        const std::int64_t sums = heads * padded * panels * 64 * kFloat;
        const std::int64_t added = heads * steps * Tile::Br * panels * 64 * kFloat;
        const std::int64_t of_rows = heads * steps * Tile::Br * kFloat, padded_rows = heads * padded * kFloat;
        return Traffic{.tensors = {{"q", {.read_bytes = 2 * heads * visited * d}},
                                   {"k", {.read_bytes = 2 * keys * d}},
                                   {"v", {.read_bytes = keys * d_v}},
                                   {"o", {.read_bytes = rows * d_v}},
                                   {"lse", {.read_bytes = rows * kFloat}},
                                   {"do", {.read_bytes = rows * d_v + 2 * heads * visited * d_v}},
                                   {"log2_sum", {.read_bytes = of_rows, .write_bytes = padded_rows}},
                                   {"delta", {.read_bytes = of_rows, .write_bytes = padded_rows}},
                                   {"dq_sum", {.read_bytes = added + sums, .write_bytes = added + sums}},
                                   {"dq", {.write_bytes = rows * d}},
                                   {"dk", {.write_bytes = keys * d}},
                                   {"dv", {.write_bytes = keys * d_v}}}};
      });
}

inline std::size_t shared_bytes_of_backward(const Shape& shape) {
  return Backward::with_tiles<__half>(
      shape.head_dim, shape.value_dim(), [&]<class Tile>(std::type_identity<Tile>) {
        return backward_shared_bytes<Tile>(
            backward_sizes<Tile>(int(shape.head_dim), int(shape.value_dim()), kSharedBytesOfHopper));
      });
}

}  // namespace fa::ch12
