/// @file
/// The HBM bytes of both passes: those of tensors, gradients and lists exactly, those of the masks at least.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "attention/masked_attention.hpp"
#include "attention/traffic.hpp"
#include "launch.hpp"
#include "list_tiles.cuh"
#include "mask_mod.cuh"

namespace fa::ch11 {

/// A row of tiles in the masks of a list: for a query tile the key tiles, or for a key tile the query tiles.
struct RowOfTiles {
  int list;
  MaskMod masks;
  std::string kinds;  ///< of each tile: 'e'mpty, 'p'artial, 'f'ull

  std::int64_t count(char kind) const { return std::count(kinds.begin(), kinds.end(), kind); }
  std::int64_t visited() const { return std::int64_t(kinds.size()) - count('e'); }
  /// How many of the first `length` tokens are in visited tiles of `size` tokens.
  std::int64_t tokens(int size, int length) const {
    std::int64_t sum = 0;
    for (std::size_t tile = 0; tile < kinds.size(); ++tile) {
      if (kinds[tile] != 'e') sum += std::clamp(length - int(tile) * size, 0, size);
    }
    return sum;
  }
};

/// The rows of all lists, one list after the other. @tparam Of  KeysOfQueries or QueriesOfKeys
template <class Of>
std::vector<RowOfTiles> rows_of_tiles(const Masks& masks, std::int64_t batch, Finds finds = Finds::kListed) {
  std::vector<RowOfTiles> rows;
  for (int list = 0; list < masks.lists(int(batch)); ++list) {
    for (int number = 0; number < Of::rows(masks); ++number) {
      RowOfTiles& row = rows.emplace_back(RowOfTiles{list, masks.of(masks.head_of_list(list)), {}});
      for (int tile = 0; tile < Of::most(masks); ++tile) {
        const TileKind kind =
            finds == Finds::kAllTiles ? TileKind::kPartial : Of::kind(masks, row.masks, number, tile);
        row.kinds += kind == TileKind::kEmpty ? 'e' : kind == TileKind::kPartial ? 'p' : 'f';
      }
    }
  }
  return rows;
}

/// Adds what is read of the masks, at least: for a length one number per warp of `warps`; for documents and
/// blocks one element per evaluation.
inline void add_masks(Traffic& to, const Masks& masks, std::int64_t warps, std::int64_t evaluations) {
  if (masks.documents) add(to, "documents", {.read_bytes = 4 * evaluations, .at_least = true});
  if (masks.documents && masks.key_documents != masks.documents)
    add(to, "key_documents", {.read_bytes = 4 * evaluations, .at_least = true});
  if (masks.blocks) add(to, "block_mask", {.read_bytes = evaluations, .at_least = true});
  if (masks.key_lengths) add(to, "key_lengths", {.read_bytes = 4 * warps, .at_least = true});
}

/// Adds what is read of the slopes of ALiBi, at least: those of each head.
inline void add_slopes(Traffic& to, const MaskedShape& shape) {
  if (shape.alibi_slopes)
    add(to, "alibi_slopes", {.read_bytes = 4 * shape.batch * shape.heads, .at_least = true});
}

/// Adds what kernels read of the sinks, once for each warp. Does nothing without sinks.
inline void add_sinks(Traffic& to, const MaskedShape& shape, std::int64_t warps) {
  if (shape.sinks) add(to, "sinks", {.read_bytes = 4 * warps});
}

/// Adds what sink_gradients() moves.
inline void add_sink_gradients(Traffic& to, const MaskedShape& shape) {
  if (!shape.sinks) return;
  for (const char* name : {"lse", "delta"})
    add(to, name, {.read_bytes = 4 * shape.batch * shape.heads * shape.seq_q});
  add_sinks(to, shape, shape.heads * (kSinkThreads / 32));
  add(to, "dsinks", {.write_bytes = 4 * shape.heads});
}

/// The bytes of the forward pass with these tiles. The masks are evaluated at least once for each partial
/// tile, and once for each list.
/// @param buffers  where lists are, if it has any
template <class Tile>
Traffic forward_traffic(const MaskedShape& shape, Finds finds, const ListBuffers& buffers) {
  using Of = KeysOfQueries<Tile>;
  const Masks masks = masks_of(shape);
  const int lists = masks.lists(int(shape.batch));
  const std::int64_t heads = shape.batch * shape.heads, heads_of_list = heads / lists;
  const bool listed = finds == Finds::kListed;
  std::int64_t keys = 0, visited = 0, read = 0, partial = 0;
  TileKinds kinds = {.queries = Tile::Br, .keys = Tile::Bc};
  const std::vector<RowOfTiles> rows = rows_of_tiles<Of>(masks, shape.batch, finds);
  for (const RowOfTiles& row : rows) {
    keys += row.tokens(Tile::Bc, row.masks.keys);
    visited += row.visited();
    read += std::max<std::int64_t>(0, row.visited() - 1);  // the first one comes with its row
    partial += row.count('p');
    kinds.kinds.push_back(row.kinds);
  }

  Traffic traffic;
  if (finds != Finds::kAllTiles) traffic.tiles = std::move(kinds);
  const std::int64_t row = shape.head_dim * std::int64_t(size_of(shape.dtype)), q = heads * shape.seq_q;
  auto& of = traffic.tensors;
  of["q"] = {.read_bytes = q * row};
  of["o"] = {.write_bytes = q * row};
  of["lse"] = {.read_bytes = q * 4, .write_bytes = q * 4};  // repair_marked_rows() reads it
  for (const char* name : {"k", "v"}) of[name] = {.read_bytes = keys * heads_of_list * row};
  const std::int64_t warps = heads * Of::rows(masks) * Tile::kWarps;
  const auto all_lists = std::int64_t(rows.size());
  add_masks(traffic, masks, warps, partial * heads_of_list + (listed ? all_lists : 0));
  add_slopes(traffic, shape);
  if (listed) {
    const bool ordered = !buffers.order.empty();
    const ListReads reads = {.listed = ordered ? 0 : warps,
                             .tiles = read * heads_of_list * Tile::kWarps,
                             .order = ordered ? warps : 0};
    add_lists(traffic, buffers, lists, Of::rows(masks), visited, reads);
  }
  return traffic;
}

/// The bytes of making the lists, and of a backward kernel with a block for each key tile that adds nothing
/// to dQ.
/// @param visited  receives how many query tiles are visited, once for each key tile of each head
template <class Tile>
Traffic key_tile_traffic(const MaskedShape& shape, Finds finds, const ListBuffers& buffers,
                         std::int64_t* visited = nullptr) {
  using Of = QueriesOfKeys<Tile>;
  const Masks masks = masks_of(shape);
  const int lists = masks.lists(int(shape.batch));
  const std::int64_t heads = shape.batch * shape.heads, heads_of_list = heads / lists;
  const std::int64_t group = shape.heads / shape.kv_heads;
  const bool listed = finds == Finds::kListed, ordered = !buffers.order.empty();
  std::vector<std::int64_t> first_heads(lists);  // with this list, of those that share a key tile
  for (std::int64_t head = 0; head < heads; head += group) ++first_heads[masks.list_of(int(head))];

  std::int64_t queries = 0, tiles = 0, partial = 0, brought = 0, counts = 0;
  const std::vector<RowOfTiles> rows = rows_of_tiles<Of>(masks, shape.batch, finds);
  for (const RowOfTiles& row : rows) {
    queries += row.tokens(Tile::Br, masks.seq_q);
    tiles += row.visited();
    partial += row.count('p');
    // A block goes through the lists of the heads that share its key tile twice, for partial tiles and
    // for full ones. It begins with what the row of the first head brings: its partial tiles, or its full
    // ones if it has the key tile for itself. Without an order, no row brings anything.
    const bool has_partial = row.count('p') > 0, has_full = row.count('f') > 0;
    brought += first_heads[row.list] * (ordered && (has_partial || (group == 1 && has_full)));
    counts += first_heads[row.list] * (!ordered ? 2 * group : group > 1 ? 2 * group - 1 : has_partial);
  }

  Traffic traffic;
  auto& of = traffic.tensors;
  const std::int64_t row = shape.head_dim * std::int64_t(size_of(shape.dtype));
  std::int64_t keys = 0;  // that exist, in all heads of K and V
  for (int batch = 0; batch < shape.batch; ++batch)
    keys += masks.of(batch * int(shape.heads)).keys * shape.kv_heads;
  for (const char* name : {"q", "do"}) of[name] = {.read_bytes = queries * heads_of_list * row};
  for (const char* name : {"lse", "delta"}) of[name] = {.read_bytes = queries * heads_of_list * 4};
  for (const char* name : {"k", "v"}) of[name] = {.read_bytes = keys * row};
  for (const char* name : {"dk", "dv"})
    of[name] = {.write_bytes = shape.batch * shape.kv_heads * shape.seq_k * row};
  const std::int64_t warps = shape.batch * shape.kv_heads * Of::rows(masks) * Tile::kWarps;
  const auto all_lists = std::int64_t(rows.size());
  add_masks(traffic, masks, warps, partial * heads_of_list + (listed ? all_lists : 0));
  add_slopes(traffic, shape);
  if (listed) {
    const ListReads reads = {.listed = 0,
                             .tiles = (tiles * heads_of_list - brought) * Tile::kWarps,
                             .order = ordered ? warps : 0,
                             .counts = counts * Tile::kWarps};
    add_lists(traffic, buffers, lists, Of::rows(masks), tiles, reads);
  }
  add_sink_gradients(traffic, shape);
  if (visited) *visited = tiles * heads_of_list;
  return traffic;
}

/// Rows of the sums of dQ, over all heads. Every head has whole query tiles.
template <class Tile>
std::int64_t rows_of_sums(const MaskedShape& shape) {
  return shape.batch * shape.heads * tiles(shape.seq_q, Tile::Br) * Tile::Br;
}

/// The bytes of the backward kernels of a variant that adds dQ in memory.
template <class Tile>
Traffic backward_traffic(const MaskedShape& shape, Finds finds, const ListBuffers& buffers) {
  std::int64_t visited = 0;
  Traffic traffic = key_tile_traffic<Tile>(shape, finds, buffers, &visited);
  const std::int64_t row = shape.head_dim * std::int64_t(size_of(shape.dtype));
  const std::int64_t q = shape.batch * shape.heads * shape.seq_q;
  const std::int64_t sum = shape.head_dim * 4, added = visited * Tile::Br;
  auto& of = traffic.tensors;
  of["o"] = {.read_bytes = q * row};
  of["do"].read_bytes += q * row;
  of["delta"].write_bytes = q * 4;
  of["dq_sum"] = {.read_bytes = (added + q) * sum, .write_bytes = (rows_of_sums<Tile>(shape) + added) * sum};
  of["dq"] = {.write_bytes = q * row};
  return traffic;
}

}  // namespace fa::ch11
