/// @file
/// Asking masks about the scores of a warp.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

#include "07_multi_stage/softmax.cuh"
#include "masks.cuh"

namespace fa::ch11 {

/// The queries of a warp.
template <class Tile>
struct WarpQueries {
  Span all;
  Token of_lane[Tile::kLaneRows];  ///< rows lane / 4 + 8 * i

  __device__ __forceinline__ WarpQueries(const Masks& masks, int first)
      : all(masks.queries(first, Tile::kWarpRows)) {
#pragma unroll
    for (int row = 0; row < Tile::kLaneRows; ++row)
      of_lane[row] = masks.query(first + 8 * row + threadIdx.x % 32 / 4);
  }
};

/// The keys of a slice whose scores a lane holds: [slice / 8][2].
template <class Tile>
struct LaneKeys {
  Token of[Tile::kSlice / 8][2];

  __device__ __forceinline__ LaneKeys(const Masks& masks, int first) {
#pragma unroll
    for (int ni = 0; ni < Tile::kSlice / 8; ++ni) {
#pragma unroll
      for (int i = 0; i < 2; ++i) of[ni][i] = masks.key(first + 8 * ni + threadIdx.x % 4 * 2 + i);
    }
  }
};

/// Scores that a mask hides become -inf. Every score is asked for.
template <class Tile, class Mask>
__device__ __forceinline__ void hide(ch07::Scores<Tile>& rS, const Mask& mask,
                                     const WarpQueries<Tile>& queries, const LaneKeys<Tile>& keys) {
#pragma unroll
  for (int row = 0; row < Tile::kLaneRows; ++row) {
#pragma unroll
    for (int ni = 0; ni < Tile::kSlice / 8; ++ni) {
      float* pair = ch07::row_pair(rS, row, ni);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (!mask.sees(queries.of_lane[row], keys.of[ni][i])) pair[i] = -INFINITY;
      }
    }
  }
}

/// The same for a warp's share of a tile, its rows and the keys of a slice, of which something is hidden. Asks only the masks that
/// hide a part of it.
template <class Tile>
__device__ __forceinline__ void hide_part(ch07::Scores<Tile>& rS, const Masks& all, const HeadMasks& masks,
                                          const WarpQueries<Tile>& queries, const Rect& share) {
  const LaneKeys<Tile> keys(all, share.keys.first.at);
  masks.for_each([&]<class Mask>(const Mask& mask) {
    if constexpr (!requires { Mask::kWholeShares; }) {
      if (mask.kind(share) == Kind::kPartial) hide<Tile>(rS, mask, queries, keys);
    }
  });
}

/// What `visible_scores` does to scores unless it is told otherwise.
struct Nothing {
  __device__ void operator()() const {}
};

/// Q K^T of a warp's share of a slice: its rows, and the slice's keys. What masks hide becomes -inf.
/// @param sK      the slice's keys     @param first_key  the first of them
/// @param change  what else is done to the scores, before masks hide some of them
/// @return whether the warp sees anything of its share; if not, there are no scores
template <class Tile, class Change = Nothing>
__device__ __forceinline__ bool visible_scores(ch07::Scores<Tile>& rS, const ch07::QueryFragments<Tile>& rQ,
                                               const typename Tile::T* sK, const Masks& masks,
                                               const HeadMasks& of_head, const WarpQueries<Tile>& queries,
                                               int first_key, Change change = Change()) {
  // EXERCISE 6: Do what the masks leave of the share: the product, change(), and hiding. Ask for no score if all are seen.
  const Rect share = {queries.all, masks.keys(first_key, Tile::kSlice)};
  const Kind kind = of_head.kind(share);
  if (kind == Kind::kEmpty) return false;
  ch07::multiply_qk<Tile>(rS, rQ, sK);
  change();
  if (kind == Kind::kPartial) hide_part<Tile>(rS, masks, of_head, queries, share);
  return true;
  // END 6
}

}  // namespace fa::ch11
