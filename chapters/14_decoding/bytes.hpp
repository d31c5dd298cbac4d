/// @file
/// The HBM bytes of the variants: exact, but for the lengths that `balanced` and its successors read, of
/// which it counts those that every warp reads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/decoding_attention.hpp"
#include "attention/traffic.hpp"
#include "decoding.cuh"
#include "plan.cuh"
#include "tensor_maps.cuh"
#include "tiles.cuh"

namespace fa::ch14 {

/// What becomes of the keys of a head.
enum class Divided {
  kWhole,     ///< a block has them all
  kSplits,    ///< as many parts for each head, and a second kernel
  kBalanced,  ///< parts wherever a block's share ends, and a second kernel
  kMerged,    ///< the same, and the last block to finish merges
  kFastest    ///< kMerged or kBalanced: see merges_itself()
};

/// How tiles of keys reach the chip.
enum class Copies {
  kTiles,    ///< the block copies tiles together: the keys that exist
  kByLanes,  ///< each warp copies its own tiles: the keys that exist
  kByTma     ///< boxes, whose last one may go beyond the sequence
};

/// What a launch does.
struct Work {
  Divided keys;
  Copies copies;
  int splits = 1;     ///< kSplits: parts of each head
  Granules granules;  ///< with the lengths in host memory
  int rows;           ///< of Q in each head of the work; as Decoding::rows
  int heads;          ///< of Decoding::kv_heads
};

/// The slots for parts in the workspace; 0 if the work leaves none.
inline std::int64_t slots_of(const Work& work) {
  const std::int64_t units = std::int64_t(work.granules.batch) * work.granules.heads;
  switch (work.keys) {
    case Divided::kWhole: return 0;
    case Divided::kSplits: return units * work.splits;
    default: return 2 * std::int64_t(work.granules.blocks);
  }
}

/// The keys that boxes bring for a sequence. @param tokens  of a page, or of the longest sequence
inline std::int64_t keys_of_boxes(std::int64_t length, std::int64_t box, std::int64_t tokens) {
  std::int64_t keys = 0;
  for (std::int64_t first = 0; first < length; first += box) keys += std::min(box, tokens - first % tokens);
  return keys;
}

template <class Tile>
Traffic decoding_traffic(const DecodingShape& shape, const Work& work) {
  constexpr std::int64_t d = Tile::kHeadDim, kWarps = Tile::kThreads / 32;
  constexpr std::int64_t kElement = sizeof(typename Tile::Element);
  const Granules& of = work.granules;
  const BlockTable* table = shape.block_table.get();
  const int page_size = table ? int(table->page_size) : 0;
  const bool balances = work.keys == Divided::kBalanced || work.keys == Divided::kMerged;
  const bool by_tma = work.copies == Copies::kByTma;
  std::int64_t granules = 0;
  for (int batch = 0; batch < of.batch; ++batch) granules += of.heads * of.of_length(of.length(batch));
  const Division division = Division::of(int(granules), of.blocks);

  // Of all heads: keys that are read; page numbers; rows of Q, once for each block; rows of parts; blocks
  // that have a share of a head, and those that share one with others.
  std::int64_t keys = 0, pages = 0, rows_of_shares = 0, rows_of_parts = 0, shares = 0, arrivals = 0;
  int first = 0;
  for (int batch = 0; batch < of.batch; ++batch) {
    const int length = of.length(batch), tiles_of_head = of.of_length(length);
    const std::int64_t read =
        by_tma ? keys_of_boxes(length, box_keys<Tile>(page_size), page_size > 0 ? page_size : shape.seq_k)
               : length;
    for (int head = 0; head < of.heads; ++head, first += tiles_of_head) {
      const int row_tiles = of.heads / work.heads;
      const std::int64_t rows = std::min(Tile::kRows, work.rows - head % row_tiles * Tile::kRows);
      std::int64_t of_head = 1;
      if (work.keys == Divided::kSplits) of_head = work.splits;
      if (balances) of_head = tiles_of_head > 0 ? Parts::of(division, first, tiles_of_head).count : 0;
      const bool leaves_parts = work.keys == Divided::kSplits || (balances && of_head > 1);
      keys += read;
      // A warp looks up the pages of a tile at once. Without TMA, it reads a number for every 16 keys.
      const int per_number = by_tma ? std::clamp(page_size, 16, int(Tile::kKeys)) : 16;
      pages += tiles(length, per_number);
      shares += of_head;
      rows_of_shares += of_head * rows;
      if (!leaves_parts) continue;
      rows_of_parts += of_head * rows;
      arrivals += of_head;
    }
  }

  Traffic traffic;
  auto& to = traffic.tensors;
  const std::int64_t rows = shape.batch * shape.heads * shape.seq_q, row_bytes = d * 2;
  // Each warp has fragments of all rows; warpgroups share them.
  to["q"] = {.read_bytes = rows_of_shares * row_bytes * (Tile::kQInShared ? 1 : kWarps)};
  for (const char* name : {"k", "v"}) to[name] = {.read_bytes = keys * d * kElement};
  to["o"] = {.write_bytes = rows * row_bytes};
  to["lse"] = {.write_bytes = rows * 4};
  if (work.keys != Divided::kWhole) {
    // d / 4 threads merge a row: each warp among them reads its state.
    to["part_o"] = {.read_bytes = rows_of_parts * d * 4, .write_bytes = rows_of_parts * d * 4};
    to["part_state"] = {.read_bytes = rows_of_parts * 8 * std::max<std::int64_t>(1, d / 128),
                        .write_bytes = rows_of_parts * 8};
  }
  if (work.keys == Divided::kMerged)
    to["counters"] = {.read_bytes = 4 * arrivals, .write_bytes = 4 * arrivals};
  if (shape.key_lengths) {
    to["key_lengths"] = balances
                            ? TensorTraffic{.read_bytes = of.blocks * kWarps * of.batch * 4, .at_least = true}
                            : TensorTraffic{.read_bytes = shares * kWarps * 4};
  }
  if (table) to["block_table"] = {.read_bytes = pages * 4};
  if (shape.fp8) {
    for (const char* name : {"k_scale", "v_scale"}) to[name] = {.read_bytes = shares * kWarps * 4};
  }
  return traffic;
}

}  // namespace fa::ch14
