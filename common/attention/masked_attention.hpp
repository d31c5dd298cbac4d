/// @file
/// The problem of chapter 11: attention under masks, with dropout and modified scores, forward or backward.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attention/attention_backward.hpp"
#include "attention/attention_forward.hpp"
#include "device/dropout.cuh"

namespace fa {

/// Which blocks of `size` queries and as many keys exist.
struct BlockPattern {
  std::int64_t heads = 1;  ///< 1: the same for all heads
  std::int64_t rows = 1, cols = 1;
  std::int64_t size = 128;           ///< 64 or 128
  std::vector<std::uint8_t> blocks;  ///< [heads, rows, cols]: 0 for a block that is hidden
};

/// Nothing if blocks may have this size, otherwise what would be valid.
std::optional<Refusal> refuse_block_size(std::int64_t size);

/// Consecutive keys.
struct KeyRange {
  std::int64_t first, end;  ///< `end` is the first one after them
  bool operator==(const KeyRange&) const = default;
};

/// An attention, and what hides its scores. A query sees a key that all masks let it see.
struct MaskedShape : AttentionShape {
  bool backward = false;  ///< the gradients are wanted, not O
  /// Query i, which stands at key i + seq_k - seq_q, sees keys less than this far away.
  std::optional<std::int64_t> window = std::nullopt;
  /// [seq_q], where seq_q = seq_k: the number of each token's document, which never decreases. A query sees
  /// the keys of its own document.
  std::shared_ptr<const std::vector<std::int32_t>> documents = nullptr;
  /// [seq_k]: the documents of the keys, if they are not those of the queries. Then seq_k may be any number.
  std::shared_ptr<const std::vector<std::int32_t>> key_documents = nullptr;
  /// [batch]: keys from that one on do not exist. The causal diagonal stays where seq_q and seq_k put it.
  std::shared_ptr<const std::vector<std::int32_t>> key_lengths = nullptr;
  std::shared_ptr<const BlockPattern> block_mask = nullptr;
  /// The probability with which an element of P is dropped, after the softmax; rounded to a multiple of 1 /
  /// 256. Those kept are divided by the probability, as rounded, of being kept.
  double dropout = 0;
  std::uint64_t dropout_seed = 0;
  /// Scores s = scale * q.k become softcap * tanh(s / softcap) (Gemma 2).
  std::optional<double> softcap = std::nullopt;
  /// Scores of head h, counted from 1, then lose 2^(-8 h / heads) times the distance of query and key (Press
  /// et al. 2022). The query stands where it does for `window`.
  bool alibi = false;
  /// [heads]: what ALiBi takes for each key of distance instead.
  std::shared_ptr<const std::vector<float>> alibi_slopes = nullptr;
  /// [heads]: the sink of each query head, one more logit in the softmax of its rows, without a value
  /// (gpt-oss). -inf is none.
  std::shared_ptr<const std::vector<float>> sinks = nullptr;
  /// If this is a part of a larger problem, as ends() makes it: that problem's number of heads per batch, and
  /// which of its heads, counted through all batches, are those of this one. Blocks, dropout, ALiBi and sinks
  /// depend on these numbers.
  std::int64_t heads_of_whole = 0;
  std::vector<std::int64_t> part_of_whole = {};

  /// Whether a query sees a key. @param head  counts through all batches
  bool sees(std::int64_t head, std::int64_t query, std::int64_t key) const;
  /// The documents of the keys. Only where queries have some.
  const std::vector<std::int32_t>& documents_of_keys() const {
    return key_documents ? *key_documents : *documents;
  }
  /// Whether ALiBi changes scores.
  bool has_alibi() const { return alibi || alibi_slopes; }
  /// The keys that a query sees of those in `of`: ranges with gaps between them.
  std::vector<KeyRange> seen_keys(std::int64_t head, std::int64_t query, KeyRange of) const;
  /// How many pairs of a query and a key that it sees there are in all heads.
  std::int64_t seen_pairs() const;
  /// Whether dropout keeps an element of P.
  bool keeps(std::int64_t head, std::int64_t query, std::int64_t key) const;
  /// A score from scale * q.k: after softcap and ALiBi.
  double score(double product, std::int64_t head, std::int64_t query, std::int64_t key) const;
  /// The least distance that the window hides. If there is none, or if it is wider than all distances, seq_q
  /// + seq_k: sums with positions fit an int.
  std::int64_t reach() const;
  /// The derivative of score() with respect to the product.
  double score_derivative(double product) const;
  /// What ALiBi takes from a score for each key of distance.
  double slope(std::int64_t head) const;
  /// The number of a head in the problem that this is a part of, counted through all batches.
  std::int64_t head_in_whole(std::int64_t head) const;
  /// The same, counted in its batch.
  std::int64_t head_of_batch(std::int64_t head) const;
  /// The sink of a head; -inf if there is none.
  double sink(std::int64_t head) const;
};

/// O and LSE, or with `backward` the gradients dQ, dK and dV.
///
/// With Z, which is 1 / (1 - dropout) for elements that are kept and 0 for the others, P =
/// softmax(score(scale * Q K^T)), O = (P o Z) V and D = rowsum(dO o O):
///
///   dV = (P o Z)^T dO    dP = (dO V^T) o Z      dS = P o (dP - D) o score'
///   dQ = scale * dS K    dK = scale * dS^T Q
///
/// With sinks, the sum of row i of head h has one more term, exp(sinks[h]), and a
/// backward pass has one more gradient, fp32 [heads]:
///
///   LSE = log(exp(sinks[h]) + sum exp(score))    dsinks[h] = -sum over batches and rows of
///                                                            exp(sinks[h] - LSE) D
///
/// Masks are inputs as well, because kernels read them: documents int32 [seq_q], key_documents int32 [seq_k],
/// key_lengths int32 [batch], block_mask uint8 [heads or 1, rows, cols], and so are alibi_slopes and sinks,
/// fp32 [heads]. A query that sees no key has O = 0, LSE = -inf (or its sink) and zero gradients; a key that
/// no query sees has zero gradients. Dropout changes neither l nor LSE. attention/problem.hpp describes the
/// members.
struct MaskedAttention {
  using Shape = MaskedShape;

  struct Args : AttentionForward::Args {
    bool backward;
    int window;                           ///< seq_q + seq_k: none
    const std::int32_t* documents;        ///< null: none
    const std::int32_t* key_documents;    ///< null: those of the queries
    const std::int32_t* key_lengths;      ///< null: none
    const std::uint8_t* block_mask;       ///< null: none
    int heads_of_blocks, size_of_blocks;  ///< 1 and 64 without blocks
    Dropout dropout;
    float softcap;  ///< infinity: none
    bool alibi;
    const float* alibi_slopes;  ///< null: those of Press et al.
    const float* sinks;         ///< null: none
  };

  static constexpr std::string_view kName = "masked_attention";

  static std::optional<Refusal> refuse(const Shape& shape);
  static std::vector<TensorSpec> inputs(const Shape& shape);
  static std::vector<TensorSpec> outputs(const Shape& shape);
  static TensorMap random_inputs(const Shape& shape, Init init, std::uint64_t seed);
  static Args bind(const Shape& shape, const std::map<std::string, void*>& buffers);
  static Reference reference(const Shape& shape, const TensorMap& inputs);
  static Excerpt<Shape> ends(const Shape& shape);
  static Tolerances tolerances(const Shape& shape);
  /// The limits on these inputs: as those of AttentionForward and AttentionBackward.
  static Tolerances tolerances(const Shape& shape, const TensorMap& inputs, const Reference& expected);
  static std::string describe_inputs(const Shape& shape, const TensorMap& inputs, const std::string& output,
                                     const std::vector<std::int64_t>& index);
  /// As for AttentionForward and AttentionBackward, for pairs of a query and a key that it sees.
  static double flops(const Shape& shape);
  static std::vector<std::pair<std::string, std::int64_t>> describe(const Shape& shape);

  /// The masks and slopes as tensors: a part of inputs().
  static TensorMap masks(const Shape& shape);
  /// 1 for elements of P that dropout keeps, 0 for the others: [batch, heads, seq_q, seq_k]. Masks do not
  /// matter.
  static HostTensor<std::uint8_t> kept(const Shape& shape);
};

}  // namespace fa
