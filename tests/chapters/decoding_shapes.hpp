/// @file
/// Problems for the tests of chapter 14.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attention/decoding_attention.hpp"

namespace fa {

/// One sequence in bf16, with d = 64. @param group  heads of Q that share one of K
inline DecodingShape decoding_shape(std::int64_t seq_k, std::int64_t group = 2, std::int64_t seq_q = 1) {
  DecodingShape shape;
  shape.heads = group, shape.seq_q = seq_q, shape.seq_k = seq_k, shape.head_dim = 64;
  shape.dtype = DType::kBFloat16;
  return shape;
}

/// The same for sequences of these lengths.
inline DecodingShape decoding_shape_of(std::vector<std::int32_t> lengths, std::int64_t group = 2,
                                       std::int64_t seq_q = 1) {
  std::int64_t longest = 1;
  for (const std::int32_t length : lengths) longest = std::max<std::int64_t>(longest, length);
  DecodingShape shape = decoding_shape(longest, group, seq_q);
  shape.batch = std::int64_t(lengths.size());
  shape.key_lengths = std::make_shared<const std::vector<std::int32_t>>(std::move(lengths));
  return shape;
}

/// The same problem with a cache in pages.
inline DecodingShape in_pages(DecodingShape shape, std::int64_t page_size, bool shared, std::uint64_t seed) {
  shape.block_table = std::make_shared<const BlockTable>(random_block_table(shape, page_size, shared, seed));
  return shape;
}

/// The shape in words.
inline std::string text(const DecodingShape& shape) {
  std::string words;
  for (const auto& [name, length] : DecodingAttention::describe(shape))
    words += name + " " + std::to_string(length) + " ";
  words += std::string(name_of(shape.dtype)) + (shape.fp8 ? " fp8" : "");
  if (shape.key_lengths) {
    words += " key lengths";
    for (const std::int32_t length : *shape.key_lengths) words += " " + std::to_string(length);
  }
  return words;
}

}  // namespace fa
