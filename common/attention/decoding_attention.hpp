/// @file
/// The problem of chapter 14: attention of a few new queries to all keys so far, in a contiguous or a paged
/// cache.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attention/attention_forward.hpp"

namespace fa {

/// The most queries of a sequence.
constexpr std::int64_t kMostDecodingQueries = 16;

/// The most parts into which keys are split.
constexpr std::int64_t kMostSplits = 1024;

/// A cache in pages, and which of them each sequence has.
struct BlockTable {
  std::int64_t page_size = 64;  ///< keys of a page: 16, 64 or 256
  std::int64_t pages = 1;       ///< of the cache
  std::int64_t columns = 1;     ///< of the table: the most pages of a sequence
  /// [batch, columns]: the numbers of each sequence's pages, in the order of its keys. Sequences may share
  /// pages. Those after the page of the last key mean nothing. Empty if only the device has them.
  std::vector<std::int32_t> numbers = {};
};

/// Nothing if pages may have this size, otherwise what would be valid.
std::optional<Refusal> refuse_page_size(std::int64_t size);

/// An attention of which each sequence has its own number of keys. seq_k is the largest number that one may
/// have.
struct DecodingShape : AttentionShape {
  /// [batch]: the keys of each sequence, seq_k if there are none. 0 is valid: O = 0 and LSE = -inf.
  std::shared_ptr<const std::vector<std::int32_t>> key_lengths = nullptr;
  std::shared_ptr<const BlockTable> block_table = nullptr;  ///< null: the cache is contiguous
  bool fp8 = false;  ///< whether K and V are e4m3, with a scale for each of their heads
  /// Parts of the keys of each sequence; as many as the chapter's model says if it is not given.
  std::optional<std::int64_t> splits = std::nullopt;

  /// The keys of a sequence.
  std::int64_t keys_of(std::int64_t batch) const;
  /// The keys of all sequences.
  std::int64_t all_keys() const;
  /// The sequence as a problem of its own, with one batch and a causal mask. It must have keys.
  AttentionShape sequence(std::int64_t batch) const;
  /// The cache as K and V of an attention: the batch is the page, or the sequence if it is contiguous.
  AttentionShape cache() const;
  /// Where in the cache a key is: its batch there, and its number in this batch.
  std::pair<std::int64_t, std::int64_t> place_of(std::int64_t batch, std::int64_t key) const;
};

/// O and LSE of the last seq_q tokens of each sequence: query i sees the keys up to length - seq_q + i.
///
/// Inputs, in the order of the kernel's arguments: q [batch, heads, seq_q, d]; k and v, contiguous [batch,
/// kv_heads, seq_k, d] or in pages [pages, kv_heads, page_size, d]; then, if the shape has them, key_lengths
/// int32 [batch], block_table int32 [batch, columns], k_scale and v_scale fp32 [kv_heads]. A key of an fp8
/// cache is its element times the scale of its head. Keys and values that belong to no sequence hold NaN.
/// attention/problem.hpp describes the members.
struct DecodingAttention {
  using Shape = DecodingShape;

  struct Args : AttentionForward::Args {
    const std::int32_t* key_lengths;      ///< [batch]; null: every sequence has seq_k keys
    const std::int32_t* block_table;      ///< [batch, table_columns]; null: the cache is contiguous
    int page_size, pages, table_columns;  ///< 0 without pages
    bool fp8;                             ///< k and v are e4m3; dtype is that of q and o
    const float *k_scale, *v_scale;       ///< [kv_heads]; null without fp8
    int splits;                           ///< 0: the model decides
  };

  static constexpr std::string_view kName = "decoding_attention";

  static std::optional<Refusal> refuse(const Shape& shape);
  static std::vector<TensorSpec> inputs(const Shape& shape);
  static std::vector<TensorSpec> outputs(const Shape& shape) { return AttentionForward::outputs(shape); }
  /// Random Q, K and V, as those of AttentionForward: the same for any table.
  static TensorMap random_inputs(const Shape& shape, Init init, std::uint64_t seed);
  static Args bind(const Shape& shape, const std::map<std::string, void*>& buffers);
  static Reference reference(const Shape& shape, const TensorMap& inputs);
  /// The first and the last sequence, with a contiguous cache.
  static Excerpt<Shape> ends(const Shape& shape);
  static Tolerances tolerances(const Shape& shape) { return AttentionForward::tolerances(shape); }
  /// The limits on these inputs: the widest of those that AttentionForward has for a sequence.
  static Tolerances tolerances(const Shape& shape, const TensorMap& inputs, const Reference& expected);
  static std::string describe_inputs(const Shape& shape, const TensorMap& inputs, const std::string& output,
                                     const std::vector<std::int64_t>& index);
  static double flops(const Shape& shape);
  static std::vector<std::pair<std::string, std::int64_t>> describe(const Shape& shape);

  /// Makes inputs of Q, K and V, [batch, kv_heads, seq_k, d]: stores K and V in the cache, one sequence after
  /// the other, and adds the tables. The rest of the cache becomes NaN. With fp8 the keys are quantised, with
  /// a scale for each head.
  static void store(const Shape& shape, TensorMap& inputs);
};

/// A sequence as a problem of its own.
struct DecodedSequence {
  AttentionShape shape;  ///< in fp32, because `inputs` holds the numbers that the device has
  TensorMap inputs;      ///< q, k and v
};

/// @param inputs  of the whole problem; the sequence must have keys
DecodedSequence sequence_of(const DecodingShape& shape, std::int64_t number, const TensorMap& inputs);

/// A table for sequences of these lengths, whose pages are in random order, with a few pages that none has.
/// Numbers after the page of a sequence's last key are -1.
/// @param shared  whether sequences share pages: each has some of the ones before it
BlockTable random_block_table(const DecodingShape& shape, std::int64_t page_size, bool shared,
                              std::uint64_t seed);

}  // namespace fa
