#include "attention/attention_forward.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "attention/fp32_errors.hpp"
#include "attention/half.hpp"
#include "attention/key_tiles.hpp"
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

TensorMap AttentionForward::random_inputs(const Shape& shape, Init init, std::uint64_t seed) {
  if (init == Init::kNormal || init == Init::kUniform) return random_tensors(inputs(shape), init, seed);
  TensorMap tensors = random_tensors(inputs(shape), Init::kNormal, seed);
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
  const std::int64_t blocks_per_head = (shape.seq_q + kQueries - 1) / kQueries;
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
  // In 16 bits, the error of standard attention on normal inputs. With u, half a unit in the last place of 1: it rounds
  // logits of up to 8 by 8 u, and P and O by u each.
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

namespace {

/// The outputs if head h of Q reads head h % kv_heads of K and V.
Reference with_heads_modulo(const AttentionShape& shape, const TensorMap& inputs) {
  AttentionShape expanded = shape;
  expanded.kv_heads = shape.heads;
  TensorMap changed = inputs;
  for (const char* name : {"k", "v"}) {
    const std::int64_t matrix = shape.seq_k * shape.cols_of(name);
    Tensor& tensor = changed.at(name);
    tensor.shape[1] = shape.heads;
    tensor.data.clear();
    for (std::int64_t head = 0; head < shape.batch * shape.heads; ++head) {
      const std::int64_t batch = head / shape.heads;
      const std::int64_t kv_head = batch * shape.kv_heads + head % shape.heads % shape.kv_heads;
      const auto begin = inputs.at(name).data.begin() + kv_head * matrix;
      tensor.data.insert(tensor.data.end(), begin, begin + matrix);
    }
  }
  return AttentionForward::reference(expanded, changed);
}

/// Matrices of `rows` rows, cut off or padded with zeros.
template <class T>
std::vector<T> with_rows(const std::vector<T>& matrices, std::int64_t rows, std::int64_t wanted,
                         std::int64_t cols) {
  std::vector<T> changed;
  for (auto matrix = matrices.begin(); matrix != matrices.end(); matrix += rows * cols) {
    changed.insert(changed.end(), matrix, matrix + std::min(rows, wanted) * cols);
    changed.resize(changed.size() + std::size_t(std::max<std::int64_t>(0, wanted - rows) * cols));
  }
  return changed;
}

/// The outputs if each query sees more keys, also a key of zeros after the last one.
Reference with_more_keys_seen(const AttentionShape& shape, const TensorMap& inputs, std::int64_t more) {
  AttentionShape larger = shape;
  larger.seq_k += more;
  TensorMap changed = inputs;
  for (const char* name : {"k", "v"}) {
    Tensor& tensor = changed.at(name);
    tensor.shape[2] = larger.seq_k;
    tensor.data = with_rows(tensor.data, shape.seq_k, larger.seq_k, shape.cols_of(name));
  }
  return AttentionForward::reference(larger, changed);
}

/// The outputs if each query sees more keys, with a causal mask, but none after the last one.
Reference with_more_keys_seen_if_any(const AttentionShape& shape, const TensorMap& inputs,
                                     std::int64_t more) {
  AttentionShape without_mask = shape;
  without_mask.causal = false;
  Reference outputs = with_more_keys_seen(shape, inputs, more);
  const Reference all = AttentionForward::reference(without_mask, inputs);
  for (const auto& [name, cols] : {std::pair{"o", shape.value_dim()}, {"lse", std::int64_t{1}}}) {
    for (std::int64_t row = 0; row < shape.batch * shape.heads * shape.seq_q; ++row) {
      if (row % shape.seq_q < shape.seq_q - more) continue;
      const auto from = all.at(name).begin() + row * cols;
      std::copy_n(from, cols, outputs.at(name).begin() + row * cols);
    }
  }
  return outputs;
}

/// The outputs if each query sees fewer keys, with a causal mask.
Reference with_fewer_keys_seen(const AttentionShape& shape, const TensorMap& inputs, std::int64_t fewer) {
  AttentionShape larger = shape;  // the last query sees all keys: let it be one that does not exist
  larger.seq_q += fewer;
  TensorMap changed = inputs;
  Tensor& q = changed.at("q");
  q.shape[2] = larger.seq_q;
  q.data = with_rows(q.data, shape.seq_q, larger.seq_q, shape.head_dim);
  Reference outputs = AttentionForward::reference(larger, changed);
  outputs.at("o") = with_rows(outputs.at("o"), larger.seq_q, shape.seq_q, shape.value_dim());
  outputs.at("lse") = with_rows(outputs.at("lse"), larger.seq_q, shape.seq_q, 1);
  return outputs;
}

/// P before its rows are divided by their sums: exp(score - maximum of its row). As in tiles of a fixed size, there are
/// queries beyond the last one, whose scores are 0, and keys beyond the last one, which are hidden.
class UnnormalizedP {
 public:
  UnnormalizedP(const AttentionShape& shape, const Tensor& q, const Tensor& k)
      : shape_(shape), scores_(logits(shape, q, k).data) {
    for (auto row = scores_.begin(); row != scores_.end(); row += shape.seq_k)
      max_.push_back(*std::max_element(row, row + shape.seq_k));
  }

  /// The maximum of a row; -inf if it sees no key.
  double max(std::int64_t head, std::int64_t query) const {
    return max_[std::size_t(head * shape_.seq_q + query)];
  }

  double at(std::int64_t head, Place place) const {
    if (place.col >= shape_.seq_k) return 0;
    if (place.row >= shape_.seq_q) return 1;
    const double most = max(head, place.row);
    const std::int64_t row = head * shape_.seq_q + place.row;
    return most == -kInf ? 0 : std::exp(scores_[std::size_t(row * shape_.seq_k + place.col)] - most);
  }

 private:
  const AttentionShape& shape_;
  std::vector<float> scores_;
  std::vector<double> max_;
};

/// Where an element of P is read that belongs in a place.
using SourceOfP = std::function<Place(Place)>;

/// The outputs if P is in disorder before each row is divided by its sum, so that an element keeps the maximum of its own
/// row.
Reference with_disordered_p(const AttentionShape& shape, const TensorMap& inputs,
                            const SourceOfP& source_of) {
  TensorMap rounded = inputs;
  for (auto& [name, tensor] : rounded) tensor.data = rounded_to(shape.dtype, tensor.data);
  const UnnormalizedP p(shape, rounded.at("q"), rounded.at("k"));
  const std::vector<float>& v = rounded.at("v").data;
  Reference outputs = AttentionForward::reference(shape, inputs);
  std::vector<double>& o = outputs.at("o");
  for (std::int64_t row = 0; row < shape.batch * shape.heads * shape.seq_q; ++row) {
    const std::int64_t head = row / shape.seq_q, query = row % shape.seq_q;
    if (p.max(head, query) == -kInf) continue;
    const auto o_row = o.begin() + row * shape.value_dim();
    std::fill_n(o_row, shape.value_dim(), 0.0);
    const double sum = std::exp(outputs.at("lse")[std::size_t(row)] - p.max(head, query));
    for (std::int64_t key = 0; key < shape.seq_k; ++key) {
      const double weight = p.at(head, source_of({query, key})) / sum;
      const auto v_row = v.begin() + (shape.kv_head(head) * shape.seq_k + key) * shape.value_dim();
      std::transform(v_row, v_row + shape.value_dim(), o_row, o_row,
                     [=](float value, double so_far) { return so_far + weight * value; });
    }
  }
  return outputs;
}

/// P in 16 x 16 tiles as operand A of mma, made of two fragments C: register i of A holds elements 2 * (i % 2) and
/// 2 * (i % 2) + 1 of the left one (i < 2) or the right one. Here, the elements are in other registers.
std::vector<std::pair<std::string, SourceOfP>> wrong_operands() {
  // Elements of both fragments, 0 to 3 left and 4 to 7 right, in the order of the registers of A.
  using Order = std::array<int, 8>;
  constexpr Order kRight = {0, 1, 2, 3, 4, 5, 6, 7};
  const auto source_of = [](const Order& order) {
    return [order](Place at) {
      const std::int64_t slot = (at.col >> 3 & 1) * 4 + (at.row >> 3 & 1) * 2 + (at.col & 1);
      const int element = order[std::size_t(slot)];
      return Place{(at.row & ~std::int64_t{8}) | (element >> 1 & 1) << 3,
                   (at.col & ~std::int64_t{9}) | (element >> 2 & 1) << 3 | (element & 1)};
    };
  };
  std::vector<std::pair<std::string, SourceOfP>> wrong;
  std::array<int, 4> registers = {0, 1, 2, 3};
  while (std::next_permutation(registers.begin(), registers.end())) {
    if (registers == std::array{0, 2, 1, 3} || registers == std::array{2, 3, 0, 1})
      continue;  // known otherwise
    Order order{};
    for (std::size_t slot = 0; slot < order.size(); ++slot)
      order[slot] = 2 * registers[slot / 2] + int(slot % 2);
    wrong.emplace_back(
        fmt::format("if operand A had the registers of P in the order {}", fmt::join(registers, ", ")),
        source_of(order));
  }
  for (std::size_t i = 0; i < 4; ++i) {
    Order order = kRight;
    std::swap(order[2 * i], order[2 * i + 1]);
    wrong.emplace_back(
        fmt::format("if register {} of P as operand A had its two elements in reverse order", i),
        source_of(order));
  }
  const std::pair<const char*, Order> others[] = {
      {"if registers 0 and 1 of P as operand A had elements 0, 2 and 1, 3 of the left fragment",
       {0, 2, 1, 3, 4, 5, 6, 7}},
      {"if registers 2 and 3 of P as operand A had elements 0, 2 and 1, 3 of the right fragment",
       {0, 1, 2, 3, 4, 6, 5, 7}},
      {"if the registers of P as operand A had elements 0, 2 and 1, 3 of both fragments",
       {0, 2, 1, 3, 4, 6, 5, 7}},
      {"if register i of P as operand A had element i of both fragments", {0, 4, 1, 5, 2, 6, 3, 7}},
      {"if registers 2 and 3 of P as operand A had the left fragment again", {0, 1, 2, 3, 0, 1, 2, 3}},
      {"if registers 0 and 1 of P as operand A had the right fragment as well", {4, 5, 6, 7, 4, 5, 6, 7}},
      {"if the registers of P as operand A had the upper rows twice", {0, 1, 0, 1, 4, 5, 4, 5}},
  };
  for (const auto& [change, order] : others) wrong.emplace_back(change, source_of(order));
  wrong.emplace_back("if step i took fragments i and i + 1 of P in place of 2 i and 2 i + 1", [](Place at) {
    const std::int64_t in_tile = at.col % 64;  // the usual key tile
    return Place{at.row, at.col - in_tile + in_tile / 16 * 8 + in_tile % 16};
  });
  return wrong;
}

}  // namespace

std::vector<OtherProblem> AttentionForward::other_problems(const Shape& shape, const TensorMap& inputs) {
  std::vector<OtherProblem> others =
      with_mistaken_inputs(inputs, [shape](const TensorMap& changed) { return reference(shape, changed); });
  const auto add = [&](const char* change, const Shape& other) {
    others.push_back({change, [&inputs, other] { return reference(other, inputs); }});
  };
  for (const Disorder& disorder : disorders()) {
    if (!disorder.mixes_rows) continue;  // P with other columns is V with other rows
    others.push_back({fmt::format("if P had {}", disorder.words), [&inputs, &disorder, shape] {
                        return with_disordered_p(shape, inputs, disorder.source);
                      }});
  }
  constexpr std::int64_t kMostProducts = 500'000;  // per problem, of which there are many
  const std::int64_t products = shape.batch * shape.heads * shape.seq_q * shape.seq_k * shape.head_dim;
  if (shape.dtype != DType::kFloat32 && products <= kMostProducts) {  // on tensor cores
    for (const auto& [change, source_of] : wrong_operands()) {
      others.push_back({change, [&inputs, shape, source = source_of] {
                          return with_disordered_p(shape, inputs, source);
                        }});
    }
  }
  others.push_back({"if every query saw one key more, and zeros for a key after the last",
                    [&inputs, shape] { return with_more_keys_seen(shape, inputs, 1); }});
  if (shape.causal) {
    Shape other = shape;
    other.causal = false;
    add("without the causal mask", other);
    const auto add_mask = [&](const char* change, std::int64_t more) {
      others.push_back({change, [&inputs, shape, more] {
                          return more > 0 ? with_more_keys_seen_if_any(shape, inputs, more)
                                          : with_fewer_keys_seen(shape, inputs, -more);
                        }});
    };
    add_mask("if every query saw one key more", 1);
    add_mask("if every query saw one key fewer", -1);
    if (shape.seq_q != shape.seq_k) add_mask("if query i saw keys 0 to i", shape.seq_q - shape.seq_k);
  }
  const double scale = shape.logit_scale();
  for (const auto& [change, factor] : {std::pair{"without the scale", 1.0},
                                       {"with the scale applied twice", scale * scale},
                                       {"with a division by the scale", 1 / scale}}) {
    Shape other = shape;
    other.scale = factor;
    add(change, other);
  }
  if (shape.kv_heads < shape.heads && shape.kv_heads > 1) {
    others.push_back({fmt::format("if head h of q read head h % {} of k and v", shape.kv_heads),
                      [&inputs, shape] { return with_heads_modulo(shape, inputs); }});
  }
  for (OtherProblem& other : with_mistaken_tiles(shape, inputs)) others.push_back(std::move(other));
  return others;
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
