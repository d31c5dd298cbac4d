/// @file
/// The buffers of lists of tiles, the launches that fill them, and their HBM bytes.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "attention/masked_attention.hpp"
#include "attention/tensor.hpp"
#include "attention/traffic.hpp"
#include "device/launch.cuh"
#include "lists.cuh"
#include "problem.cuh"

namespace fa::ch11 {

/// Names in the workspace.
struct ListBuffers {
  std::string counts, tiles;
  std::string order = {};  ///< empty: the lists have none
};
inline const ListBuffers kKeyTiles = {"key_tile_counts", "key_tiles"};
inline const ListBuffers kQueryTiles = {"query_tile_counts", "query_tiles"};
inline const ListBuffers kOrderedKeyTiles = {"key_tile_counts", "key_tiles", "key_tile_order"};
inline const ListBuffers kOrderedQueryTiles = {"query_tile_counts", "query_tiles", "query_tile_order"};

/// @param lists  the lists of all rows    @param most  the tiles that each can name
inline void add_specs(std::vector<TensorSpec>& specs, const ListBuffers& names, std::int64_t lists,
                      std::int64_t most) {
  specs.push_back({.name = names.counts, .shape = {lists, 2}, .dtype = DType::kInt32});
  specs.push_back({.name = names.tiles, .shape = {lists, most}, .dtype = DType::kInt32});
  if (!names.order.empty()) specs.push_back({.name = names.order, .shape = {lists}, .dtype = DType::kInt32});
}

/// Enqueues the kernels that make lists, and order them if they have an order.
/// @tparam Of  KeysOfQueries or QueriesOfKeys
/// @param blocks_per_sm  of the kernel that takes its rows from row_of_block(); of no importance for others
template <class Of>
TileLists make_lists(const ListBuffers& names, const MaskedAttention::Args& a, int blocks_per_sm,
                     cudaStream_t stream) {
  constexpr int kThreads = 256, kFewRows = 32;
  constexpr int kBlocks = 256;  // times blocks_per_sm, taken together: about two waves on an H100
  const Masks masks = masks_of(a);
  const bool ordered = !names.order.empty();
  const TileLists lists = {.counts = a.buffer<int>(names.counts),
                           .tiles = a.buffer<int>(names.tiles),
                           .order = ordered ? a.buffer<int>(names.order) : nullptr,
                           .rows = Of::rows(masks),
                           .most = Of::most(masks),
                           .heads_at_once = std::max(1, kBlocks * blocks_per_sm / Of::rows(masks))};
  const unsigned count = unsigned(masks.lists(a.batch));
  if (ordered && lists.rows <= kFewRows) {
    launch(list_and_order<Of, kFewRows>, count, 32 * kFewRows, 0, stream, masks, lists);
    return lists;
  }
  launch(list_tiles<Of>, count * unsigned(lists.rows), 32, 0, stream, masks, lists);
  if (ordered) launch(order_rows<kThreads>, count, kThreads, 0, stream, lists);
  return lists;
}

/// How often the kernel that is given lists reads an entry of each buffer. Warps count, not threads.
struct ListReads {
  std::int64_t counts, tiles;
  std::int64_t order = 0;
};

/// Adds the bytes of making, ordering and reading lists.
/// @param lists   lists of each row    @param named   tiles that they name, in all rows
inline void add_lists(Traffic& traffic, const ListBuffers& names, std::int64_t lists, std::int64_t rows,
                      std::int64_t named, const ListReads& reads) {
  const std::int64_t all = lists * rows;
  auto& of = traffic.tensors;
  of[names.counts] = {.read_bytes = 8 * reads.counts, .write_bytes = 8 * all};
  of[names.tiles] = {.read_bytes = 4 * reads.tiles, .write_bytes = 4 * named};
  if (names.order.empty()) return;
  of[names.counts].read_bytes +=
      8 * all * (1 + (rows + 31) / 32);  // each warp reads all, and those of its rows
  of[names.order] = {.read_bytes = 4 * reads.order, .write_bytes = 4 * all};
}

}  // namespace fa::ch11
