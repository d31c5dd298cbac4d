/// @file
/// Masks: which scores exist. Each mask is a type with two functions:
///
///   Kind kind(const Rect&)        whether it hides every score of a rectangle, some or none
///   bool sees(Token, Token)       whether it lets a query see a key
///
/// kind() may answer kPartial when it cannot tell. AllOf puts masks together.
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

/// A rectangle of the scores of one head: no query and no key that does not exist.
struct Rect {
  int first_query, last_query;
  int first_key, last_key;
};

/// What masks need to know of a query or a key.
struct Token {
  int at;        ///< its number in its sequence
  int document;  ///< the number of its document; 0 without documents
};

// --- the masks ------------------------------------------------------------------------------------------------

/// No key after the query. Query i stands at key i + seq_k - seq_q, so that the last query sees the last key.
struct Causal {
  int shift;  ///< seq_k - seq_q; seq_k: no mask
  __host__ __device__ Kind kind(const Rect& r) const {
    if (r.first_key > r.last_query + shift) return Kind::kEmpty;
    return r.last_key <= r.first_query + shift ? Kind::kFull : Kind::kPartial;
  }
  __host__ __device__ bool sees(Token query, Token key) const { return key.at <= query.at + shift; }
};

/// Keys less than `width` away from where the query stands.
struct Window {
  int shift;  ///< seq_k - seq_q
  int width;  ///< seq_q + seq_k: no mask
  __host__ __device__ Kind kind(const Rect& r) const {
    const int least = r.first_key - (r.last_query + shift), most = r.last_key - (r.first_query + shift);
    if (least >= width || -most >= width) return Kind::kEmpty;
    return most < width && -least < width ? Kind::kFull : Kind::kPartial;
  }
  __host__ __device__ bool sees(Token query, Token key) const {
    const int distance = key.at - (query.at + shift);
    return distance < width && -distance < width;
  }
};

/// The first keys: those that exist in this sequence of the batch.
struct KeyLength {
  int keys;
  __host__ __device__ Kind kind(const Rect& r) const {
    if (r.first_key >= keys) return Kind::kEmpty;
    return r.last_key < keys ? Kind::kFull : Kind::kPartial;
  }
  __host__ __device__ bool sees(Token, Token key) const { return key.at < keys; }
};

/// Keys of the query's own document. Documents follow each other: their numbers never decrease.
struct Documents {
  const int* of;  ///< [seq]: the number of each token's document; null: no mask
  __host__ __device__ Kind kind(const Rect& r) const {
    if (of == nullptr) return Kind::kFull;
    const int first_of_queries = of[r.first_query], last_of_queries = of[r.last_query];
    const int first_of_keys = of[r.first_key], last_of_keys = of[r.last_key];
    if (first_of_keys > last_of_queries || last_of_keys < first_of_queries) return Kind::kEmpty;
    // They overlap. If each has one document only, it is the same one.
    return first_of_queries == last_of_queries && first_of_keys == last_of_keys ? Kind::kFull
                                                                                : Kind::kPartial;
  }
  __host__ __device__ bool sees(Token query, Token key) const { return query.document == key.document; }
};

/// Blocks of 64 or 128 queries and as many keys, of which some exist (Dao et al. 2022, Algorithm 5).
struct Blocks {
  const std::uint8_t* of;  ///< of the head, [rows, cols]: 0 for a block that is hidden; null: no mask
  int rows, cols;          ///< ceil(seq_q / size), ceil(seq_k / size)
  int log2_size;
  __host__ __device__ bool has(int row, int col) const { return of[std::size_t(row) * cols + col] != 0; }
  __host__ __device__ Kind kind(const Rect& r) const {
    if (of == nullptr) return Kind::kFull;
    bool some = false, all = true;
    for (int row = r.first_query >> log2_size; row <= r.last_query >> log2_size; ++row) {
      for (int col = r.first_key >> log2_size; col <= r.last_key >> log2_size; ++col) {
        const bool exists = has(row, col);
        some |= exists;
        all &= exists;
      }
    }
    return all ? Kind::kFull : some ? Kind::kPartial : Kind::kEmpty;
  }
  __host__ __device__ bool sees(Token query, Token key) const {
    if (of == nullptr) return true;
    const int row = query.at >> log2_size, col = key.at >> log2_size;  // past the end: the last block
    return has(row < rows ? row : rows - 1, col < cols ? col : cols - 1);
  }
};

/// What all of several masks leave.
template <class... Mask>
struct AllOf : Mask... {
  __host__ __device__ Kind kind(const Rect& r) const {
    Kind kind = Kind::kFull;
    ((kind = both(kind, Mask::kind(r))), ...);
    return kind;
  }
  /// Asks every mask: what is read does not depend on the answers.
  __host__ __device__ bool sees(Token query, Token key) const { return (Mask::sees(query, key) & ...); }
};

/// The masks of one head.
using HeadMasks = AllOf<Causal, Window, KeyLength, Documents, Blocks>;

// --- the masks of a problem ---------------------------------------------------------------------------------------

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
    const int rows = (seq_q - 1 >> log2_size_of_blocks) + 1, cols = (seq_k - 1 >> log2_size_of_blocks) + 1;
    const std::size_t head_of_blocks = heads_of_blocks == 1 ? 0 : head % heads;
    return {{causal ? shift : seq_k},
            {shift, window},
            {key_lengths ? key_lengths[head / heads] : seq_k},
            {documents},
            {blocks ? blocks + head_of_blocks * rows * cols : nullptr, rows, cols, log2_size_of_blocks}};
  }

  /// What a head's masks leave of a tile, part of which may not exist. Keys that do not exist must be hidden, so a tile that has
  /// some is never full; queries that do not exist do not matter.
  __host__ __device__ Kind kind(const HeadMasks& of_head, int first_query, int queries, int first_key,
                                int keys) const {
    const int end_query = first_query + queries, end_key = first_key + keys;
    if (first_query >= seq_q || first_key >= seq_k) return Kind::kEmpty;
    const Kind kind = of_head.kind({first_query, (end_query < seq_q ? end_query : seq_q) - 1, first_key,
                                    (end_key < seq_k ? end_key : seq_k) - 1});
    return kind == Kind::kFull && end_key > seq_k ? Kind::kPartial : kind;
  }

  /// A query or a key of any head. Numbers past the end get the last document.
  __host__ __device__ Token query(int at) const { return token(at, seq_q); }
  __host__ __device__ Token key(int at) const { return token(at, seq_k); }

  /// Heads whose masks are the same share lists of tiles (lists.cuh). How many lists a tile has, which of them is a head's, and
  /// one of the heads that have it.
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
