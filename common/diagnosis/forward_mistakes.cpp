#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "attention/attention_forward.hpp"
#include "attention/half.hpp"
#include "diagnosis/diagnosis.hpp"
#include "diagnosis/key_tiles.hpp"

namespace fa {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

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

/// P before its rows are divided by their sums: exp(score - maximum of its row). As in tiles of a fixed size,
/// there are queries beyond the last one, whose scores are 0, and keys beyond the last one, which are hidden.
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

/// The outputs if P is in disorder before each row is divided by its sum, so that an element keeps the
/// maximum of its own row.
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

/// P in 16 x 16 tiles as operand A of mma, made of two fragments C: register i of A holds elements 2 * (i %
/// 2) and 2 * (i % 2) + 1 of the left one (i < 2) or the right one. Here, the elements are in other
/// registers.
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

template <>
std::vector<OtherProblem> other_problems<AttentionForward>(const AttentionShape& shape,
                                                           const TensorMap& inputs) {
  std::vector<OtherProblem> others = with_mistaken_inputs(
      inputs, [shape](const TensorMap& changed) { return AttentionForward::reference(shape, changed); });
  const auto add = [&](const char* change, const AttentionShape& other) {
    others.push_back({change, [&inputs, other] { return AttentionForward::reference(other, inputs); }});
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
    AttentionShape other = shape;
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
    AttentionShape other = shape;
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

}  // namespace fa
