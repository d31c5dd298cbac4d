/// @file
/// What sparse_attention() and sparse_gradients() do to scores and to P, besides masks: here, nothing.
/// score_mod.cuh has functions of scores, dropped.cuh dropout, sinks.cuh sinks.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <tuple>
#include <type_traits>

#include "07_multi_stage/softmax.cuh"
#include "device/attention.cuh"

namespace fa {
struct Dropout;
}

namespace fa::ch11 {

/// Scores stay as they are.
struct NoScoreMods {
  template <class Tile>
  struct OfWarp {
    const Attention<typename Tile::T>& a;
    __device__ __forceinline__ float factor() const { return a.exp2_scale; }
    __device__ __forceinline__ void operator()(ch07::Scores<Tile>&, int) const {}
  };
  template <class Tile>
  __device__ __forceinline__ OfWarp<Tile> of_warp(const Attention<typename Tile::T>& a, int, int) const {
    return {a};
  }
  template <class T>
  __device__ __forceinline__ float exponent(const Attention<T>& a, int, int, int, float product) const {
    return __fmul_rn(a.exp2_scale, product);
  }
};

/// All of P is kept.
struct AllKept {};

/// Nothing is dropped.
struct NoDropout {
  NoDropout() = default;
  NoDropout(const Dropout&) {}  // so that mods of both kinds are bound in the same way
  template <class Tile>
  struct OfWarp {
    __device__ __forceinline__ AllKept operator()(int) const { return {}; }
    __device__ __forceinline__ void scale(ch07::Accumulators<Tile>&) const {}
  };
  template <class Tile>
  __device__ __forceinline__ OfWarp<Tile> of_warp(int, int) const {
    return {};
  }
  __device__ __forceinline__ static int same_in_warp(int x) { return x; }
  __device__ __forceinline__ float factor(int, int, int) const { return 1.0f; }
};

/// The softmax of a row has the scores of its keys, and nothing else.
struct NoSinks {
  __device__ __forceinline__ static constexpr float logit(int) { return -INFINITY; }
  __device__ __forceinline__ static constexpr float exponent(int) { return -INFINITY; }
  template <class Tile>
  __device__ __forceinline__ void join(ch07::Accumulators<Tile>&, int) const {}
};

/// Without dropout, P V is that of chapter 07.
template <class Tile>
__device__ __forceinline__ void multiply_pv(ch07::Accumulators<Tile>& acc, const ch07::Scores<Tile>& rS,
                                            const typename Tile::T* sV, float factor, AllKept) {
  ch07::multiply_pv<Tile>(acc, rS, sV, factor);
}

/// The mods of a kernel, passed to it by value.
/// @tparam ScoreMods_  NoScoreMods or ScoreMods    @tparam Dropout_  NoDropout or WithDropout
/// @tparam kFullTiles  whether all tiles of the lists are full   @tparam Sinks_  NoSinks or WithSinks
template <class ScoreMods_, class Dropout_, bool kFullTiles = false, class Sinks_ = NoSinks>
struct Mods {
  template <class Others>
  using With = Mods<ScoreMods_, Dropout_, kFullTiles, Others>;  ///< the same with these sinks
  static constexpr bool kOnlyFullTiles = kFullTiles;
  /// Whether blocks take the rows with the longest lists first. With dropout, the order of chapter 07: the
  /// other one takes registers, and at head_dim 128 the kernel then spills 76 bytes instead of 8.
  static constexpr bool kLongestFirst = std::is_same_v<Dropout_, NoDropout>;
  ScoreMods_ score_mods;
  Dropout_ dropout;
  Sinks_ sinks;
};
using NoMods = Mods<NoScoreMods, NoDropout>;
/// For a pattern of blocks, and lengths that are multiples of its blocks: a tile is a block or a part of one.
using OnlyBlocks = Mods<NoScoreMods, NoDropout, true>;

struct ScoreMods;    // in score_mod.cuh
struct WithDropout;  // in dropped.cuh
/// Those that have a variant.
using AllMods = std::tuple<NoMods, OnlyBlocks, Mods<NoScoreMods, WithDropout>, Mods<ScoreMods, NoDropout>>;

}  // namespace fa::ch11
