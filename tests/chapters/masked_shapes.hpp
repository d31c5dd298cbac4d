/// @file
/// Masks for the tests of chapter 11.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "attention/masked_attention.hpp"

namespace fa {

using Random = std::mt19937;

/// Whether the blocks of a variant of chapter 11 take the rows with the longest lists first.
inline bool takes_longest_lists_first(const std::string& variant) {
  return variant == "compressed" || variant == "block_sparse" || variant == "deterministic" ||
         variant == "scores";
}

/// A number from 0 to most.
inline std::int64_t up_to(Random& random, std::int64_t most) {
  return std::int64_t(random() % std::uint32_t(most + 1));
}

/// Documents that end after these tokens; the last one ends with the sequence.
inline std::shared_ptr<const std::vector<std::int32_t>> documents_that_end_at(
    std::int64_t seq, const std::vector<std::int64_t>& ends) {
  std::vector<std::int32_t> documents;
  for (std::int64_t token = 0; token < seq; ++token) {
    documents.push_back(std::int32_t(
        std::count_if(ends.begin(), ends.end(), [&](std::int64_t end) { return end <= token; })));
  }
  return std::make_shared<const std::vector<std::int32_t>>(std::move(documents));
}

/// Documents of random lengths.
inline std::shared_ptr<const std::vector<std::int32_t>> random_documents(std::int64_t seq,
                                                                         std::int64_t longest,
                                                                         Random& random) {
  std::vector<std::int64_t> ends;
  for (std::int64_t end = 0; end < seq; ends.push_back(end)) end += 1 + up_to(random, longest - 1);
  return documents_that_end_at(seq, ends);
}

inline std::shared_ptr<const std::vector<std::int32_t>> key_lengths(std::vector<std::int32_t> lengths) {
  return std::make_shared<const std::vector<std::int32_t>>(std::move(lengths));
}
inline std::shared_ptr<const std::vector<std::int32_t>> random_key_lengths(const MaskedShape& shape,
                                                                           Random& random) {
  std::vector<std::int32_t> lengths;
  for (std::int64_t n = 0; n < shape.batch; ++n) lengths.push_back(std::int32_t(up_to(random, shape.seq_k)));
  return key_lengths(std::move(lengths));
}

/// Blocks of which each exists if f(head, row, col) says so.
template <class F>
std::shared_ptr<const BlockPattern> blocks_where(const MaskedShape& shape, std::int64_t heads,
                                                 std::int64_t size, F f) {
  BlockPattern mask{.heads = heads,
                    .rows = (shape.seq_q - 1) / size + 1,
                    .cols = (shape.seq_k - 1) / size + 1,
                    .size = size,
                    .blocks = {}};
  for (std::int64_t head = 0; head < mask.heads; ++head) {
    for (std::int64_t row = 0; row < mask.rows; ++row) {
      for (std::int64_t col = 0; col < mask.cols; ++col) mask.blocks.push_back(f(head, row, col) ? 1 : 0);
    }
  }
  return std::make_shared<const BlockPattern>(std::move(mask));
}

/// Blocks of which a fraction exists.
inline std::shared_ptr<const BlockPattern> random_blocks(const MaskedShape& shape, std::int64_t heads,
                                                         std::int64_t size, double fraction, Random& random) {
  return blocks_where(shape, heads, size, [&](auto, auto, auto) {
    return std::uniform_real_distribution<double>()(random) < fraction;
  });
}

inline std::shared_ptr<const std::vector<float>> sinks(std::vector<float> of_heads) {
  return std::make_shared<const std::vector<float>>(std::move(of_heads));
}

/// Adds each mask with probability 1/2.
inline void add_random_masks(MaskedShape& shape, Random& random) {
  const auto heads_or_tails = [&] { return random() % 2 == 0; };
  shape.causal = heads_or_tails();
  if (heads_or_tails()) shape.window = 1 + up_to(random, shape.seq_k);
  if (heads_or_tails()) {
    shape.documents = random_documents(shape.seq_q, 1 + up_to(random, shape.seq_q), random);
    if (shape.seq_q != shape.seq_k)
      shape.key_documents = random_documents(shape.seq_k, 1 + up_to(random, shape.seq_k), random);
  }
  if (heads_or_tails()) shape.key_lengths = random_key_lengths(shape, random);
  if (heads_or_tails()) {
    const std::int64_t heads = heads_or_tails() ? shape.heads : 1;
    shape.block_mask = random_blocks(shape, heads, heads_or_tails() ? 64 : 128, 0.6, random);
  }
}

/// The shape and its masks in words.
inline std::string text(const MaskedShape& shape) {
  std::string words;
  for (const auto& [name, length] : MaskedAttention::describe(shape))
    words += name + " " + std::to_string(length) + " ";
  words += std::string(name_of(shape.dtype)) + (shape.backward ? " backward" : "") +
           (shape.causal ? " causal" : "");
  if (shape.window) words += " window " + std::to_string(*shape.window);
  if (shape.documents) words += " " + std::to_string(shape.documents->back() + 1) + " documents";
  if (shape.key_documents)
    words += ", of keys " + std::to_string(shape.key_documents->back() + 1) + " documents";
  if (shape.key_lengths) {
    words += " key lengths";
    for (const std::int32_t length : *shape.key_lengths) words += " " + std::to_string(length);
  }
  if (shape.block_mask)
    words += " blocks of " + std::to_string(shape.block_mask->size) + " for " +
             std::to_string(shape.block_mask->heads) + " heads";
  if (shape.dropout > 0) words += " dropout " + std::to_string(shape.dropout);
  if (shape.softcap) words += " softcap " + std::to_string(*shape.softcap);
  if (shape.alibi_slopes) words += " slopes of its own";
  if (shape.sinks) {
    words += " sinks";
    for (const float sink : *shape.sinks) words += " " + std::to_string(sink);
  }
  return words + (shape.alibi ? " alibi" : "");
}

}  // namespace fa
