/// @file
/// The buffers of lists of tiles, the launches that fill them, and their HBM bytes.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attention/masked_attention.hpp"
#include "attention/tensor.hpp"
#include "attention/traffic.hpp"
#include "device/launch.cuh"
#include "list_tiles.cuh"
#include "problem.cuh"

namespace fa::ch11 {

/// Names in the workspace.
struct ListBuffers {
  std::string listed, tiles;
  std::string order = {};  ///< empty: the lists have none
};
inline const ListBuffers kKeyTiles = {"query_rows", "key_tiles"};
inline const ListBuffers kQueryTiles = {"key_rows", "query_tiles"};
inline const ListBuffers kOrderedKeyTiles = {"query_rows", "key_tiles", "query_row_order"};
inline const ListBuffers kOrderedQueryTiles = {"key_rows", "query_tiles", "key_row_order"};

/// @param lists  the lists of all rows    @param most  the tiles that each can name
inline void add_specs(std::vector<TensorSpec>& specs, const ListBuffers& names, std::int64_t lists,
                      std::int64_t most) {
  constexpr int kFields = sizeof(BlockMaskRow) / sizeof(int);
  specs.push_back({.name = names.listed, .shape = {lists, kFields}, .dtype = DType::kInt32});
  specs.push_back({.name = names.tiles, .shape = {lists, most}, .dtype = DType::kInt32});
  if (!names.order.empty())
    specs.push_back({.name = names.order, .shape = {lists, kFields}, .dtype = DType::kInt32});
}

/// The same for the lists of a shape. @tparam Of  KeysOfQueries or QueriesOfKeys
template <class Of>
void add_specs(std::vector<TensorSpec>& specs, const ListBuffers& names, const MaskedShape& shape) {
  const Masks masks = masks_of(shape);
  add_specs(specs, names, std::int64_t(masks.lists(int(shape.batch))) * Of::rows(masks), Of::most(masks));
}

/// The lists in the workspace. @tparam Of  KeysOfQueries or QueriesOfKeys
template <class Of>
BlockMaskOf<Of> lists_in(const ListBuffers& names, const MaskedAttention::Args& a) {
  const Masks masks = masks_of(a);
  return {{.listed = a.buffer<BlockMaskRow>(names.listed),
           .tiles = a.buffer<int>(names.tiles),
           .order = names.order.empty() ? nullptr : a.buffer<BlockMaskRow>(names.order),
           .rows = Of::rows(masks),
           .most = Of::most(masks)}};
}

/// Enqueues the kernels that make lists, and order them if they have an order.
template <class... Of>
void make_lists(const MaskedAttention::Args& a, cudaStream_t stream, const BlockMaskOf<Of>&... lists) {
  constexpr int kThreads = 256, kFewRows = 32;
  const Masks masks = masks_of(a);
  const unsigned count = unsigned(masks.lists(a.batch));
  if (((lists.order && lists.rows <= kFewRows) && ...)) {
    launch(list_and_order<kFewRows, Of...>, dim3(count, sizeof...(Of)), 32 * kFewRows, 0, stream, masks,
           lists...);
    return;
  }
  const auto make = [&]<class One>(const BlockMaskOf<One>& of_kind) {
    launch(list_tiles<One>, count * unsigned(of_kind.rows), 32, 0, stream, masks, of_kind);
    if (of_kind.order) launch(order_rows<kThreads>, count, kThreads, 0, stream, of_kind);
  };
  (make(lists), ...);
}
/// The same. Returns them.
template <class Of>
BlockMask make_lists(const ListBuffers& names, const MaskedAttention::Args& a, cudaStream_t stream) {
  const BlockMaskOf<Of> lists = lists_in<Of>(names, a);
  make_lists(a, stream, lists);
  return lists;
}

/// Why grid_of_rows() has no room for the rows of ordered lists; nothing if it has, or if the lists have no
/// order.
/// @param option  the length of which a list's row has `rows`
inline std::optional<Refusal> refuse_more_rows(const ListBuffers& names, const std::string& option,
                                               std::int64_t length, std::int64_t rows) {
  const std::int64_t most = kMostBlocksInYOrZ * rows;
  if (names.order.empty() || length <= most) return std::nullopt;
  return Refusal::variant(option + " is " + std::to_string(length) + ": this variant takes at most " +
                          std::to_string(most));
}

/// How often the kernel that is given lists reads an entry of each buffer. Warps count, not threads.
struct ListReads {
  std::int64_t listed, tiles;
  std::int64_t order = 0;
  std::int64_t counts = 0;  ///< one of the two of a row
};

/// Adds the bytes of making, ordering and reading lists.
/// @param lists   lists of each row    @param named   tiles that they name, in all rows
inline void add_lists(Traffic& traffic, const ListBuffers& names, std::int64_t lists, std::int64_t rows,
                      std::int64_t named, const ListReads& reads) {
  const std::int64_t all = lists * rows;
  auto& of = traffic.tensors;
  const std::int64_t bytes = sizeof(BlockMaskRow);
  of[names.listed] = {.read_bytes = bytes * reads.listed + 4 * reads.counts, .write_bytes = bytes * all};
  of[names.tiles] = {.read_bytes = 4 * reads.tiles, .write_bytes = 4 * named};
  if (names.order.empty()) return;
  of[names.listed].read_bytes +=
      bytes * all + 8 * all * ((rows + 31) / 32);  // its own, and both counts of all
  of[names.order] = {.read_bytes = bytes * reads.order, .write_bytes = bytes * all};
}

}  // namespace fa::ch11
