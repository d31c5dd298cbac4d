#include "diagnosis/diagnosis.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace fa {
namespace {

using Shape = AttentionBackward::Shape;

/// The gradients of another problem, by its words.
Reference other_problem(const Shape& shape, const TensorMap& inputs, const std::string& change) {
  for (const OtherProblem& other : other_problems<AttentionBackward>(shape, inputs)) {
    if (other.change == change) return other.reference();
  }
  ADD_FAILURE() << change;
  return {};
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12) << i;
}

TEST(AttentionBackwardOthers, HaveAnotherFormulaForDs) {
  // One query and one element per row: P, dP, D, Q, K and V are numbers or vectors.
  const Shape shape{.seq_q = 1, .seq_k = 3, .head_dim = 1, .scale = 0.5};
  const TensorMap inputs = AttentionBackward::random_inputs(shape, Init::kNormal, 2);
  const double q = inputs.at("q").data[0], d_o = inputs.at("do").data[0];
  std::vector<double> k, v, p, dp;
  double sum = 0, d = 0;
  for (std::size_t key = 0; key < 3; ++key) {
    k.push_back(inputs.at("k").data[key]);
    v.push_back(inputs.at("v").data[key]);
    p.push_back(std::exp(0.5 * q * k[key]));
    dp.push_back(d_o * v[key]);
    sum += p[key];
  }
  for (std::size_t key = 0; key < 3; ++key) d += (p[key] /= sum) * dp[key];
  const auto expect_ds = [&](const std::string& change, auto ds) {
    SCOPED_TRACE(change);
    const Reference other = other_problem(shape, inputs, change);
    std::vector<double> dk, dq = {0};
    for (std::size_t key = 0; key < 3; ++key) {
      dk.push_back(0.5 * ds(key) * q);
      dq[0] += 0.5 * ds(key) * k[key];
    }
    expect_near(other.at("dk"), dk);
    expect_near(other.at("dq"), dq);
    expect_near(other.at("dv"), AttentionBackward::reference(shape, inputs).at("dv"));
  };
  const auto right = [&](std::size_t key) { return p[key] * (dp[key] - d); };
  expect_ds("without D in dS = P * (dP - D)", [&](std::size_t key) { return p[key] * dp[key]; });
  expect_ds("without P in dS = P * (dP - D)", [&](std::size_t key) { return dp[key] - d; });
  expect_ds("with P in place of dP in dS = P * (dP - D)",
            [&](std::size_t key) { return p[key] * (p[key] - d); });
  expect_ds("with k in place of v in dP = dO V^T",
            [&](std::size_t key) { return p[key] * (d_o * k[key] - d); });
  expect_ds("without the scale in dQ and dK", [&](std::size_t key) { return 2 * right(key); });
  expect_ds("with the scale applied twice to dQ and dK", [&](std::size_t key) { return 0.5 * right(key); });

  std::vector<double> dv, dk;
  double dq = 0;
  for (std::size_t key = 0; key < 3; ++key) {
    dv.push_back(right(key) * d_o);
    dk.push_back(right(key) * d_o);
    dq += 0.5 * right(key) * v[key];
  }
  expect_near(other_problem(shape, inputs, "with dS in place of P").at("dv"), dv);
  expect_near(other_problem(shape, inputs, "with do in place of scale * q in dK = scale * dS^T Q").at("dk"),
              dk);
  expect_near(other_problem(shape, inputs, "with v in place of k in dQ = scale * dS K").at("dq"), {dq});
}

TEST(AttentionBackwardOthers, LeaveOutHeadsAndExchangeOperandsOfDv) {
  const Shape shape{.heads = 2, .seq_q = 3, .seq_k = 4, .head_dim = 2};
  const TensorMap inputs = AttentionBackward::random_inputs(shape, Init::kNormal, 2);
  TensorMap changed = inputs;
  changed["do"] = inputs.at("q");
  expect_near(other_problem(shape, inputs, "with q in place of do in dV = P^T dO").at("dv"),
              AttentionBackward::reference(shape, changed).at("dv"));
  TensorMap first = inputs;
  std::fill(first["do"].data.begin() + 6, first["do"].data.end(), 0.0f);  // the second head adds nothing
  const Reference one = other_problem(
      shape, inputs, "with only the first of the heads that share a head of k and v in dK and dV");
  expect_near(one.at("dv"), AttentionBackward::reference(shape, first).at("dv"));
  expect_near(one.at("dk"), AttentionBackward::reference(shape, first).at("dk"));
}

}  // namespace
}  // namespace fa
