/// @file
/// The forward pass of fp16 and bf16 as the host sees it: its launches, and the bytes that they move.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "attention/launch.hpp"
#include "device/launch.cuh"
#include "harness/chapter.hpp"
#include "overlapped.cuh"
#include "pair.cuh"
#include "pair_tiles.cuh"
#include "shapes.hpp"
#include "spilled.cuh"
#include "tensor_maps.cuh"

namespace fa::ch12 {

/// Calls f(std::type_identity<Tile>()) with the tiles for these widths: with 128 queries if there is room for
/// them, otherwise with 64.
template <class T, class F>
constexpr auto with_pair_tiles(std::int64_t head_dim, std::int64_t head_dim_v, F f) {
  constexpr int kMostColsOfTwo = 640;  // of Q; with 128 queries, these are 160 KiB
  if (head_dim <= kMostColsOfTwo) {
    if (head_dim_v <= 128) return f(std::type_identity<PairTiles<T, 2, 64>>());
    if (head_dim_v <= 256) return f(std::type_identity<PairTiles<T, 2, 128>>());
    if (head_dim_v <= 512) return f(std::type_identity<PairTiles<T, 2, 256>>());
  }
  if (head_dim_v <= 512) return f(std::type_identity<PairTiles<T, 1, 128>>());
  return f(std::type_identity<PairTiles<T, 1, 256>>());
}

/// The steps of the lesson, with the widest tiles.
struct SlicesOfD {
  template <class Tile>
  static auto kernel() {
    return pair_attention<Tile>;
  }
  static constexpr int kCols = 256;
  template <class T, class F>
  static constexpr auto with_tiles(std::int64_t, std::int64_t, F f) {
    return f(std::type_identity<PairTiles<T, 1, kCols, 1, 1>>());
  }
};
struct OShared {
  template <class Tile>
  static auto kernel() {
    return pair_attention<Tile>;
  }
  template <class T, class F>
  static constexpr auto with_tiles(std::int64_t, std::int64_t, F f) {
    return f(std::type_identity<PairTiles<T, 1, SlicesOfD::kCols, 1, 2>>());
  }
};
struct Cluster {
  template <class Tile>
  static auto kernel() {
    return pair_attention<Tile>;
  }
  template <class T, class F>
  static constexpr auto with_tiles(std::int64_t head_dim, std::int64_t head_dim_v, F f) {
    return with_pair_tiles<T>(head_dim, head_dim_v, f);
  }
};

struct Overlapped : Cluster {
  template <class Tile>
  static auto kernel() {
    return overlapped_pair_attention<Tile>;
  }
};

template <class Step, class T>
void launch_step(const Args& args, cudaStream_t stream) {
  Step::template with_tiles<T>(args.head_dim, args.head_dim_v, [&]<class Tile>(std::type_identity<Tile>) {
    if constexpr (is_compiled_for<Step, Tile>()) {
      const auto a = args.as<T>();
      const PairSizes sizes = pair_sizes<Tile>(a.head_dim, a.head_dim_v, kSharedBytesOfHopper);
      launch_clusters(Step::template kernel<Tile>(), Tile::kBlocks, blocks<Tile>(args, sizes.parts),
                      Tile::kThreads, shared_bytes<Tile>(sizes), stream, a, pair_maps<Tile>(a), sizes);
    } else {
      throw std::invalid_argument("no kernel for these widths");
    }
  });
}

template <class Step>
Traffic traffic_of_step(const Shape& shape) {
  return Step::template with_tiles<__half>(
      shape.head_dim, shape.value_dim(), [&]<class Tile>(std::type_identity<Tile>) {
        const std::int64_t heads = shape.batch * shape.heads, keys = pair_reads<Tile>(shape).keys;
        const std::int64_t row = 2 * heads * shape.head_dim, v_row = 2 * heads * shape.value_dim();
        const std::int64_t parts = (shape.value_dim() + Tile::kPartCols - 1) / Tile::kPartCols;
        return Traffic{.tensors = {{"q", {.read_bytes = Tile::kBlocks * parts * row * shape.seq_q}},
                                   {"k", {.read_bytes = parts * row * keys}},
                                   {"v", {.read_bytes = v_row * keys}},
                                   {"o", {.write_bytes = v_row * shape.seq_q}},
                                   {"lse", {.write_bytes = heads * shape.seq_q * kFloat}}}};
      });
}

/// The tiles of `spilled`.
template <class T>
using SpillingTiles = PairTiles<T, 1, SlicesOfD::kCols, 1, 1>;

inline std::int64_t parts_of_spilled(const Shape& shape) {
  return (shape.value_dim() + SlicesOfD::kCols - 1) / SlicesOfD::kCols;
}

template <class T>
void launch_spilled(const Args& args, cudaStream_t stream) {
  using Tile = SpillingTiles<T>;
  const auto a = args.as<T>();
  const PairSizes sizes = pair_sizes<Tile>(a.head_dim, a.head_dim_v, kSharedBytesOfHopper);
  launch_clusters(spilling_attention<Tile>, 1, blocks<Tile>(args), Tile::kThreads, shared_bytes<Tile>(sizes),
                  stream, a, pair_maps<Tile>(a), sizes, args.buffer<float>("o_sums"));
}

inline std::vector<TensorSpec> sums_of_spilled(const Shape& shape) {
  const std::int64_t tiles = (shape.seq_q + 63) / 64;
  return {{.name = "o_sums",
           .shape = {shape.batch, shape.heads, tiles, parts_of_spilled(shape), 64 * SlicesOfD::kCols}}};
}

/// That of `slices_of_d` with one part, and O from one key tile to the next.
inline Traffic traffic_of_spilled(const Shape& shape) {
  const std::int64_t heads = shape.batch * shape.heads, tiles = (shape.seq_q + 63) / 64;
  const PairReads reads = pair_reads<SpillingTiles<__half>>(shape);
  const std::int64_t row = 2 * heads * shape.head_dim, v_row = 2 * heads * shape.value_dim();
  const std::int64_t sums =
      heads * (reads.tiles - tiles) * parts_of_spilled(shape) * 64 * SlicesOfD::kCols * kFloat;
  return {.tensors = {{"q", {.read_bytes = row * shape.seq_q}},
                      {"k", {.read_bytes = row * reads.keys}},
                      {"v", {.read_bytes = v_row * reads.keys}},
                      {"o_sums", {.read_bytes = sums, .write_bytes = sums}},
                      {"o", {.write_bytes = v_row * shape.seq_q}},
                      {"lse", {.write_bytes = heads * shape.seq_q * kFloat}}}};
}

template <class Step>
std::size_t shared_bytes_of_step(const Shape& shape) {
  return Step::template with_tiles<__half>(
      shape.head_dim, shape.value_dim(), [&]<class Tile>(std::type_identity<Tile>) {
        return shared_bytes<Tile>(
            pair_sizes<Tile>(int(shape.head_dim), int(shape.value_dim()), kSharedBytesOfHopper));
      });
}

}  // namespace fa::ch12
