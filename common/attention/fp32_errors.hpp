/// @file
/// What the roundings of fp32 may change where logits, or sums of products, are large. docs/pages/numerics.md
/// derives it.
#pragma once

#include <cstdint>
#include <functional>

#include "attention/attention.hpp"
#include "attention/tensor.hpp"
#include "attention/tolerance.hpp"

namespace fa {

/// What lies between the products scale * q.k and P, for each query and key. Heads count through all batches.
struct Scores {
  std::function<bool(std::int64_t head, std::int64_t query, std::int64_t key)> sees;
  std::function<double(double product, std::int64_t head, std::int64_t query, std::int64_t key)> score;
  std::function<double(double product)> derivative;  ///< of the score
  std::function<double(std::int64_t head, std::int64_t query, std::int64_t key)>
      kept;                                       ///< what dropout multiplies an element of P by
  std::function<double(std::int64_t head)> sink;  ///< one more logit of each row; -inf: none

  /// Those of a dense problem: the score is the product, and nothing is dropped.
  static Scores of(const AttentionShape& shape);
};

/// Raises limits to what fp32 arithmetic needs on these inputs, if that is more: kernels sum products q.k in
/// fp32, round exponents, and store LSE.
///
/// @param inputs    with "do", limits are those of gradients
/// @param forward   O and LSE in float64
/// @param expected  the outputs in float64
void widen_for_fp32(const AttentionShape& shape, const Scores& scores, const TensorMap& inputs,
                    const Reference& forward, const Reference& expected, Tolerances& limits);

/// Accepts NaN where it may spread to: from a key of K or V that a mask hides, to all queries that read the
/// same head of K and V; in a backward pass, from any input to all gradients of that head and its queries.
void accept_nan_of_hidden_keys(const AttentionShape& shape, const TensorMap& inputs, Tolerances& limits);

}  // namespace fa
