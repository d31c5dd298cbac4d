/// @file
/// Masks: which scores exist. Each mask is a type with two functions:
///
///   TileKind kind(const Rect&)        whether it hides every score of a rectangle, some or none
///   bool sees(Token, Token)      whether it lets a query see a key
///
/// kind() may return kPartial for any rectangle. AllOf puts masks together. Both functions use their
/// arguments alone; only those of Blocks read memory.
///
/// To add a mask: a type here, in MaskMod, Masks and Masks::of; masks_of() in launch.hpp; what variants
/// refuse in chapter.cu; and its option, reference and diagnosis in common/ (masked_attention.cpp,
/// masked_options.cpp, masked_visibility.cpp).
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "07_multi_stage/softmax.cuh"
#include "device/attention.cuh"
#include "device/ptx.cuh"
#include "device/unresolved_rows.cuh"

namespace fa::ch11 {

/// Whether a mask leaves no score of a rectangle, some or all.
enum class TileKind { kEmpty, kPartial, kFull };

/// The kind under two masks.
__host__ __device__ __forceinline__ TileKind both(TileKind a, TileKind b) {
  if (a == TileKind::kEmpty || b == TileKind::kEmpty) return TileKind::kEmpty;
  return a == TileKind::kFull && b == TileKind::kFull ? TileKind::kFull : TileKind::kPartial;
}

/// The numbers of a query or a key that masks use.
struct Token {
  int position;  ///< in its sequence
  int document;  ///< the number of its document; 0 without documents
};

/// Neighbouring queries or keys.
struct Span {
  Token first, last;
};

/// A rectangle of the scores of one head. Its queries exist. Its keys may go on past the end, where KeyLength
/// hides them.
struct Rect {
  Span queries, keys;
};

// --- the masks ---------------------------------------------------------------------------------------------

/// No key after the query. Query i has the position of key i + seq_k - seq_q, so that the last query sees the
/// last key.
struct Causal {
  int shift;  ///< seq_k - seq_q; seq_k: no mask
  __host__ __device__ TileKind kind(const Rect& r) const {
    if (r.keys.first.position > r.queries.last.position + shift) return TileKind::kEmpty;
    return r.keys.last.position <= r.queries.first.position + shift ? TileKind::kFull : TileKind::kPartial;
  }
  __host__ __device__ bool sees(Token query, Token key) const {
    return key.position <= query.position + shift;
  }
};

/// Keys less than `width` away from where the query stands.
struct Window {
  int shift;  ///< seq_k - seq_q
  int width;  ///< seq_q + seq_k: no mask
  __host__ __device__ TileKind kind(const Rect& r) const {
    // EXERCISE 1: What does the window leave of the rectangle?
    const int least = r.keys.first.position - (r.queries.last.position + shift);
    const int most = r.keys.last.position - (r.queries.first.position + shift);
    if (least >= width || -most >= width) return TileKind::kEmpty;
    return most < width && -least < width ? TileKind::kFull : TileKind::kPartial;
    // END 1
  }
  __host__ __device__ bool sees(Token query, Token key) const {
    // EXERCISE 2: Does the query see the key? It stands at key query.position + shift.
    const int distance = key.position - (query.position + shift);
    return distance < width && -distance < width;
    // END 2
  }
};

/// The first keys: those that exist in this sequence of the batch.
struct KeyLength {
  int keys;
  __host__ __device__ TileKind kind(const Rect& r) const {
    // EXERCISE 3: What is left of the rectangle if only the first `keys` keys exist?
    if (r.keys.first.position >= keys) return TileKind::kEmpty;
    return r.keys.last.position < keys ? TileKind::kFull : TileKind::kPartial;
    // END 3
  }
  __host__ __device__ bool sees(Token, Token key) const { return key.position < keys; }
};

/// Keys of the query's own document. Documents follow each other: their numbers never decrease.
struct Documents {
  __host__ __device__ TileKind kind(const Rect& r) const {
    const Span &queries = r.queries, &keys = r.keys;
    // EXERCISE 4: What is left of the rectangle?
    if (keys.first.document > queries.last.document || keys.last.document < queries.first.document)
      return TileKind::kEmpty;
    // They overlap. If each has one document only, it is the same one.
    return queries.first.document == queries.last.document && keys.first.document == keys.last.document
               ? TileKind::kFull
               : TileKind::kPartial;
    // END 4
  }
  __host__ __device__ bool sees(Token query, Token key) const { return query.document == key.document; }
};

/// Blocks of 64 or 128 queries and as many keys, of which some exist (Dao et al. 2022, Algorithm 5). Rows and
/// columns from the last block on count as that block.
struct Blocks {
  /// A warp's sub-tile lies in one block: kind() says whether its elements exist.
  static constexpr bool kWholeSubTiles = true;
  const std::uint8_t* of;  ///< of the head, [rows, cols]: 0 for a block that is hidden; null: no mask
  int rows, cols;          ///< ceil(seq_q / size), ceil(seq_k / size)
  int log2_size;

  __host__ __device__ int row(int query) const { return least(query >> log2_size, rows - 1); }
  __host__ __device__ int col(int key) const { return least(key >> log2_size, cols - 1); }
  __host__ __device__ bool has(int row, int col) const { return of[std::size_t(row) * cols + col] != 0; }

  __host__ __device__ TileKind kind(const Rect& r) const {
    if (of == nullptr) return TileKind::kFull;
    int here = 0, all = 0;
    for (int i = row(r.queries.first.position); i <= row(r.queries.last.position); ++i) {
      for (int j = col(r.keys.first.position); j <= col(r.keys.last.position); ++j) {
        here += has(i, j);
        ++all;
      }
    }
    return here == 0 ? TileKind::kEmpty : here == all ? TileKind::kFull : TileKind::kPartial;
  }
  __host__ __device__ bool sees(Token query, Token key) const {
    return of == nullptr || has(row(query.position), col(key.position));
  }

 private:
  static __host__ __device__ int least(int a, int b) { return a < b ? a : b; }
};

/// Several masks together.
template <class... Mask>
struct AllOf : Mask... {
  __host__ __device__ TileKind kind(const Rect& r) const {
    TileKind kind = TileKind::kFull;
    ((kind = both(kind, Mask::kind(r))), ...);
    return kind;
  }
  /// Evaluates all masks, without a branch.
  __host__ __device__ bool sees(Token query, Token key) const {
    return (int(Mask::sees(query, key)) & ...) != 0;
  }

  /// Calls f(mask) for each mask.
  template <class F>
  __host__ __device__ __forceinline__ void for_each(F f) const {
    (f(static_cast<const Mask&>(*this)), ...);
  }
};

/// The masks of one head, as FlexAttention's mask_mod: sees() for a pair, kind() for all pairs of a tile.
using MaskMod = AllOf<Causal, Window, KeyLength, Documents, Blocks>;

// --- the masks of a problem --------------------------------------------------------------------------------

/// The masks of all heads, passed to a kernel by value. Addresses are null without the mask.
struct Masks {
  int heads, seq_q, seq_k;
  bool causal;
  int window;                  ///< seq_q + seq_k: none
  const int* documents;        ///< [seq_q]
  const int* key_documents;    ///< [seq_k]
  const int* key_lengths;      ///< [batch]
  const std::uint8_t* blocks;  ///< [heads_of_blocks, ceil(seq_q / size), ceil(seq_k / size)]
  int heads_of_blocks, log2_size_of_blocks;

  /// @param head  counts through all batches
  __host__ __device__ MaskMod of(int head) const {
    const int shift = seq_k - seq_q;
    const int rows = ((seq_q - 1) >> log2_size_of_blocks) + 1,
              cols = ((seq_k - 1) >> log2_size_of_blocks) + 1;
    const std::size_t head_of_blocks = heads_of_blocks == 1 ? 0 : head % heads;
    return {{causal ? shift : seq_k},
            {shift, window},
            {key_lengths ? key_lengths[head / heads] : seq_k},
            {},
            {blocks ? blocks + head_of_blocks * rows * cols : nullptr, rows, cols, log2_size_of_blocks}};
  }

  /// A query or a key of any head. From the end on, they have the last document. With documents, 4 bytes are
  /// read.
  __host__ __device__ Token query(int position) const { return token(position, documents, seq_q); }
  __host__ __device__ Token key(int position) const { return token(position, key_documents, seq_k); }

  /// `count` neighbouring queries or keys. Queries that do not exist are left out; if none exists, it is the
  /// last one.
  __host__ __device__ Span queries(int first, int count) const {
    const int last = seq_q - 1, end = first + count - 1;
    return {query(first < last ? first : last), query(end < last ? end : last)};
  }
  __host__ __device__ Span keys(int first, int count) const { return {key(first), key(first + count - 1)}; }

  /// The kind of a tile, or of a part of one, under the masks of a head. Queries that do not exist need
  /// nothing.
  __host__ __device__ TileKind kind(const MaskMod& head_mask, int first_query, int queries, int first_key,
                                    int keys) const {
    if (first_query >= seq_q) return TileKind::kEmpty;
    return head_mask.kind({this->queries(first_query, queries), this->keys(first_key, keys)});
  }

  /// Heads whose masks are the same share lists of tiles (list_tiles.cuh). How many lists a tile has, which
  /// of them is a head's, and one of the heads that have it.
  __host__ __device__ int lists(int batch) const {
    return (key_lengths ? batch : 1) * (heads_of_blocks > 1 ? heads : 1);
  }
  __host__ __device__ int list_of(int head) const {
    if (heads_of_blocks > 1) return key_lengths ? head : head % heads;
    return key_lengths ? head / heads : 0;
  }
  __host__ __device__ int head_of_list(int list) const { return heads_of_blocks > 1 ? list : list * heads; }

 private:
  static __host__ __device__ Token token(int position, const int* documents, int seq) {
    return {position, documents ? documents[position < seq ? position : seq - 1] : 0};
  }
};

/// The scores under masks, for device/unresolved_rows.cuh.
template <class T>
struct MaskedPairs : PlainPairs<T> {
  const Masks& masks;
  int head;

  /// ptx::unknown(): or what the masks of the head need would stay in registers since the kernel began
  __device__ __forceinline__ MaskedPairs(const Attention<T>& given, const Masks& of_all, int of_head)
      : PlainPairs<T>{given}, masks(of_all), head(ptx::unknown(of_head)) {}
  __device__ __forceinline__ bool exists(int query, int key) const {
    return masks.of(head).sees(masks.query(query), masks.key(key));
  }
};

// --- a warp's scores ---------------------------------------------------------------------------------------

/// The queries of a warp whose scores a lane holds.
template <class Tile>
struct LaneQueries {
  Token of_lane[Tile::kLaneRows];  ///< rows lane / 4 + 8 * i

  __device__ __forceinline__ LaneQueries(const Masks& masks, int first) {
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

/// mask_mod(rS) hides scores of a warp. Bit 2 * ni + i in the word of a row
/// is set if the lane hides column i of rS[..][ni].
///
/// Masks are evaluated before the product: their registers are free when the scores need them.
template <class Tile>
struct WarpMaskMod {
  TileKind kind = TileKind::kPartial;  ///< kEmpty: all are hidden, and callers skip the slice; kFull: none is
  std::uint32_t of_row[Tile::kLaneRows] = {};

  /// Adds what a mask hides, for every score.
  template <class Mask>
  __device__ __forceinline__ void add(const Mask& mask, const LaneQueries<Tile>& queries,
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

  /// Sets the hidden scores to -inf.
  __device__ __forceinline__ void operator()(ch07::Scores<Tile>& rS) const {
    if (kind == TileKind::kFull) return;
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

/// The mask_mod of a slice: a warp's rows, and the slice's keys. Evaluates all masks.
template <class Tile>
__device__ __forceinline__ WarpMaskMod<Tile> warp_mask_mod(const Masks& masks, const MaskMod& head_mask,
                                                           int first_query, int first_key) {
  WarpMaskMod<Tile> mask_mod;
  mask_mod.add(head_mask, LaneQueries<Tile>(masks, first_query), LaneKeys<Tile>(masks, first_key));
  return mask_mod;
}

/// The same for a partial sub-tile. Evaluates only the masks that hide a part of it.
template <class Tile>
__device__ __forceinline__ WarpMaskMod<Tile> partial_mask_mod(const Masks& masks, const MaskMod& head_mask,
                                                              const LaneQueries<Tile>& queries,
                                                              const Rect& sub_tile) {
  const LaneKeys<Tile> keys(masks, sub_tile.keys.first.position);
  WarpMaskMod<Tile> mask_mod;
  head_mask.for_each([&]<class Mask>(const Mask& mask) {
    if constexpr (!requires { Mask::kWholeSubTiles; }) {
      if (mask.kind(sub_tile) == TileKind::kPartial) mask_mod.add(mask, queries, keys);
    }
  });
  return mask_mod;
}

/// Whether a warp has several sub-tiles of a tile: its rows, and the keys of a slice each.
template <class Tile>
inline constexpr bool kSeveralSubTiles = Tile::Bc > Tile::kSlice;

}  // namespace fa::ch11
