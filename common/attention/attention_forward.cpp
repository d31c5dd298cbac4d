#include "attention/attention_forward.hpp"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "attention/fp32_errors.hpp"
#include "attention/half.hpp"
#include "attention/parallel.hpp"
#include "attention/problem.hpp"

namespace fa {

static_assert(Problem<AttentionForward>);

namespace {

template <class T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Turns the logits of a row into probabilities.
/// @return  the log of the sum of their exponentials: -inf for an empty row, NaN if a logit is NaN or +inf
template <class Row>
double softmax_in_place(Row x) {
  double max = -kInf;
  for (const double logit : x) {
    if (std::isnan(logit) || logit == kInf) {
      x.setConstant(kNaN);
      return kNaN;
    }
    max = std::max(max, logit);
  }
  if (max == -kInf) {
    x.setZero();
    return -kInf;
  }
  double sum = 0;
  for (double& value : x) sum += value = std::exp(value - max);
  x /= sum;
  return max + std::log(sum);
}

}  // namespace

std::vector<TensorSpec> AttentionForward::inputs(const Shape& shape) {
  return {shape.tensor("q"), shape.tensor("k"), shape.tensor("v")};
}

std::vector<TensorSpec> AttentionForward::outputs(const Shape& shape) {
  return {shape.tensor("o"), {.name = "lse", .shape = {shape.batch, shape.heads, shape.seq_q}}};
}

TensorMap AttentionForward::random_inputs(const std::vector<TensorSpec>& qkv, Init init, std::uint64_t seed) {
  if (init == Init::kNormal || init == Init::kUniform) return random_tensors(qkv, init, seed);
  TensorMap tensors = random_tensors(qkv, Init::kNormal, seed);
  Tensor &k = tensors.at("k"), &v = tensors.at("v");
  if (init == Init::kOffset) {
    k = random_tensor({.name = "k", .shape = k.shape}, init, seed);
    v = random_tensor({.name = "v", .shape = v.shape}, init, seed);
    return tensors;
  }
  k = random_tensor({.name = "k", .shape = k.shape}, Init::kOutliers, seed);
  for (float& x : k.data) x *= 0.75f;
  return tensors;
}

AttentionForward::Args AttentionForward::bind(const Shape& shape,
                                              const std::map<std::string, void*>& buffers) {
  std::map<std::string, Strides> strides;
  for (const char* name : kStridedTensors) {
    if (buffers.contains(name)) strides.emplace(name, shape.strides_of(name));
  }
  return {.batch = int(shape.batch),
          .heads = int(shape.heads),
          .kv_heads = int(shape.kv_heads),
          .seq_q = int(shape.seq_q),
          .seq_k = int(shape.seq_k),
          .head_dim = int(shape.head_dim),
          .head_dim_v = int(shape.value_dim()),
          .scale = float(shape.logit_scale()),
          .causal = shape.causal,
          .dtype = shape.dtype,
          .buffers = buffers,
          .strides = std::move(strides)};
}

Reference AttentionForward::reference(const Shape& shape, const TensorMap& inputs) {
  const std::vector<float> q = rounded_to(shape.dtype, inputs.at("q").data);
  const std::vector<float> k = rounded_to(shape.dtype, inputs.at("k").data);
  const std::vector<float> v = rounded_to(shape.dtype, inputs.at("v").data);
  const std::int64_t d = shape.head_dim, d_v = shape.value_dim();
  std::vector<double> o(std::size_t(shape.batch * shape.heads * shape.seq_q * d_v));
  std::vector<double> lse(std::size_t(shape.batch * shape.heads * shape.seq_q));

  // A block of queries of one head and the keys that the last of them sees, which sees the most. Nothing is
  // larger than kQueries * seq_k elements.
  constexpr std::int64_t kQueries = 64;
  const std::int64_t blocks_per_head = tiles(shape.seq_q, kQueries);
  const auto attend = [&](std::int64_t block) {
    const std::int64_t head = block / blocks_per_head;  // counts through all batches
    const std::int64_t first_query = block % blocks_per_head * kQueries;
    const std::int64_t queries = std::min(kQueries, shape.seq_q - first_query);
    const std::int64_t keys = shape.visible_keys(first_query + queries - 1);
    const std::int64_t first_row = head * shape.seq_q + first_query;
    const std::int64_t first_key = shape.kv_head(head) * shape.seq_k;

    using Map = Eigen::Map<const RowMajor<float>>;
    const RowMajor<double> q_block = Map(q.data() + first_row * d, queries, d).cast<double>();
    const RowMajor<double> k_head = Map(k.data() + first_key * d, keys, d).cast<double>();
    const RowMajor<double> v_head = Map(v.data() + first_key * d_v, keys, d_v).cast<double>();
    Eigen::Map<RowMajor<double>> o_block(o.data() + first_row * d_v, queries, d_v);

    RowMajor<double> p = shape.logit_scale() * (q_block * k_head.transpose());
    for (std::int64_t query = 0; query < queries; ++query) {
      const std::int64_t visible = shape.visible_keys(first_query + query);
      lse[std::size_t(first_row + query)] = softmax_in_place(p.row(query).head(visible));
      o_block.row(query).noalias() = p.row(query).head(visible) * v_head.topRows(visible);
    }
  };
  parallel_for(shape.batch * shape.heads * blocks_per_head, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) attend(block);
  });
  return {{"o", std::move(o)}, {"lse", std::move(lse)}};
}

Tolerances AttentionForward::tolerances(const Shape& shape) {
  const auto limits = [](double o, double lse) {
    return Tolerances{{"o", {Measure::kRelL2, o}}, {"lse", {Measure::kMaxAbs, lse}}};
  };
  // In 16 bits, the error of standard attention on normal inputs. With u, half a unit in the last place of 1:
  // it rounds logits of up to 8 by 8 u, and P and O by u each.
  constexpr double kFloat16 = 0x1p-11, kBFloat16 = 0x1p-8;
  switch (shape.dtype) {
    case DType::kFloat16: return limits(2 * kFloat16, 8 * kFloat16);
    case DType::kBFloat16: return limits(2 * kBFloat16, 8 * kBFloat16);
    default: return limits(1e-5, 1e-4);
  }
}

Tolerances AttentionForward::tolerances(const Shape& shape, const TensorMap& inputs,
                                        const Reference& expected) {
  Tolerances limits = tolerances(shape);
  widen_for_fp32(shape, Scores::of(shape), inputs, expected, expected, limits);
  accept_nan_of_hidden_keys(shape, inputs, limits);
  return limits;
}

std::string AttentionForward::describe_inputs(const Shape& shape, const TensorMap& inputs, const std::string&,
                                              const std::vector<std::int64_t>& index) {
  constexpr std::int64_t kMostShown = 4;
  const std::int64_t query = index.at(2), seen = shape.visible_keys(query);
  if (seen == 0) return fmt::format("query {} sees no key", query);
  std::string text = fmt::format("query {} sees {}", query, seen);
  if (seen < shape.seq_k) text += fmt::format(" of {}", shape.seq_k);
  text += shape.seq_k == 1 ? " key" : " keys";
  if (seen > kMostShown) return seen < shape.seq_k ? text : "";
  const std::int64_t head = index.at(0) * shape.heads + index.at(1), d = shape.head_dim;
  const float* q = inputs.at("q").data.data() + (head * shape.seq_q + query) * d;
  const float* k = inputs.at("k").data.data() + shape.kv_head(head) * shape.seq_k * d;
  text += seen == 1 ? "; its scaled logit is" : "; their scaled logits are";
  for (std::int64_t key = 0; key < seen; ++key) {
    const double logit = shape.logit_scale() * std::inner_product(q, q + d, k + key * d, 0.0);
    text += fmt::format("{} {:.4g}", key == 0 ? "" : ",", logit);
  }
  return text;
}

double AttentionForward::flops(const Shape& shape) {
  return 2.0 * double(shape.batch) * double(shape.heads) * double(shape.visible_pairs()) *
         double(shape.head_dim + shape.value_dim());
}

std::vector<std::pair<std::string, std::int64_t>> AttentionForward::describe(const Shape& shape) {
  std::vector<std::pair<std::string, std::int64_t>> sizes = {
      {"batch", shape.batch}, {"heads", shape.heads}, {"kv_heads", shape.kv_heads},
      {"seq_q", shape.seq_q}, {"seq_k", shape.seq_k}, {"head_dim", shape.head_dim}};
  if (shape.head_dim_v) sizes.emplace_back("head_dim_v", *shape.head_dim_v);
  return sizes;
}

}  // namespace fa
