/// @file
/// The float64 gradients of attention, and what wrong kernels compute instead.
#pragma once

#include <cstdint>

#include "attention/attention.hpp"
#include "attention/tensor.hpp"

namespace fa {

/// The formulas of the gradients, so that some of them can be wrong. The functions get P, dP and D of an
/// element.
struct GradientFormulas {
  using OfElement = double (*)(double p, double dp, double d);
  OfElement ds = [](double p, double dp, double d) { return p * (dp - d); };
  OfElement weight_of_dv = [](double p, double, double) { return p; };
  bool k_in_dp = false;                                     ///< in place of V
  bool v_in_dq = false, do_in_dk = false, q_in_dv = false;  ///< in place of K, Q and dO
  bool one_head = false;                                    ///< of those that share a head of K and V
  double scale_of_dq = 1, scale_of_dk = 1;                  ///< times the scale of the logits
  std::int64_t first_col_of_d = 0, cols_of_d = 0;           ///< in rowsum(dO * O); 0: all of them
  bool do_in_d = false;                                     ///< in place of O
  std::int64_t step_of_d = 1;                               ///< from one of these columns to the next
};

/// dQ, dK and dV: what AttentionBackward::reference() returns if the formulas are right.
Reference gradients(const AttentionShape& shape, const TensorMap& inputs,
                    const GradientFormulas& formulas = {});

}  // namespace fa
