/// @file
/// Attention: the sizes of the problem, and the logits on which the softmax chapters run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "attention/tensor.hpp"

namespace fa {

/// The sizes of one attention. Q is [batch, heads, seq_q, head_dim]; K and V are
/// [batch, kv_heads, seq_k, head_dim], and heads / kv_heads query heads share one of K and V.
struct AttentionShape {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t seq_q = 1;
  std::int64_t seq_k = 1;
  std::int64_t head_dim = 1;
  bool causal = false;                         ///< query i sees key j only when j <= i + seq_k - seq_q
  std::optional<double> scale = std::nullopt;  ///< 1/sqrt(head_dim) where none is given

  /// The factor of Q K^T.
  double logit_scale() const;
};

/// Nothing if the shape can be computed, else what is wrong, naming the option and what would be right.
std::optional<std::string> refuse(const AttentionShape& shape);

/// scale * Q K^T, summed in float64 on all cores; -inf where the mask hides a key.
///
/// @param q  [batch, heads, seq_q, head_dim]
/// @param k  [batch, kv_heads, seq_k, head_dim]
/// @return   [batch * heads * seq_q, seq_k], one row per query: the x of the softmax chapters
/// @throws std::invalid_argument  if a tensor does not have the shape said above
Tensor logits(const AttentionShape& shape, const Tensor& q, const Tensor& k);

}  // namespace fa
