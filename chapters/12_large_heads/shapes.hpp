/// @file
/// What the host code of both passes and of all types has in common.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include "attention/launch.hpp"
#include "attention/two_way_attention.hpp"
#include "harness/chapter.hpp"

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

/// Whether this build has a kernel of a step, or of the backward pass: answers to exercises are compiled for
/// the head dimensions of their inputs alone, any of which may be the width of V (attention/launch.hpp).
template <class Step, class Tile>
constexpr bool is_compiled_for() {
#ifdef FA_LARGE_TILES_ONLY
  const auto is_tile = []<class Chosen>(std::type_identity<Chosen>) { return std::is_same_v<Chosen, Tile>; };
  const auto is_for = [&](auto f) {
    return std::any_of(std::begin(kHeadDimsOfBuild), std::end(kHeadDimsOfBuild), f);
  };
  return is_one_of(kTypesOfBuild, kDTypeOf<typename Tile::T>) && is_for([&](int cols) {
           return is_for([&](int cols_of_v) {
             return Step::template with_tiles<typename Tile::T>(cols, cols_of_v, is_tile);
           });
         });
#else
  return true;
#endif
}

}  // namespace fa::ch12
