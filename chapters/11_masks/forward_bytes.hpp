/// @file
/// The HBM bytes of the forward pass: which tiles are visited, what the masks are asked, and the lists.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "attention/masked_attention.hpp"
#include "attention/traffic.hpp"
#include "list_buffers.hpp"
#include "mask_mod.cuh"
#include "problem.cuh"

namespace fa::ch11 {

/// How a forward kernel finds its tiles, and what it asks of their scores.
enum class Finds { kAllTiles, kVisible, kVisibleByKind, kListed, kListedFull };

/// Bytes that a kernel reads of the masks.
struct MaskBytes {
  std::int64_t documents = 0, blocks = 0;
  MaskBytes& operator+=(const MaskBytes& more) {
    documents += more.documents;
    blocks += more.blocks;
    return *this;
  }
  MaskBytes operator+(MaskBytes more) const { return more += *this; }
  MaskBytes operator*(std::int64_t times) const { return {documents * times, blocks * times}; }
};

/// Predicts what the warps request, with the tiles of a kernel.
/// @tparam kAtOnce  whether lanes ask about all shares of a partial tile at once, and queries are loaded once
///   for all tiles
template <class Tile, bool kAtOnce = kSeveralSubTiles<Tile>>
class ForwardBytes {
 public:
  explicit ForwardBytes(const MaskedShape& shape)
      : shape_(shape),
        masks_(masks_of(shape)),
        query_tiles_(int((shape.seq_q - 1) / Tile::Br + 1)),
        key_tiles_(int((shape.seq_k - 1) / Tile::Bc + 1)) {}

  /// Query tiles, each with a list of up to that many key tiles.
  std::int64_t lists() const { return masks_.lists(int(shape_.batch)) * query_tiles_; }
  std::int64_t most_listed() const { return key_tiles_; }

  /// @param buffers  where lists are, if it has any
  Traffic traffic(Finds finds, const ListBuffers& buffers) const {
    const bool listed = finds == Finds::kListed || finds == Finds::kListedFull;
    const int lists = masks_.lists(int(shape_.batch));
    const std::int64_t heads = shape_.batch * shape_.heads, heads_of_list = heads / lists;
    std::int64_t keys = 0, visited = 0, read = 0;
    MaskBytes asked;
    TileKinds tiles = {.queries = Tile::Br, .keys = Tile::Bc};
    for (int list = 0; list < lists; ++list) {
      const HeadMasks masks = masks_.of(masks_.head_of_list(list));
      for (int tile = 0; tile < query_tiles_; ++tile) {
        const Visits visits = visit(finds, masks, tile);
        tiles.kinds.push_back(visits.kinds);
        keys += visits.keys;
        visited += visits.tiles;
        read += std::max<std::int64_t>(0, visits.tiles - 1);  // the first one comes with its row
        asked += visits.asked * heads_of_list;
        if (listed) asked += of_list(masks, tile);
      }
    }

    Traffic traffic;
    if (finds != Finds::kAllTiles) traffic.tiles = std::move(tiles);
    const std::int64_t row = shape_.head_dim * std::int64_t(size_of(shape_.dtype)), q = heads * shape_.seq_q;
    traffic.tensors["q"] = {.read_bytes = q * row};
    traffic.tensors["o"] = {.write_bytes = q * row};
    traffic.tensors["lse"] = {.read_bytes = q * 4, .write_bytes = q * 4};  // read for marks
    for (const char* name : {"k", "v"}) traffic.tensors[name] = {.read_bytes = keys * heads_of_list * row};
    if (masks_.documents) traffic.tensors["documents"] = {.read_bytes = asked.documents};
    if (masks_.blocks) traffic.tensors["block_mask"] = {.read_bytes = asked.blocks};
    const std::int64_t warps = heads * query_tiles_ * Tile::kWarps;
    if (masks_.key_lengths)
      traffic.tensors["key_lengths"] = {.read_bytes = 4 * (warps + (listed ? this->lists() : 0))};
    if (listed) {
      const bool ordered = !buffers.order.empty();
      const ListReads reads = {.listed = ordered ? 0 : warps,
                               .tiles = read * heads_of_list * Tile::kWarps,
                               .order = ordered ? warps : 0};
      add_lists(traffic, buffers, lists, query_tiles_, visited, reads);
    }
    return traffic;
  }

 private:
  struct Visits {
    std::int64_t tiles = 0, keys = 0;
    std::string kinds = {};  ///< of all tiles: a row of TileKinds
    MaskBytes asked = {};
  };

  /// What a block of one head reads.
  Visits visit(Finds finds, const HeadMasks& masks, int query_tile) const {
    Visits visits;
    const Span queries = masks_.queries(query_tile * Tile::Br, Tile::Br);
    if (finds == Finds::kVisible ||
        finds == Finds::kVisibleByKind) {  // each warp asks for the kind of all tiles
      visits.asked += of_tokens(2) * Tile::kWarps;
      for (int tile = 0; tile < key_tiles_; ++tile)
        visits.asked += of_kind(masks, queries, masks_.keys(tile * Tile::Bc, Tile::Bc)) * Tile::kWarps;
    }
    if (kAtOnce && (finds == Finds::kVisibleByKind || finds == Finds::kListed)) {
      for (int warp = 0; warp < Tile::kWarps; ++warp) {
        visits.asked += of_tokens(2) + of_lane_queries(first_row(query_tile, warp));
      }
    }
    for (int tile = 0; tile < key_tiles_; ++tile) {
      const TileKind kind = finds == Finds::kAllTiles
                                ? TileKind::kPartial
                                : masks.kind({queries, masks_.keys(tile * Tile::Bc, Tile::Bc)});
      visits.kinds += kind == TileKind::kEmpty ? 'e' : kind == TileKind::kPartial ? 'p' : 'f';
      if (kind == TileKind::kEmpty) continue;
      ++visits.tiles;
      visits.keys += std::clamp(masks.keys - tile * Tile::Bc, 0, Tile::Bc);
      if (finds == Finds::kAllTiles || finds == Finds::kVisible) {
        for (int warp = 0; warp < Tile::kWarps; ++warp) {
          for (int key = 0; key < Tile::Bc; key += Tile::kSlice) {
            visits.asked +=
                of_lane_queries(first_row(query_tile, warp)) + of_lane_keys(tile * Tile::Bc + key);
            if (masks_.blocks) visits.asked.blocks += Tile::kLaneRows * (Tile::kSlice / 4);
          }
        }
      } else if (kind == TileKind::kPartial) {
        for (int warp = 0; warp < Tile::kWarps; ++warp)
          visits.asked += of_shares(masks, first_row(query_tile, warp), tile * Tile::Bc);
      }
    }
    return visits;
  }

  static int first_row(int query_tile, int warp) { return query_tile * Tile::Br + warp * Tile::kWarpRows; }

  /// A partial tile, of which each warp asks for the kind of its shares.
  MaskBytes of_shares(const HeadMasks& masks, int first_query, int first_key) const {
    constexpr int kSlice = Tile::kSlice;
    const Span queries = masks_.queries(first_query, Tile::kWarpRows);
    MaskBytes bytes;
    if (kAtOnce) {
      bytes += of_blocks(masks, queries, masks_.keys(first_key, Tile::Bc));
      for (int key : {first_key, first_key + kSlice - 1})
        bytes += of_tokens(distinct(key, Tile::Bc / kSlice, kSlice, masks_.seq_k));
    }
    for (int key = first_key; key < first_key + Tile::Bc; key += kSlice) {
      const Span keys = masks_.keys(key, kSlice);
      if (!kAtOnce) bytes += of_tokens(2) + of_kind(masks, queries, keys);  // the first and the last query
      if (masks.kind({queries, keys}) != TileKind::kPartial) continue;
      bytes += of_lane_keys(key) + (kAtOnce ? of_tokens(2) : of_lane_queries(first_query));
    }
    return bytes;
  }

  /// The list of a query tile. Each lane of a warp asks for the kind of one key tile.
  MaskBytes of_list(const HeadMasks& masks, int query_tile) const {
    MaskBytes bytes;
    const Span queries = masks_.queries(query_tile * Tile::Br, Tile::Br);
    for (int tile = 0; tile < key_tiles_; tile += 32) {
      const int lanes = std::min(32, key_tiles_ - tile);
      const Span keys = masks_.keys(tile * Tile::Bc, lanes * Tile::Bc);
      bytes += of_tokens(2 + 2 * lanes);
      bytes += of_blocks(masks, queries, keys);
    }
    return bytes;
  }

  /// kind() of a rectangle whose queries are known.
  MaskBytes of_kind(const HeadMasks& masks, const Span& queries, const Span& keys) const {
    MaskBytes bytes = of_tokens(2);
    bytes += of_blocks(masks, queries, keys);
    return bytes;
  }
  MaskBytes of_blocks(const HeadMasks& masks, const Span& queries, const Span& keys) const {
    if (!masks_.blocks) return {};
    const Blocks& blocks = masks;
    const int rows = blocks.row(queries.last.position) - blocks.row(queries.first.position) + 1;
    const int cols = blocks.col(keys.last.position) - blocks.col(keys.first.position) + 1;
    return {.blocks = rows * cols};
  }
  MaskBytes of_tokens(int count) const { return {.documents = masks_.documents ? 4 * count : 0}; }

  /// The documents of the queries of a warp's lanes, and those of a slice's keys.
  MaskBytes of_lane_queries(int first_query) const {
    MaskBytes bytes;
    for (int row = 0; row < Tile::kLaneRows; ++row)
      bytes += of_tokens(distinct(first_query + 8 * row, 8, 1, masks_.seq_q));
    return bytes;
  }
  MaskBytes of_lane_keys(int first_key) const {
    MaskBytes bytes;
    for (int key = first_key; key < first_key + Tile::kSlice; key += 8) {
      for (int i = 0; i < 2; ++i) bytes += of_tokens(distinct(key + i, 4, 2, masks_.seq_k));
    }
    return bytes;
  }
  /// How many of `count` numbers differ if those from `end` on become end - 1.
  static int distinct(int first, int count, int step, int end) {
    int different = 0;
    bool has_last = false;
    for (int at = first; at < first + count * step; at += step) {
      if (at >= end - 1) {
        has_last = true;
      } else {
        ++different;
      }
    }
    return different + has_last;
  }

  const MaskedShape& shape_;
  Masks masks_;
  int query_tiles_, key_tiles_;
};

}  // namespace fa::ch11
