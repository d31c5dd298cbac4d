/// @file
/// Masks: which scores exist. Each mask is a type with two functions:
///
///   Kind kind(const Rect&)        whether it hides every score of a rectangle, some or none
///   bool sees(Token, Token)       whether it lets a query see a key
///
/// kind() may answer kPartial when it cannot tell. AllOf puts masks together. Both functions compute with
/// what tokens say and read no memory, except for those of Blocks.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace fa::ch11 {

/// What a mask leaves of a rectangle of scores.
enum class Kind { kEmpty, kPartial, kFull };

/// What two masks leave together.
__host__ __device__ __forceinline__ Kind both(Kind a, Kind b) {
  if (a == Kind::kEmpty || b == Kind::kEmpty) return Kind::kEmpty;
  return a == Kind::kFull && b == Kind::kFull ? Kind::kFull : Kind::kPartial;
}

/// What masks need to know of a query or a key.
struct Token {
  int at;        ///< its number in its sequence
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

/// No key after the query. Query i stands at key i + seq_k - seq_q, so that the last query sees the last key.
struct Causal {
  int shift;  ///< seq_k - seq_q; seq_k: no mask
  __host__ __device__ Kind kind(const Rect& r) const {
    if (r.keys.first.at > r.queries.last.at + shift) return Kind::kEmpty;
    return r.keys.last.at <= r.queries.first.at + shift ? Kind::kFull : Kind::kPartial;
  }
  __host__ __device__ bool sees(Token query, Token key) const { return key.at <= query.at + shift; }
};

/// Keys less than `width` away from where the query stands.
struct Window {
  int shift;  ///< seq_k - seq_q
  int width;  ///< seq_q + seq_k: no mask
  __host__ __device__ Kind kind(const Rect& r) const {
    // EXERCISE 1: What does the window leave of the rectangle? The distance of a key grows from its corner at the lower left, of the last query and the first key, to the upper right.
    const int least = r.keys.first.at - (r.queries.last.at + shift);
    const int most = r.keys.last.at - (r.queries.first.at + shift);
    if (least >= width || -most >= width) return Kind::kEmpty;
    return most < width && -least < width ? Kind::kFull : Kind::kPartial;
    // END 1
  }
  __host__ __device__ bool sees(Token query, Token key) const {
    // EXERCISE 2: Does the query see the key? It stands at key query.at + shift.
    const int distance = key.at - (query.at + shift);
    return distance < width && -distance < width;
    // END 2
  }
};

/// The first keys: those that exist in this sequence of the batch.
struct KeyLength {
  int keys;
  __host__ __device__ Kind kind(const Rect& r) const {
    // EXERCISE 3: What is left of the rectangle if only the first `keys` keys exist?
    if (r.keys.first.at >= keys) return Kind::kEmpty;
    return r.keys.last.at < keys ? Kind::kFull : Kind::kPartial;
    // END 3
  }
  __host__ __device__ bool sees(Token, Token key) const { return key.at < keys; }
};

/// Keys of the query's own document. Documents follow each other: their numbers never decrease.
struct Documents {
  __host__ __device__ Kind kind(const Rect& r) const {
    const Span &queries = r.queries, &keys = r.keys;
    // EXERCISE 4: What is left of it? The numbers of documents never decrease, from the first query to the last and from the first key to the last.
    if (keys.first.document > queries.last.document || keys.last.document < queries.first.document)
      return Kind::kEmpty;
    // They overlap. If each has one document only, it is the same one.
    return queries.first.document == queries.last.document && keys.first.document == keys.last.document
               ? Kind::kFull
               : Kind::kPartial;
    // END 4
  }
  __host__ __device__ bool sees(Token query, Token key) const { return query.document == key.document; }
};

/// Blocks of 64 or 128 queries and as many keys, of which some exist (Dao et al. 2022, Algorithm 5). Rows and
/// columns from the last block on count as that block.
struct Blocks {
  /// A warp's share of a tile lies in one block: kind() leaves nothing to ask of its elements.
  static constexpr bool kWholeShares = true;
  const std::uint8_t* of;  ///< of the head, [rows, cols]: 0 for a block that is hidden; null: no mask
  int rows, cols;          ///< ceil(seq_q / size), ceil(seq_k / size)
  int log2_size;

  __host__ __device__ int row(int query) const { return least(query >> log2_size, rows - 1); }
  __host__ __device__ int col(int key) const { return least(key >> log2_size, cols - 1); }
  __host__ __device__ bool has(int row, int col) const { return of[std::size_t(row) * cols + col] != 0; }

  __host__ __device__ Kind kind(const Rect& r) const {
    if (of == nullptr) return Kind::kFull;
    int here = 0, all = 0;
    for (int i = row(r.queries.first.at); i <= row(r.queries.last.at); ++i) {
      for (int j = col(r.keys.first.at); j <= col(r.keys.last.at); ++j) {
        here += has(i, j);
        ++all;
      }
    }
    return here == 0 ? Kind::kEmpty : here == all ? Kind::kFull : Kind::kPartial;
  }
  __host__ __device__ bool sees(Token query, Token key) const {
    return of == nullptr || has(row(query.at), col(key.at));
  }

 private:
  static __host__ __device__ int least(int a, int b) { return a < b ? a : b; }
};

/// What all of several masks leave.
template <class... Mask>
struct AllOf : Mask... {
  __host__ __device__ Kind kind(const Rect& r) const {
    Kind kind = Kind::kFull;
    ((kind = both(kind, Mask::kind(r))), ...);
    return kind;
  }
  /// Asks every mask, whatever the others say.
  __host__ __device__ bool sees(Token query, Token key) const {
    return (int(Mask::sees(query, key)) & ...) != 0;
  }

  /// Calls f(mask) for each mask.
  template <class F>
  __host__ __device__ __forceinline__ void for_each(F f) const {
    (f(static_cast<const Mask&>(*this)), ...);
  }
};

/// The masks of one head.
using HeadMasks = AllOf<Causal, Window, KeyLength, Documents, Blocks>;

// --- the masks of a problem --------------------------------------------------------------------------------

/// The masks of all heads, passed to a kernel by value. Addresses are null without the mask.
struct Masks {
  int heads, seq_q, seq_k;
  bool causal;
  int window;                  ///< seq_q + seq_k: none
  const int* documents;        ///< [seq_q], where seq_q = seq_k
  const int* key_lengths;      ///< [batch]
  const std::uint8_t* blocks;  ///< [heads_of_blocks, ceil(seq_q / size), ceil(seq_k / size)]
  int heads_of_blocks, log2_size_of_blocks;

  /// @param head  counts through all batches
  __host__ __device__ HeadMasks of(int head) const {
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
  __host__ __device__ Token query(int at) const { return token(at, seq_q); }
  __host__ __device__ Token key(int at) const { return token(at, seq_k); }

  /// `count` neighbouring queries or keys. Of queries only those that exist; the last one, if none does.
  __host__ __device__ Span queries(int first, int count) const {
    const int last = seq_q - 1, end = first + count - 1;
    return {query(first < last ? first : last), query(end < last ? end : last)};
  }
  __host__ __device__ Span keys(int first, int count) const { return {key(first), key(first + count - 1)}; }

  /// What the masks of a head leave of a tile, or of a part of one. Queries that do not exist need nothing.
  __host__ __device__ Kind kind(const HeadMasks& of_head, int first_query, int queries, int first_key,
                                int keys) const {
    if (first_query >= seq_q) return Kind::kEmpty;
    return of_head.kind({this->queries(first_query, queries), this->keys(first_key, keys)});
  }

  /// Heads whose masks are the same share lists of tiles (lists.cuh). How many lists a tile has, which of
  /// them is a head's, and one of the heads that have it.
  __host__ __device__ int lists(int batch) const {
    return (key_lengths ? batch : 1) * (heads_of_blocks > 1 ? heads : 1);
  }
  __host__ __device__ int list_of(int head) const {
    if (heads_of_blocks > 1) return key_lengths ? head : head % heads;
    return key_lengths ? head / heads : 0;
  }
  __host__ __device__ int head_of_list(int list) const { return heads_of_blocks > 1 ? list : list * heads; }

 private:
  __host__ __device__ Token token(int at, int seq) const {
    return {at, documents ? documents[at < seq ? at : seq - 1] : 0};
  }
};

}  // namespace fa::ch11
