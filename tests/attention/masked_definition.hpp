/// @file
/// Masked attention from its definition, for tests of the reference and of what wrong kernels compute
/// instead.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "attention/masked_attention.hpp"

namespace fa {

inline constexpr double kInf = std::numeric_limits<double>::infinity();

using Numbers = std::vector<std::int32_t>;

inline MaskedShape shape_of(const AttentionShape& sizes) {
  MaskedShape shape;
  static_cast<AttentionShape&>(shape) = sizes;
  return shape;
}

inline std::shared_ptr<const std::vector<float>> sinks(std::vector<float> values) {
  return std::make_shared<const std::vector<float>>(std::move(values));
}

inline std::shared_ptr<const Numbers> numbers(Numbers values) {
  return std::make_shared<const Numbers>(std::move(values));
}

/// O, LSE and the gradients, one score after the other.
/// @param sees  whether a query of a head of a batch sees a key
template <class Sees>
Reference by_definition(const MaskedShape& shape, const TensorMap& inputs, Sees sees) {
  const std::int64_t d = shape.head_dim, group = shape.heads / shape.kv_heads;
  const double scale = shape.scale.value_or(1 / std::sqrt(double(d)));
  const auto reader_of = [&](const char* name) {
    const float* data = inputs.contains(name) ? inputs.at(name).data.data() : nullptr;
    return [=](std::int64_t row, std::int64_t col) { return double(data[row * d + col]); };
  };
  const auto q = reader_of("q"), k = reader_of("k"), v = reader_of("v"), d_o = reader_of("do");
  const std::size_t rows = std::size_t(shape.batch * shape.heads * shape.seq_q);
  const std::size_t key_rows = std::size_t(shape.batch * shape.kv_heads * shape.seq_k);
  const std::vector<double> like_q(rows * std::size_t(d), 0.0), like_k(key_rows * std::size_t(d), 0.0);
  Reference all = {{"o", like_q},
                   {"lse", std::vector<double>(rows, -kInf)},
                   {"dq", like_q},
                   {"dk", like_k},
                   {"dv", like_k}};
  if (shape.sinks) all.emplace("dsinks", std::vector<double>(std::size_t(shape.heads), 0.0));
  std::vector<double>&o = all.at("o"), &dq = all.at("dq"), &dk = all.at("dk"), &dv = all.at("dv");
  const auto at = [&](std::vector<double>& tensor, std::int64_t row, std::int64_t col) -> double& {
    return tensor[std::size_t(row * d + col)];
  };
  for (std::int64_t batch = 0; batch < shape.batch; ++batch) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const std::int64_t number = batch * shape.heads + head;
      for (std::int64_t query = 0; query < shape.seq_q; ++query) {
        const std::int64_t row = number * shape.seq_q + query;
        struct Seen {
          std::int64_t key, row;
          double score, derivative, z, p;
        };
        std::vector<Seen> seen;
        for (std::int64_t key = 0; key < shape.seq_k; ++key) {
          if (!sees(batch, head, query, key)) continue;
          const std::int64_t key_row = (batch * shape.kv_heads + head / group) * shape.seq_k + key;
          double score = 0, derivative = 1;
          for (std::int64_t col = 0; col < d; ++col) score += scale * q(row, col) * k(key_row, col);
          if (shape.softcap) {
            const double tanh = std::tanh(score / *shape.softcap);
            score = *shape.softcap * tanh;
            derivative = 1 - tanh * tanh;
          }
          if (shape.alibi || shape.alibi_slopes) {
            const double slope = shape.alibi_slopes
                                     ? shape.alibi_slopes->at(std::size_t(head))
                                     : std::pow(2, -8.0 * double(head + 1) / double(shape.heads));
            score -= slope * std::abs(double(query + shape.seq_k - shape.seq_q - key));
          }
          const bool kept = shape.dropout == 0 || shape.keeps(number, query, key);
          const double z = kept ? 256 / std::round((1 - shape.dropout) * 256) : 0;
          seen.push_back({key, key_row, score, derivative, z, 0});
        }
        const double of_sink = shape.sinks ? std::exp(double(shape.sinks->at(std::size_t(head)))) : 0;
        if (seen.empty() && of_sink == 0) continue;
        double sum = of_sink;
        for (Seen& s : seen) sum += s.p = std::exp(s.score);
        all.at("lse")[std::size_t(row)] = std::log(sum);
        double rowsum = 0;  // of dO o O
        for (Seen& s : seen) {
          s.p /= sum;
          for (std::int64_t col = 0; col < d; ++col) at(o, row, col) += s.p * s.z * v(s.row, col);
        }
        if (!shape.backward) continue;
        for (std::int64_t col = 0; col < d; ++col) rowsum += at(o, row, col) * d_o(row, col);
        // The sink is a key whose value is 0: dP is 0, and dS is the gradient of its logit.
        if (shape.sinks) all.at("dsinks")[std::size_t(head)] += of_sink / sum * (0 - rowsum);
        for (const Seen& s : seen) {
          double dp = 0;
          for (std::int64_t col = 0; col < d; ++col) dp += d_o(row, col) * v(s.row, col);
          const double ds = s.p * (dp * s.z - rowsum) * s.derivative;
          for (std::int64_t col = 0; col < d; ++col) {
            at(dv, s.row, col) += s.p * s.z * d_o(row, col);
            at(dq, row, col) += scale * ds * k(s.row, col);
            at(dk, s.row, col) += scale * ds * q(row, col);
          }
        }
      }
    }
  }
  return all;
}

inline void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                        const std::string& name) {
  ASSERT_EQ(got.size(), expected.size()) << name;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isinf(expected[i])) {
      ASSERT_EQ(got[i], expected[i]) << name << " " << i;
    } else {
      ASSERT_NEAR(got[i], expected[i], 1e-11) << name << " " << i;
    }
  }
}

}  // namespace fa
