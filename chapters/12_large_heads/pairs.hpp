/// @file
/// The forward pass as the host sees it: its launches, and the bytes that they move.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "attention/dispatch.cuh"
#include "attention/two_way_attention.hpp"
#include "device/launch.cuh"
#include "harness/chapter.hpp"
#include "overlapped.cuh"
#include "pair.cuh"
#include "pair_fp32.cuh"
#include "pair_tiles.cuh"
#include "tensor_maps.cuh"

namespace fa::ch12 {

using Shape = TwoWayAttention::Shape;
using Args = TwoWayAttention::Args;

constexpr std::int64_t kFloat = sizeof(float);
constexpr std::size_t kSharedBytesOfHopper = 232448;

template <class Tile>
unsigned blocks(const Args& a, int parts = 1) {
  return unsigned(Tile::kBlocks * parts) * unsigned((a.seq_q - 1) / Tile::Br + 1) *
         unsigned(a.batch * a.heads);
}

/// What the query tiles of a head read together.
struct PairReads {
  std::int64_t tiles = 0;  ///< key tiles
  std::int64_t keys = 0;   ///< in them
  std::int64_t rows = 0;   ///< queries, once for each key tile
};
template <class Tile>
PairReads pair_reads(const Shape& shape) {
  PairReads reads;
  for (std::int64_t first = 0; first < shape.seq_q; first += Tile::Br) {
    const std::int64_t end = std::min(first + Tile::Br, shape.seq_q), seen = shape.visible_keys(end - 1);
    const std::int64_t tiles = std::max<std::int64_t>(1, (seen + Tile::Bc - 1) / Tile::Bc);
    reads.tiles += tiles;
    reads.keys += std::min(shape.seq_k, tiles * Tile::Bc);
    reads.rows += tiles * (end - first);
  }
  return reads;
}

// --- fp16 and bf16 -----------------------------------------------------------------------------------------------

/// Calls f(std::type_identity<Tile>()) with the tiles for these widths: with 128 queries if there is room for them, otherwise
/// with 64.
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

struct Final : Cluster {
  template <class Tile>
  static auto kernel() {
    return overlapped_pair_attention<Tile>;
  }
};

/// Whether this build has a kernel of a step: answers to exercises are compiled for the widths of their inputs alone, with as
/// many columns of V as of Q and K (attention/dispatch.cuh).
template <class Step, class Tile>
constexpr bool is_compiled_for() {
#ifdef FA_LARGE_TILES_ONLY
  const auto is_tile = []<class Chosen>(std::type_identity<Chosen>) { return std::is_same_v<Chosen, Tile>; };
  return is_one_of(kTypesOfBuild, kDTypeOf<typename Tile::T>) &&
         std::any_of(std::begin(kHeadDimsOfBuild), std::end(kHeadDimsOfBuild), [&](int cols) {
           return Step::template with_tiles<typename Tile::T>(cols, cols, is_tile);
         });
#else
  return true;
#endif
}

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

template <class Step>
std::size_t shared_bytes_of_step(const Shape& shape) {
  return Step::template with_tiles<__half>(
      shape.head_dim, shape.value_dim(), [&]<class Tile>(std::type_identity<Tile>) {
        return shared_bytes<Tile>(
            pair_sizes<Tile>(int(shape.head_dim), int(shape.value_dim()), kSharedBytesOfHopper));
      });
}

// --- fp32 --------------------------------------------------------------------------------------------------------

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
