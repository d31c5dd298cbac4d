/// @file
/// The float64 reference of masked attention, and what wrong kernels compute instead.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "attention/masked_attention.hpp"

namespace fa {

/// The formulas of masked attention, so that some of them can be wrong. Empty functions: as the shape says.
struct MaskedFormulas {
  using OfPair = std::function<bool(std::int64_t head, std::int64_t query, std::int64_t key)>;
  /// Also asked about keys after the last one, up to a multiple of 128. Their rows of K and V are zeros, as
  /// are those of keys that key_lengths hides.
  OfPair sees = {};
  OfPair keeps = {};
  double scale_of_kept = 1;  ///< times 1 / (1 - dropout), of the elements that dropout keeps
  bool sums_kept = false;    ///< l is a sum over the elements that are kept, times their factor
  bool drops_in_d = true;    ///< D = rowsum(dO o O) is of O with dropout
  using OfScore =
      std::function<double(double product, std::int64_t head, std::int64_t query, std::int64_t key)>;
  OfScore score = {};
  using OfProduct = std::function<double(double product)>;
  OfProduct score_derivative = {};
  using OfElement = double (*)(double p, double dp, double d, double z);
  OfElement ds = [](double p, double dp, double d, double z) { return p * (dp * z - d); };
  OfElement weight_of_dv = [](double p, double, double, double z) { return p * z; };
  double scale_of_dq = 1, scale_of_dk = 1;  ///< times the scale of the logits
  using OfSink = std::function<double(double sink, std::int64_t head)>;
  OfSink sink = {};                                ///< the logit that takes part instead of this one
  bool sink_divides_o = true, sink_in_lse = true;  ///< whether it is in the sum for O, and in that for LSE
  using OfRow = double (*)(double p, double d);
  OfRow dsink = [](double p, double d) { return -p * d; };  ///< p is that of the sink
};

/// What MaskedAttention::reference() returns if the formulas are right.
Reference masked_reference(const MaskedShape& shape, const TensorMap& inputs,
                           const MaskedFormulas& formulas = {});

/// By how much rounding errors of O in the shape's dtype change dQ and dK if they are independent: Euclidean
/// norms.
struct ErrorsOfGradients {
  double dq = 0, dk = 0;
  double row_of_dq = 0;  ///< of the row where it is largest
  double dsinks = 0;     ///< four times the norm: it may be a single number
};
ErrorsOfGradients errors_from_rounding_o(const MaskedShape& shape, const TensorMap& inputs);

}  // namespace fa
