/// @file
/// The backward pass as the host sees it: its launches, and the bytes that they move.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "backward_pair.cuh"
#include "device/launch.cuh"
#include "pairs.hpp"
#include "tensor_maps.cuh"

namespace fa::ch12 {

constexpr std::int64_t kMostColsOfBackward = 512;

inline std::int64_t padded_queries(std::int64_t seq_q) { return (seq_q + 127) / 128 * 128; }

/// Calls f(std::type_identity<Tile>()) with the tiles for these widths.
template <class T, class F>
auto with_backward_tiles(std::int64_t head_dim, std::int64_t head_dim_v, F f) {
  const std::int64_t cols = std::max(head_dim, head_dim_v);
  if (cols <= 128) return f(std::type_identity<BackwardTiles<T, 64>>());
  if (cols <= 256) return f(std::type_identity<BackwardTiles<T, 128>>());
  return f(std::type_identity<BackwardTiles<T, 256>>());
}

template <class T>
void launch_backward(const Args& args, cudaStream_t stream) {
  with_backward_tiles<T>(args.head_dim, args.head_dim_v, [&]<class Tile>(std::type_identity<Tile>) {
    PairBackward<T> a;
    static_cast<Attention<T>&>(a) = args.as<T>();
    a.d_o = args.buffer<T>("do");
    a.dq = args.buffer<T>("dq");
    a.log2_sum = args.buffer<float>("log2_sum");
    a.delta = args.buffer<float>("delta");
    a.dq_sum = args.buffer<float>("dq_sum");
    a.padded_queries = int(padded_queries(a.seq_q));
    a.do_strides = args.strides.at("do");
    a.dq_strides = args.strides.at("dq");
    const BackwardSizes sizes = backward_sizes<Tile>(a.head_dim, a.head_dim_v, kSharedBytesOfHopper);
    const int panels = sizes.panels[0];
    const unsigned rows = unsigned(a.batch * a.heads) * unsigned(a.padded_queries);
    launch(prepare_backward<T>, rows / kRowsOfPrepare, 32 * kRowsOfPrepare, 0, stream, a, panels);
    const unsigned pairs = unsigned(a.batch * a.kv_heads) * unsigned((a.seq_k - 1) / Tile::Bc + 1);
    launch_clusters(pair_gradients<Tile>, 2, 2 * pairs, Tile::kThreads, backward_shared_bytes<Tile>(sizes),
                    stream, a,
                    backward_maps<Tile>(a, args.buffer<T>("dk"), args.strides.at("dk"), args.buffer<T>("dv"),
                                        args.strides.at("dv")),
                    sizes);
    launch(finish_dq<T>, rows / 64 * unsigned(panels), 128, 0, stream, a, panels);
  });
}

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
  return with_backward_tiles<__half>(
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
  return with_backward_tiles<__half>(
      shape.head_dim, shape.value_dim(), [&]<class Tile>(std::type_identity<Tile>) {
        return backward_shared_bytes<Tile>(
            backward_sizes<Tile>(int(shape.head_dim), int(shape.value_dim()), kSharedBytesOfHopper));
      });
}

}  // namespace fa::ch12
