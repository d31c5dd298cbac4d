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

namespace fa {

/// Which blocks of `size` queries and as many keys exist.
struct BlockMask {
  std::int64_t heads = 1;  ///< 1: the same for all heads
  std::int64_t rows = 1, cols = 1;
  std::int64_t size = 128;          ///< 64 or 128
  std::vector<std::uint8_t> blocks;  ///< [heads, rows, cols]: 0 for a block that is hidden
};

/// An attention, and what hides its scores. A query sees a key that all masks let it see.
struct MaskedShape : AttentionShape {
  bool backward = false;  ///< the gradients are wanted, not O
  /// Query i, which stands at key i + seq_k - seq_q, sees keys less than this far away.
  std::optional<std::int64_t> window = std::nullopt;
  /// [seq_q], where seq_q = seq_k: the number of each token's document, which never decreases. A query sees the keys of its
  /// own document.
  std::shared_ptr<const std::vector<std::int32_t>> documents = nullptr;
  /// [batch]: keys from that one on do not exist. The causal diagonal stays where seq_q and seq_k put it.
  std::shared_ptr<const std::vector<std::int32_t>> key_lengths = nullptr;
  std::shared_ptr<const BlockMask> block_mask = nullptr;
  /// The probability with which an element of P is dropped, after the softmax. Those kept are divided by 1 - dropout.
  double dropout = 0;
  std::uint64_t dropout_seed = 0;
  /// Scores s = scale * q.k become softcap * tanh(s / softcap) (Gemma 2).
  std::optional<double> softcap = std::nullopt;
  /// Scores of head h, counted from 1, then lose 2^(-8 h / heads) for each key between query and key (Press et al. 2022): nearest
  /// key first, where the query stands as for `window`.
  bool alibi = false;

  /// Whether a query sees a key. @param head  counts through all batches
  bool sees(std::int64_t head, std::int64_t query, std::int64_t key) const;
  /// How many pairs of a query and a key that it sees there are in all heads.
  std::int64_t seen_pairs() const;
  /// Whether dropout keeps an element of P.
  bool keeps(std::int64_t head, std::int64_t query, std::int64_t key) const;
};

/// O and LSE, or with `backward` the gradients dQ, dK and dV.
///
/// Masks are inputs as well, because kernels read them: documents int32 [seq_q], key_lengths int32 [batch], block_mask uint8
/// [heads or 1, rows, cols].
struct MaskedAttention {
  using Shape = MaskedShape;

  struct Args : AttentionForward::Args {
    bool backward;
    int window;                          ///< seq_q + seq_k: none
    const std::int32_t* documents;       ///< null: none
    const std::int32_t* key_lengths;     ///< null: none
    const std::uint8_t* block_mask;      ///< null: none
    int heads_of_blocks, size_of_blocks;  ///< 1 and 64 without blocks
    float dropout;
    std::uint64_t dropout_seed;
    float softcap;  ///< infinity: none
    bool alibi;
  };

  static constexpr std::string_view kName = "masked_attention";

  static std::optional<std::string> refuse(const Shape& shape);
  static std::vector<TensorSpec> inputs(const Shape& shape);
  static std::vector<TensorSpec> outputs(const Shape& shape);
  static TensorMap random_inputs(const Shape& shape, Init init, std::uint64_t seed);
  static Args bind(const Shape& shape, const std::map<std::string, void*>& buffers);
  static Reference reference(const Shape& shape, const TensorMap& inputs);
  static Excerpt<Shape> ends(const Shape& shape);
  static Tolerances tolerances(const Shape& shape);
  static Tolerances tolerances(const Shape& shape, const TensorMap& inputs, const Reference& expected);
  static std::string describe_inputs(const Shape& shape, const TensorMap& inputs, const std::string& output,
                                     const std::vector<std::int64_t>& index);
  static std::vector<OtherProblem> other_problems(const Shape& shape, const TensorMap& inputs);
  static double flops(const Shape& shape);
  static std::vector<std::pair<std::string, std::int64_t>> describe(const Shape& shape);
};

}  // namespace fa
