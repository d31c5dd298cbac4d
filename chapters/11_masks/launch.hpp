/// @file
/// What the launches and the formulas of this chapter share: its variants and their sizes, a problem's masks
/// and mods, and the lists of tiles.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <typeindex>
#include <vector>

#include "attention/masked_attention.hpp"
#include "attention/tensor.hpp"
#include "attention/traffic.hpp"
#include "device/launch.cuh"
#include "list_tiles.cuh"
#include "mask_mod.cuh"
#include "mods.cuh"
#include "score_mod.cuh"
#include "sinks.cuh"

namespace fa::ch11 {

using Shape = MaskedAttention::Shape;
using Args = MaskedAttention::Args;

// --- the variants ------------------------------------------------------------------------------------------

/// The kernels of the forward or of the backward pass, as the host sees them.
struct Pass {
  /// What they need for a shape.
  struct Needs {
    std::size_t shared_bytes = 0;  ///< of a block
    std::vector<TensorSpec> workspace = {};
    std::optional<Refusal> refusal = {};  ///< if no grid has the blocks: names the option and a valid value
  };
  void (*launch)(const Args&, cudaStream_t);
  Traffic (*traffic)(const Shape&);  ///< of this pass alone
  Needs (*needs)(const Shape&);
};

/// How a kernel finds its tiles.
enum class Finds {
  kAllTiles,  ///< visits all, and evaluates the masks for all scores
  kVisible,   ///< finds the kind of each tile, and visits those that are not empty
  kListed     ///< visits what lists name
};

/// Each kernel runs all smaller multiples of 8 as well.
struct AllSizes {
  static constexpr bool kPads = true;
  static constexpr std::array kHeadDims = {64, 128};
  static constexpr std::array kTypes = {DType::kFloat16, DType::kBFloat16};
};
/// For the steps that lead to `compressed`: what the lesson shows.
struct LessonSizes : AllSizes {
  static constexpr std::array kTypes = {DType::kBFloat16};
};

/// A variant with a kernel for each pass.
template <class AnyMods, Finds kHow, class AnySizes>
struct Step {
  using Mods = AnyMods;
  using Sizes = AnySizes;
  static constexpr Finds kFinds = kHow;
};
struct MaskedEverywhere : Step<NoMods, Finds::kAllTiles, LessonSizes> {};
struct SkipEmpty : Step<NoMods, Finds::kVisible, LessonSizes> {};
struct ThreeKinds : Step<NoMods, Finds::kVisible, LessonSizes> {};
/// sparse_attention() and sparse_gradients() with mods.
template <class Mods>
struct Sparse : Step<Mods, Finds::kListed, AllSizes> {};

// Backward passes need O and LSE of the forward pass, in the workspace.

/// That of a step: of one named above, or of Sparse with one of AllMods.
/// @param step  its typeid
Pass backward(std::type_index step);

/// That of `deterministic`.
Pass deterministic_backward();

/// Both passes of `hopper`. Their kernels are compiled for sm_90a, and run on no other GPU.
Pass hopper_forward();
Pass hopper_backward();

/// Threads of a block of sink_gradients().
inline constexpr int kSinkThreads = 1024;

// --- a problem's masks and mods ----------------------------------------------------------------------------

inline int log2_of(std::int64_t power_of_two) {
  int log2 = 0;
  while ((std::int64_t(1) << log2) < power_of_two) ++log2;
  return log2;
}

/// For kernels.
inline Masks masks_of(const Args& a) {
  return {.heads = a.heads,
          .seq_q = a.seq_q,
          .seq_k = a.seq_k,
          .causal = a.causal,
          .window = a.window,
          .documents = a.documents,
          .key_documents = a.key_documents ? a.key_documents : a.documents,
          .key_lengths = a.key_lengths,
          .blocks = a.block_mask,
          .heads_of_blocks = a.heads_of_blocks,
          .log2_size_of_blocks = log2_of(a.size_of_blocks)};
}

inline WithSinks sinks_of(const Args& a) { return {.sinks = a.sinks, .heads = a.heads}; }

/// The mods of a kernel for a problem.
template <class Mods>
Mods bind(const Args& a) {
  Mods mods = {.score_mods = {}, .dropout = {a.dropout}, .sinks = {}};
  if constexpr (std::is_same_v<decltype(mods.score_mods), ScoreMods>) {
    mods.score_mods = {.heads = a.heads,
                       .shift = a.seq_k - a.seq_q,
                       .softcap = {a.softcap, std::isinf(a.softcap) ? 0.0f : 1.0f / a.softcap},
                       .alibi = a.alibi,
                       .slopes = a.alibi_slopes};
  }
  if constexpr (std::is_same_v<decltype(mods.sinks), WithSinks>) mods.sinks = sinks_of(a);
  return mods;
}

/// For formulas. The shape must outlive the result.
inline Masks masks_of(const Shape& shape) {
  const BlockPattern* blocks = shape.block_mask.get();
  return {.heads = int(shape.heads),
          .seq_q = int(shape.seq_q),
          .seq_k = int(shape.seq_k),
          .causal = shape.causal,
          .window = int(shape.reach()),
          .documents = shape.documents ? shape.documents->data() : nullptr,
          .key_documents = shape.documents ? shape.documents_of_keys().data() : nullptr,
          .key_lengths = shape.key_lengths ? shape.key_lengths->data() : nullptr,
          .blocks = blocks ? blocks->blocks.data() : nullptr,
          .heads_of_blocks = blocks ? int(blocks->heads) : 1,
          .log2_size_of_blocks = blocks ? log2_of(blocks->size) : 6};
}

/// Enqueues the kernel for the gradients of sinks, after those that write D. Does nothing without sinks.
/// @param rows_of_delta  of each head
inline void launch_sink_gradients(const Args& a, int rows_of_delta, cudaStream_t stream) {
  if (!a.sinks) return;
  launch(sink_gradients<kSinkThreads>, unsigned(a.heads), kSinkThreads, 0, stream, sinks_of(a),
         a.buffer<const float>("lse"), a.buffer<const float>("delta"), a.buffer<float>("dsinks"), a.batch,
         a.seq_q, rows_of_delta);
}

// --- the lists of tiles ------------------------------------------------------------------------------------

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
void add_specs(std::vector<TensorSpec>& specs, const ListBuffers& names, const Shape& shape) {
  const Masks masks = masks_of(shape);
  add_specs(specs, names, std::int64_t(masks.lists(int(shape.batch))) * Of::rows(masks), Of::most(masks));
}

/// The lists in the workspace. @tparam Of  KeysOfQueries or QueriesOfKeys
template <class Of>
BlockMaskOf<Of> lists_in(const ListBuffers& names, const Args& a) {
  const Masks masks = masks_of(a);
  return {{.listed = a.buffer<BlockMaskRow>(names.listed),
           .tiles = a.buffer<int>(names.tiles),
           .order = names.order.empty() ? nullptr : a.buffer<BlockMaskRow>(names.order),
           .rows = Of::rows(masks),
           .most = Of::most(masks)}};
}

/// Enqueues the kernels that make lists, and order them if they have an order.
template <class... Of>
void make_lists(const Args& a, cudaStream_t stream, const BlockMaskOf<Of>&... lists) {
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
BlockMask make_lists(const ListBuffers& names, const Args& a, cudaStream_t stream) {
  const BlockMaskOf<Of> lists = lists_in<Of>(names, a);
  make_lists(a, stream, lists);
  return lists;
}

/// The grid of a kernel with a block for each row of lists in each of `heads` heads, through all batches.
template <class Tile>
dim3 grid_of(const BlockMask& lists, int heads) {
  return lists.order ? grid_of_rows(lists, heads, Tile::kBlocksPerSm)
                     : dim3(unsigned(lists.rows) * unsigned(heads));
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
