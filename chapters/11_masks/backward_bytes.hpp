/// @file
/// The HBM bytes of the backward pass: which query tiles are visited, what the masks are asked, and the
/// lists.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "attention/masked_attention.hpp"
#include "attention/traffic.hpp"
#include "list_buffers.hpp"
#include "mask_mod.cuh"
#include "problem.cuh"

namespace fa::ch11::backward {

/// How a kernel finds its query tiles, and which scores it asks for.
enum class Finds {
  kAll,      ///< visits all tiles and asks for all scores
  kVisible,  ///< asks for the kind of each tile, and for all scores of those that are not empty
  kKinds,   ///< the same, but asks for scores of partial tiles only, where each warp asks for its share first
  kListed,  ///< visits what lists name, and asks as kKinds does
  kListedFull  ///< visits what lists name, and asks for nothing
};
constexpr bool has_lists(Finds finds) { return finds == Finds::kListed || finds == Finds::kListedFull; }

/// Predicts what the warps request, with the tiles of a kernel.
template <class Tile>
class Bytes {
 public:
  Bytes(const MaskedShape& shape, Finds finds, const ListBuffers& buffers)
      : shape_(shape),
        finds_(finds),
        buffers_(buffers),
        masks_(masks_of(shape)),
        query_tiles_(int((shape.seq_q - 1) / Tile::Br + 1)),
        key_tiles_(int((shape.seq_k - 1) / Tile::Bc + 1)) {}

  /// Key tiles, each with a list of up to that many query tiles.
  std::int64_t lists() const { return std::int64_t(masks_.lists(int(shape_.batch))) * key_tiles_; }
  std::int64_t most_listed() const { return query_tiles_; }

  /// Rows of the sums of dQ, over all heads. Every head has whole query tiles.
  std::int64_t rows_of_sums() const { return heads() * query_tiles_ * Tile::Br; }

  /// Of the kernels of a variant that adds dQ in memory.
  Traffic traffic() const {
    const Counts counts = count();
    Traffic traffic = of_key_tiles(counts);
    const std::int64_t q = heads() * shape_.seq_q, sum = shape_.head_dim * 4, added = counts.tiles * Tile::Br;
    auto& of = traffic.tensors;
    of["o"] = {.read_bytes = q * row()};
    of["do"].read_bytes += q * row();
    of["delta"].write_bytes = q * 4;
    of["dq_sum"] = {.read_bytes = (added + q) * sum, .write_bytes = (rows_of_sums() + added) * sum};
    of["dq"] = {.write_bytes = q * row()};
    return traffic;
  }

  /// Of making the lists, and of a kernel with a block for each key tile that adds nothing to dQ.
  Traffic of_key_tiles() const { return of_key_tiles(count()); }

 private:
  /// Of all heads.
  struct Counts {
    std::int64_t tiles = 0;                               ///< visited, once for each key tile
    std::int64_t brought = 0;                             ///< of these, came with a row, not from a list
    std::int64_t list_counts = 0;                         ///< counts of lists, read once for each key tile
    std::int64_t queries = 0;                             ///< in them
    std::int64_t documents = 0, blocks = 0, lengths = 0;  ///< bytes read of the masks
  };

  std::int64_t heads() const { return shape_.batch * shape_.heads; }
  std::int64_t group() const { return shape_.heads / shape_.kv_heads; }
  std::int64_t row() const { return shape_.head_dim * std::int64_t(size_of(shape_.dtype)); }

  Counts count() const {
    const int lists_of_tile = masks_.lists(int(shape_.batch));
    std::vector<std::int64_t> first_heads(lists_of_tile);  // with this list, of those that share a key tile
    for (std::int64_t head = 0; head < heads(); head += group()) ++first_heads[masks_.list_of(int(head))];
    Counts counts;
    for (int list = 0; list < lists_of_tile; ++list) {
      const HeadMasks masks = masks_.of(masks_.head_of_list(list));
      for (int key_tile = 0; key_tile < key_tiles_; ++key_tile) {
        if (has_lists(finds_)) count_list(counts, key_tile);
        std::int64_t full = 0, partial = 0;
        for (int query_tile = 0; query_tile < query_tiles_; ++query_tile) {
          const TileKind kind = count_tile(counts, masks, query_tile, key_tile, heads() / lists_of_tile);
          full += kind == TileKind::kFull;
          partial += kind == TileKind::kPartial;
        }
        // A block goes through the lists of the heads that share its key tile twice, for partial tiles and
        // for full ones. It begins with what the row of the first head brings: its partial tiles, or its full
        // ones if it has the key tile for itself. Without an order, no row brings anything.
        const bool ordered = !buffers_.order.empty();
        counts.brought += first_heads[list] * (ordered && (partial > 0 || (group() == 1 && full > 0)));
        counts.list_counts += first_heads[list] * (!ordered      ? 2 * group()
                                                   : group() > 1 ? 2 * group() - 1
                                                                 : partial > 0);
      }
    }
    return counts;
  }

  Traffic of_key_tiles(const Counts& counts) const {
    Traffic traffic;
    auto& of = traffic.tensors;
    for (const char* name : {"q", "do"}) of[name] = {.read_bytes = counts.queries * row()};
    for (const char* name : {"lse", "delta"}) of[name] = {.read_bytes = counts.queries * 4};
    for (const char* name : {"k", "v"}) of[name] = {.read_bytes = existing_keys() * row()};
    for (const char* name : {"dk", "dv"})
      of[name] = {.write_bytes = shape_.batch * shape_.kv_heads * shape_.seq_k * row()};
    if (masks_.documents) of["documents"] = {.read_bytes = counts.documents};
    if (masks_.blocks) of["block_mask"] = {.read_bytes = counts.blocks};
    const std::int64_t warps = shape_.batch * shape_.kv_heads * key_tiles_ * Tile::kWarps;
    if (masks_.key_lengths)
      of["key_lengths"] = {.read_bytes = counts.lengths + 4 * warps};  // K and V: how many
    if (has_lists(finds_)) {
      const int lists_of_tile = masks_.lists(int(shape_.batch));
      const std::int64_t named = counts.tiles / (heads() / lists_of_tile);
      const bool ordered = !buffers_.order.empty();
      const ListReads reads = {.listed = 0,
                               .tiles = (counts.tiles - counts.brought) * Tile::kWarps,
                               .order = ordered ? warps : 0,
                               .counts = counts.list_counts * Tile::kWarps};
      add_lists(traffic, buffers_, lists_of_tile, key_tiles_, named, reads);
    }
    return traffic;
  }

  /// In all heads of K and V.
  std::int64_t existing_keys() const {
    std::int64_t keys = 0;
    for (int batch = 0; batch < shape_.batch; ++batch)
      keys += masks_.of(batch * int(shape_.heads)).keys * shape_.kv_heads;
    return keys;
  }

  /// What the blocks of a key tile read for a query tile, in all heads of a list. Returns its kind.
  TileKind count_tile(Counts& counts, const HeadMasks& masks, int query_tile, int key_tile,
                      std::int64_t heads) const {
    const int first_query = query_tile * Tile::Br, first_key = key_tile * Tile::Bc;
    const bool asks_tiles = finds_ == Finds::kVisible || finds_ == Finds::kKinds;
    const TileKind kind = finds_ == Finds::kAll
                              ? TileKind::kPartial
                              : masks_.kind(masks, first_query, Tile::Br, first_key, Tile::Bc);
    if (asks_tiles) {
      counts.lengths += 4 * Tile::kWarps * heads;
      count_kind(counts, first_query, Tile::Br, first_key, Tile::Bc, Tile::kWarps * heads);
    }
    if (kind == TileKind::kEmpty) return kind;
    counts.tiles += heads;
    counts.queries += heads * std::min(Tile::Br, masks_.seq_q - first_query);
    if (finds_ == Finds::kListedFull || (kind == TileKind::kFull && finds_ != Finds::kVisible)) return kind;
    for (int query = first_query; query < first_query + Tile::Br; query += Tile::kScoreCols) {
      for (int key = first_key; key < first_key + Tile::Bc; key += Tile::kWarpRows)
        count_share(counts, masks, query, key, heads);
    }
    return kind;
  }

  /// A warp's keys and kScoreCols queries.
  void count_share(Counts& counts, const HeadMasks& masks, int first_query, int first_key,
                   std::int64_t heads) const {
    counts.lengths += 4 * heads;
    if (finds_ == Finds::kKinds || finds_ == Finds::kListed) {
      count_kind(counts, first_query, Tile::kScoreCols, first_key, Tile::kWarpRows, heads);
      if (masks_.kind(masks, first_query, Tile::kScoreCols, first_key, Tile::kWarpRows) != TileKind::kPartial)
        return;
    }
    if (masks_.blocks)
      counts.blocks += heads * Tile::kWarpRows / 8 * Tile::kScoreCols / 4;  // a share is in one block
    if (!masks_.documents) return;
    for (int key = first_key; key < first_key + Tile::kWarpRows; key += 8)
      counts.documents += heads * 4 * distinct(key, 8, 1, masks_.seq_k);
    for (int query = first_query; query < first_query + Tile::kScoreCols; query += 8) {
      for (int odd = 0; odd < 2; ++odd)
        counts.documents += heads * 4 * distinct(query + odd, 4, 2, masks_.seq_q);
    }
  }

  /// kind() of a rectangle, asked by so many warps: 4 documents, and the blocks that it touches.
  void count_kind(Counts& counts, int first_query, int queries, int first_key, int keys,
                  std::int64_t warps) const {
    if (first_query >= masks_.seq_q) return;
    if (masks_.documents) counts.documents += 16 * warps;
    if (masks_.blocks)
      counts.blocks += warps * rows_of_blocks(first_query, queries) * cols_of_blocks(first_key, keys);
  }

  /// The list of a key tile, which one warp makes. Each lane asks for the kind of one query tile.
  void count_list(Counts& counts, int key_tile) const {
    counts.lengths += 4;
    for (int first = 0; first < query_tiles_; first += 32) {
      const int lanes = std::min(32, query_tiles_ - first);
      if (masks_.documents) counts.documents += 4 * (2 * lanes + 2);
      if (masks_.blocks) {
        counts.blocks += rows_of_blocks(first * Tile::Br, lanes * Tile::Br) *
                         cols_of_blocks(key_tile * Tile::Bc, Tile::Bc);
      }
    }
  }

  /// The rows of blocks in which queries lie, and the columns in which keys lie.
  int rows_of_blocks(int first_query, int count) const {
    const HeadMasks masks = masks_.of(0);
    return masks.row(first_query + count - 1) - masks.row(first_query) + 1;
  }
  int cols_of_blocks(int first_key, int count) const {
    const HeadMasks masks = masks_.of(0);
    return masks.col(first_key + count - 1) - masks.col(first_key) + 1;
  }

  /// How many of `count` numbers differ if those from `end` on become end - 1.
  static int distinct(int first, int count, int step, int end) {
    int different = 0;
    bool has_last = false;
    for (int at = first; at < first + count * step; at += step) {
      has_last |= at >= end - 1;
      different += at < end - 1;
    }
    return different + has_last;
  }

  const MaskedShape& shape_;
  Finds finds_;
  const ListBuffers& buffers_;  ///< of its lists, if it has any
  Masks masks_;
  int query_tiles_, key_tiles_;
};

}  // namespace fa::ch11::backward
