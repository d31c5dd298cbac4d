/// @file
/// What sparse_attention() and sparse_gradients() do to scores and to P, besides masks.
#pragma once

#include <tuple>
#include <type_traits>

#include "dropped.cuh"
#include "score_mod.cuh"

namespace fa::ch11 {

/// The mods of a kernel, passed to it by value.
/// @tparam ScoreMods_  NoScoreMods or ScoreMods    @tparam Dropout_  NoDropout or WithDropout
/// @tparam kFullTiles  whether all tiles of the lists are full
template <class ScoreMods_, class Dropout_, bool kFullTiles = false>
struct Mods {
  static constexpr bool kOnlyFullTiles = kFullTiles;
  /// Whether blocks take the rows with the longest lists first. With dropout, the order of chapter 07: the
  /// other one takes registers, and at head_dim 128 the kernel then spills 76 bytes instead of 8.
  static constexpr bool kLongestFirst = std::is_same_v<Dropout_, NoDropout>;
  ScoreMods_ score_mods;
  Dropout_ dropout;
};
using NoMods = Mods<NoScoreMods, NoDropout>;
/// For a pattern of blocks, and lengths that are multiples of its blocks: a tile is a block or a part of one.
using OnlyBlocks = Mods<NoScoreMods, NoDropout, true>;

/// Those that have a variant.
using AllMods = std::tuple<NoMods, OnlyBlocks, Mods<NoScoreMods, WithDropout>, Mods<ScoreMods, NoDropout>>;

/// Without dropout, P V is that of chapter 07.
template <class Tile>
__device__ __forceinline__ void multiply_pv(ch07::Accumulators<Tile>& acc, const ch07::Scores<Tile>& rS,
                                            const typename Tile::T* sV, float factor, AllKept) {
  ch07::multiply_pv<Tile>(acc, rS, sV, factor);
}

}  // namespace fa::ch11
