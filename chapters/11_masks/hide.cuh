/// @file
/// Asking masks about the scores of a warp.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "07_multi_stage/softmax.cuh"
#include "device/ptx.cuh"
#include "masks.cuh"

namespace fa::ch11 {

/// The queries of a warp whose scores a lane holds.
template <class Tile>
struct WarpQueries {
  Token of_lane[Tile::kLaneRows];  ///< rows lane / 4 + 8 * i

  __device__ __forceinline__ WarpQueries(const Masks& masks, int first) {
    const int thread = ptx::unknown(threadIdx.x);
#pragma unroll
    for (int row = 0; row < Tile::kLaneRows; ++row)
      of_lane[row] = masks.query(first + 8 * row + thread % 32 / 4);
  }
};

/// The keys of a slice whose scores a lane holds: [slice / 8][2].
template <class Tile>
struct LaneKeys {
  Token of[Tile::kSlice / 8][2];

  __device__ __forceinline__ LaneKeys(const Masks& masks, int first) {
    const int thread = ptx::unknown(threadIdx.x);
#pragma unroll
    for (int ni = 0; ni < Tile::kSlice / 8; ++ni) {
#pragma unroll
      for (int i = 0; i < 2; ++i) of[ni][i] = masks.key(first + 8 * ni + thread % 4 * 2 + i);
    }
  }
};

/// Which of its scores a lane must hide: 2 * ni + i is the bit of rS[..][ni] and column i in the word of a
/// row.
///
/// Everything is asked before the product: the questions are done with their registers when the scores need
/// them.
template <class Tile>
struct Hidden {
  std::uint32_t of_row[Tile::kLaneRows] = {};

  /// Adds what a mask hides. Every score is asked for.
  template <class Mask>
  __device__ __forceinline__ void add(const Mask& mask, const WarpQueries<Tile>& queries,
                                      const LaneKeys<Tile>& keys) {
    static_assert(Tile::kSlice <= 128, "32 bits");
#pragma unroll
    for (int row = 0; row < Tile::kLaneRows; ++row) {
#pragma unroll
      for (int ni = 0; ni < Tile::kSlice / 8; ++ni) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (!mask.sees(queries.of_lane[row], keys.of[ni][i])) of_row[row] |= 1u << (2 * ni + i);
        }
      }
    }
  }

  /// These scores become -inf.
  __device__ __forceinline__ void hide(ch07::Scores<Tile>& rS) const {
#pragma unroll
    for (int row = 0; row < Tile::kLaneRows; ++row) {
#pragma unroll
      for (int ni = 0; ni < Tile::kSlice / 8; ++ni) {
        float* pair = ch07::row_pair(rS, row, ni);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if ((of_row[row] >> (2 * ni + i) & 1) != 0) pair[i] = -INFINITY;
        }
      }
    }
  }
};

/// What masks hide of a slice: a warp's rows, and the slice's keys. Asks all masks.
template <class Tile>
__device__ __forceinline__ Hidden<Tile> hidden_in(const Masks& all, const HeadMasks& masks, int first_query,
                                                  int first_key) {
  Hidden<Tile> hidden;
  hidden.add(masks, WarpQueries<Tile>(all, first_query), LaneKeys<Tile>(all, first_key));
  return hidden;
}

/// The same for a warp's share of a tile of which something is hidden. Asks only the masks that hide a part
/// of it.
/// @param queries  those of the share
template <class Tile>
__device__ __forceinline__ Hidden<Tile> hidden_part(const Masks& all, const HeadMasks& masks,
                                                    const WarpQueries<Tile>& queries, const Rect& share) {
  const LaneKeys<Tile> keys(all, share.keys.first.at);
  Hidden<Tile> hidden;
  masks.for_each([&]<class Mask>(const Mask& mask) {
    if constexpr (!requires { Mask::kWholeShares; }) {
      if (mask.kind(share) == Kind::kPartial) hidden.add(mask, queries, keys);
    }
  });
  return hidden;
}

/// Whether a warp has several shares of a tile: its queries, and the keys of a slice each.
template <class Tile>
inline constexpr bool kSeveralShares = Tile::Bc > Tile::kSlice;

/// The queries of a warp's shares, which are loaded once if a tile has several shares.
template <class Tile, bool = kSeveralShares<Tile>>
class ShareQueries {
 public:
  __device__ __forceinline__ ShareQueries(const Masks& masks, int first)
      : span_(masks.queries(first, Tile::kWarpRows)), of_lanes_(masks, first) {}
  __device__ __forceinline__ const Span& span() const { return span_; }
  __device__ __forceinline__ const WarpQueries<Tile>& of_lanes() const { return of_lanes_; }

 private:
  Span span_;
  WarpQueries<Tile> of_lanes_;
};
/// With one share, they are loaded when it is asked about. For head_dim 128, there is no register left for
/// them.
template <class Tile>
class ShareQueries<Tile, false> {
 public:
  __device__ __forceinline__ ShareQueries(const Masks& masks, int first) : masks_(masks), first_(first) {}
  __device__ __forceinline__ Span span() const { return masks_.queries(first_, Tile::kWarpRows); }
  __device__ __forceinline__ WarpQueries<Tile> of_lanes() const { return {masks_, first_}; }

 private:
  const Masks& masks_;
  int first_;
};

/// What masks leave of a warp's shares of a tile. If there are several, each lane asks about one of them, and
/// tells the others.
template <class Tile>
struct Shares {
  const Masks& all;
  const HeadMasks& masks;
  const ShareQueries<Tile>& queries;
  int first_key;                ///< of the tile
  Rect own;                     ///< the share that this lane asks about
  unsigned seen = 0, full = 0;  ///< a bit for each of several shares

  __device__ __forceinline__ Shares(const Masks& all_, const HeadMasks& masks_,
                                    const ShareQueries<Tile>& queries_, int first_key_)
      : all(all_), masks(masks_), queries(queries_), first_key(first_key_) {
    const int share = kSeveralShares<Tile> ? ptx::unknown(threadIdx.x) % (Tile::Bc / Tile::kSlice) : 0;
    own = rect(share * Tile::kSlice);
    if constexpr (kSeveralShares<Tile>) {
      const Kind kind = masks.kind(own);
      seen = __ballot_sync(kAllLanes, kind != Kind::kEmpty);
      full = __ballot_sync(kAllLanes, kind == Kind::kFull);
    }
  }

  /// The share that begins at a key of the tile.
  __device__ __forceinline__ Rect rect(int key) const {
    return {queries.span(), all.keys(first_key + key, Tile::kSlice)};
  }
  __device__ __forceinline__ Kind kind(int key) const {
    if constexpr (!kSeveralShares<Tile>) return masks.kind(own);
    const unsigned share = 1u << key / Tile::kSlice;
    return (seen & share) == 0 ? Kind::kEmpty : (full & share) == 0 ? Kind::kPartial : Kind::kFull;
  }
  /// What is hidden of a partial one.
  __device__ __forceinline__ Hidden<Tile> hidden(int key) const {
    return hidden_part<Tile>(all, masks, queries.of_lanes(), kSeveralShares<Tile> ? rect(key) : own);
  }
};

/// What `visible_scores` does to scores unless it is told otherwise.
struct Nothing {
  __device__ void operator()() const {}
};

/// Q K^T of a warp's share of a tile: its rows, and a slice's keys. What masks hide becomes -inf.
/// @param sK      the slice's keys     @param key  the first of them, in the tile
/// @param change  what else is done to the scores, before masks hide some of them
/// @return whether the warp sees anything of its share; if not, there are no scores
template <class Tile, class Change = Nothing>
__device__ __forceinline__ bool visible_scores(ch07::Scores<Tile>& rS, const ch07::QueryFragments<Tile>& rQ,
                                               const typename Tile::T* sK, const Shares<Tile>& shares,
                                               int key, Change change = Change()) {
  // EXERCISE 6: Do what the masks leave of the share: find out what is hidden, the product, change(), and hiding. Ask for no score if all are seen.
  const Kind kind = shares.kind(key);
  if (kind == Kind::kEmpty) return false;
  Hidden<Tile> hidden;
  if (kind == Kind::kPartial) hidden = shares.hidden(key);
  ch07::multiply_qk<Tile>(rS, rQ, sK);
  change();
  if (kind == Kind::kPartial) hidden.hide(rS);
  return true;
  // END 6
}

}  // namespace fa::ch11
