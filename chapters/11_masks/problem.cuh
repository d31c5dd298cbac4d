/// @file
/// The masks of a problem, on the device for kernels and on the host for formulas; and its mods.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "attention/masked_attention.hpp"
#include "mask_mod.cuh"
#include "mods.cuh"
#include "score_mod.cuh"

namespace fa::ch11 {

inline int log2_of(std::int64_t power_of_two) {
  int log2 = 0;
  while ((std::int64_t(1) << log2) < power_of_two) ++log2;
  return log2;
}

/// For kernels.
inline Masks masks_of(const MaskedAttention::Args& a) {
  return {.heads = a.heads,
          .seq_q = a.seq_q,
          .seq_k = a.seq_k,
          .causal = a.causal,
          .window = a.window,
          .documents = a.documents,
          .key_lengths = a.key_lengths,
          .blocks = a.block_mask,
          .heads_of_blocks = a.heads_of_blocks,
          .log2_size_of_blocks = log2_of(a.size_of_blocks)};
}

/// The mods of a kernel for a problem.
template <class Mods>
Mods bind(const MaskedAttention::Args& a) {
  Mods mods = {.score_mods = {}, .dropout = {a.dropout}};
  if constexpr (std::is_same_v<decltype(mods.score_mods), ScoreMods>) {
    mods.score_mods = {.heads = a.heads,
                       .shift = a.seq_k - a.seq_q,
                       .softcap = {a.softcap, std::isinf(a.softcap) ? 0.0f : 1.0f / a.softcap},
                       .alibi = a.alibi};
  }
  return mods;
}

/// Whether the rows of all tensors that the gradients copy have no gaps, and all columns exist.
template <class Tile>
bool is_dense(const MaskedAttention::Args& a) {
  const auto has_no_gaps = [&](const char* name) { return a.strides.at(name).row == Tile::kHeadDim; };
  return a.head_dim == Tile::kHeadDim && std::ranges::all_of(std::array{"q", "k", "v", "do"}, has_no_gaps);
}

/// For formulas. The shape must outlive the result.
inline Masks masks_of(const MaskedShape& shape) {
  const BlockPattern* blocks = shape.block_mask.get();
  return {.heads = int(shape.heads),
          .seq_q = int(shape.seq_q),
          .seq_k = int(shape.seq_k),
          .causal = shape.causal,
          .window = int(shape.reach()),
          .documents = shape.documents ? shape.documents->data() : nullptr,
          .key_lengths = shape.key_lengths ? shape.key_lengths->data() : nullptr,
          .blocks = blocks ? blocks->blocks.data() : nullptr,
          .heads_of_blocks = blocks ? int(blocks->heads) : 1,
          .log2_size_of_blocks = blocks ? log2_of(blocks->size) : 6};
}

}  // namespace fa::ch11
