/// @file
/// Inputs whose scores are as large as wanted, for tests of chapters.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "attention/attention.hpp"
#include "attention/inputs.hpp"

namespace fa {

/// Magnitudes of logits. Scores of large_scores() differ by 1/128 of it or more.
inline const std::vector<double>& score_magnitudes() {
  static const std::vector<double> magnitudes = {1, 1e3, 3e5, 1e8, 1e9, 3e9, 1.4e11, 1e15, 1e22, 1e30};
  return magnitudes;
}

/// Sets Q and K so that key j has the score sign * magnitude * (1 - (37 j mod 64) / 128) with every query,
/// and returns the scale. All numbers are exact in every type, and the products have no rounding error.
///
/// @param in_q  the magnitude is in Q and K, where fp16 does not hold it; otherwise it is in the scale
inline double large_scores(const AttentionShape& shape, TensorMap& inputs, double magnitude, double sign,
                           bool in_q) {
  const double power = in_q ? std::exp2(std::round(std::log2(magnitude) / 2)) : 1.0;
  const auto d = std::size_t(shape.head_dim), keys = std::size_t(shape.seq_k);
  Tensor &q = inputs.at("q"), &k = inputs.at("k");
  for (std::size_t i = 0; i < q.data.size(); ++i) q.data[i] = i % d == 0 ? float(sign * power) : 0.0f;
  for (std::size_t i = 0; i < k.data.size(); ++i) {
    const double of_key = 1 - double(i / d % keys * 37 % 64) / 128;
    k.data[i] = i % d == 0 ? float(power * of_key) : 0.0f;
  }
  return magnitude / (power * power);
}

/// O and LSE of one query, in float64.
struct ExpectedRow {
  std::vector<double> o;
  double lse = 0;
};
/// @param keys  the first ones, which the query sees     @param v  [seq_k, head_dim]
inline ExpectedRow row_of_large_scores(std::int64_t keys, std::size_t d, const float* v, double magnitude,
                                       double sign) {
  std::vector<double> s;
  for (std::int64_t key = 0; key < keys; ++key)
    s.push_back(sign * magnitude * (1 - double(key * 37 % 64) / 128));
  const double m = *std::max_element(s.begin(), s.end());
  ExpectedRow row{.o = std::vector<double>(d)};
  double l = 0;
  for (std::size_t key = 0; key < s.size(); ++key) {
    const double p = std::exp(s[key] - m);
    l += p;
    for (std::size_t col = 0; col < d; ++col) row.o[col] += p * v[key * d + col];
  }
  for (double& o : row.o) o /= l;
  row.lse = m + std::log(l);
  return row;
}

/// What is wrong with O and LSE for these scores of one head; "" if nothing is. NaN is always wrong.
inline std::string complaint_on_large_scores(const AttentionShape& shape, const TensorMap& inputs,
                                             const TensorMap& outputs, double magnitude, double sign) {
  const double u = shape.dtype == DType::kFloat32 ? 5e-6 : shape.dtype == DType::kFloat16 ? 0x1p-11 : 0x1p-8;
  const auto d = std::size_t(shape.head_dim);
  const auto said = [&](const char* name, std::int64_t query, double got, double expected) {
    return std::string(name) + " of query " + std::to_string(query) + " is " + std::to_string(got) +
           ", should be " + std::to_string(expected) + " with scores near " +
           std::to_string(sign * magnitude);
  };
  for (std::int64_t query = 0; query < shape.seq_q; ++query) {
    const ExpectedRow row =
        row_of_large_scores(shape.visible_keys(query), d, inputs.at("v").data.data(), magnitude, sign);
    const float lse = outputs.at("lse").data[std::size_t(query)];
    if (!(std::abs(lse - row.lse) <= 1e-4 + 0x1p-21 * std::abs(row.lse)))
      return said("LSE", query, lse, row.lse);
    for (std::size_t col = 0; col < d; ++col) {
      const float o = outputs.at("o").data[std::size_t(query) * d + col];
      if (!(std::abs(o - row.o[col]) <= 8 * u + 0x1p-20 * std::min(magnitude, 1e4)))
        return said("O", query, o, row.o[col]);
    }
  }
  return "";
}

}  // namespace fa
