#include "attention/masked_attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <numeric>

#include "attention/fp32_errors.hpp"
#include "attention/masked_reference.hpp"
#include "attention/problem.hpp"

namespace fa {

static_assert(Problem<MaskedAttention>);

// --- MaskedShape

std::int64_t MaskedShape::head_in_whole(std::int64_t head) const {
  return part_of_whole.empty() ? head : part_of_whole[std::size_t(head)];
}

std::int64_t MaskedShape::head_of_batch(std::int64_t head) const {
  return part_of_whole.empty() ? head % heads : head_in_whole(head) % heads_of_whole;
}

bool MaskedShape::sees(std::int64_t head, std::int64_t query, std::int64_t key) const {
  const std::int64_t stands_at = query + seq_k - seq_q;
  if (causal && key > stands_at) return false;
  if (window && std::abs(key - stands_at) >= reach()) return false;
  if (documents && (*documents)[std::size_t(query)] != documents_of_keys()[std::size_t(key)]) return false;
  if (key_lengths && key >= (*key_lengths)[std::size_t(head / heads)]) return false;
  if (block_mask) {
    const std::int64_t of_head = block_mask->heads == 1 ? 0 : head_of_batch(head);
    const std::int64_t row = of_head * block_mask->rows + query / block_mask->size;
    if (block_mask->blocks[std::size_t(row * block_mask->cols + key / block_mask->size)] == 0) return false;
  }
  return true;
}

std::vector<KeyRange> MaskedShape::seen_keys(std::int64_t head, std::int64_t query, KeyRange of) const {
  const std::int64_t stands_at = query + seq_k - seq_q;
  std::int64_t first = std::max<std::int64_t>(of.first, 0), end = std::min(of.end, seq_k);
  if (causal) end = std::min(end, stands_at + 1);
  if (window) first = std::max(first, stands_at - reach() + 1), end = std::min(end, stands_at + reach());
  if (documents) {
    const std::vector<std::int32_t>& of_keys = documents_of_keys();
    const auto [begin_of_own, end_of_own] =
        std::equal_range(of_keys.begin(), of_keys.end(), (*documents)[std::size_t(query)]);
    first = std::max<std::int64_t>(first, begin_of_own - of_keys.begin());
    end = std::min<std::int64_t>(end, end_of_own - of_keys.begin());
  }
  if (key_lengths) end = std::min<std::int64_t>(end, (*key_lengths)[std::size_t(head / heads)]);
  if (first >= end) return {};
  if (!block_mask) return {{first, end}};
  std::vector<KeyRange> seen;
  for (std::int64_t key = first; key < end;) {
    const std::int64_t next = std::min(end, (key / block_mask->size + 1) * block_mask->size);
    if (sees(head, query, key)) {
      if (!seen.empty() && seen.back().end == key) {
        seen.back().end = next;
      } else {
        seen.push_back({key, next});
      }
    }
    key = next;
  }
  return seen;
}

std::int64_t MaskedShape::seen_pairs() const {
  std::int64_t pairs = 0;
  for (std::int64_t head = 0; head < batch * heads; ++head) {
    for (std::int64_t query = 0; query < seq_q; ++query) {
      for (const KeyRange& keys : seen_keys(head, query, {0, seq_k})) pairs += keys.end - keys.first;
    }
  }
  return pairs;
}

bool MaskedShape::keeps(std::int64_t head, std::int64_t query, std::int64_t key) const {
  return Dropout::of(dropout, dropout_seed).keeps(int(head_in_whole(head)), int(query), int(key));
}

double MaskedShape::slope(std::int64_t head) const {
  if (alibi_slopes) return (*alibi_slopes)[std::size_t(head_of_batch(head))];
  const std::int64_t of_all = part_of_whole.empty() ? heads : heads_of_whole;
  return std::exp2(-8.0 * double(head_of_batch(head) + 1) / double(of_all));
}

double MaskedShape::score(double product, std::int64_t head, std::int64_t query, std::int64_t key) const {
  const double capped = softcap ? *softcap * std::tanh(product / *softcap) : product;
  return has_alibi() ? capped - slope(head) * double(std::abs(key - (query + seq_k - seq_q))) : capped;
}

double MaskedShape::sink(std::int64_t head) const {
  return sinks ? (*sinks)[std::size_t(head_of_batch(head))] : -std::numeric_limits<double>::infinity();
}

std::int64_t MaskedShape::reach() const {
  const std::int64_t farther = seq_q + seq_k;
  return std::min(window.value_or(farther), farther);
}

double MaskedShape::score_derivative(double product) const {
  return softcap ? 1 - std::pow(std::tanh(product / *softcap), 2) : 1;
}

// --- MaskedAttention

namespace {

/// Whether there are gradients of sinks. They are sums over all batches: a part of a problem has none.
bool has_dsinks(const MaskedShape& shape) {
  return shape.backward && shape.sinks && shape.part_of_whole.empty();
}

constexpr double kLeastDropout = 0.002,
                 kMostDropout = 0.998;  // Dropout rounds to multiples of 1 / 256: drops and keeps some
constexpr double kMostSlope = 1e4;      // times a distance, finite in fp32
constexpr double kLeastSoftcap = 1e-6,
                 kMostSoftcap = 1e6;  // s / softcap and its multiples are normal in fp32

constexpr float kLargestSink = 1e30f;  // its exponent of 2 is finite in fp32

/// @param option  of the documents    @param tokens  the queries or the keys
std::optional<Refusal> refuse_numbers(const std::string& option, const std::vector<std::int32_t>& documents,
                                      std::int64_t tokens) {
  if (std::int64_t(documents.size()) != tokens)
    return Refusal::problem(fmt::format("{}: has {} tokens, must have {}", option, documents.size(), tokens));
  if (documents.front() < 0 || documents.back() > kMostExact)
    return Refusal::problem(fmt::format("{}: numbers must be from 0 to {}", option, kMostExact));
  const auto decrease = std::is_sorted_until(documents.begin(), documents.end());
  if (decrease != documents.end()) {
    return Refusal::problem(
        fmt::format("{}: token {} belongs to document {} after document {}: numbers must not decrease",
                    option, decrease - documents.begin(), *decrease, decrease[-1]));
  }
  return std::nullopt;
}

std::optional<Refusal> refuse_documents(const MaskedShape& shape) {
  if (shape.key_documents) {
    if (!shape.documents)
      return Refusal::problem(
          "--key-documents needs --documents, those of the queries: add --documents FILE");
    if (auto reason = refuse_numbers("--key-documents", *shape.key_documents, shape.seq_k)) return reason;
  } else if (shape.documents && shape.seq_q != shape.seq_k) {
    return Refusal::problem(
        fmt::format("--documents: --seq-q is {} and --seq-k is {}: must be the same, those of one sequence, "
                    "or --key-documents must be given",
                    shape.seq_q, shape.seq_k));
  }
  return shape.documents ? refuse_numbers("--documents", *shape.documents, shape.seq_q) : std::nullopt;
}

std::optional<Refusal> refuse_slopes(const MaskedShape& shape) {
  const std::vector<float>& slopes = *shape.alibi_slopes;
  if (shape.alibi) return Refusal::problem("--alibi and --alibi-slopes are given: must be one of them");
  if (std::int64_t(slopes.size()) != shape.heads)
    return Refusal::problem(
        fmt::format("--alibi-slopes: has {} numbers, must have {}", slopes.size(), shape.heads));
  for (const float slope : slopes) {
    if (!(std::abs(slope) <= kMostSlope))  // nor NaN
      return Refusal::problem(fmt::format("--alibi-slopes: {} is given, must be from -{:.0f} to {:.0f}",
                                          slope, kMostSlope, kMostSlope));
  }
  return std::nullopt;
}

std::optional<Refusal> refuse_sinks(const MaskedShape& shape) {
  const std::vector<float>& sinks = *shape.sinks;
  const std::int64_t heads = shape.part_of_whole.empty() ? shape.heads : shape.heads_of_whole;
  if (std::int64_t(sinks.size()) != heads)
    return Refusal::problem(fmt::format("--sinks: has {} numbers, must have {}", sinks.size(), heads));
  for (std::size_t head = 0; head < sinks.size(); ++head) {
    if (!(std::abs(sinks[head]) <= kLargestSink || sinks[head] == -INFINITY)) {
      return Refusal::problem(fmt::format("--sinks: number {} is {}: must be from {} to {}, or -inf for none",
                                          head, sinks[head], -kLargestSink, kLargestSink));
    }
  }
  return std::nullopt;
}

std::optional<Refusal> refuse_block_mask(const MaskedShape& shape) {
  const BlockPattern& mask = *shape.block_mask;
  if (auto reason = refuse_block_size(mask.size)) return reason;
  const std::int64_t rows = (shape.seq_q - 1) / mask.size + 1, cols = (shape.seq_k - 1) / mask.size + 1;
  if ((mask.heads != 1 && mask.heads != shape.heads) || mask.rows != rows || mask.cols != cols) {
    return Refusal::problem(fmt::format("--block-mask: has shape [{}, {}, {}]; must be [1 or {}, {}, {}]",
                                        mask.heads, mask.rows, mask.cols, shape.heads, rows, cols));
  }
  if (std::int64_t(mask.blocks.size()) != mask.heads * rows * cols)
    return Refusal::problem(fmt::format("--block-mask: has {} blocks, must have {}", mask.blocks.size(),
                                        mask.heads * rows * cols));
  return std::nullopt;
}

/// "5 to 9 and 64 to 127"
std::string in_words(const std::vector<KeyRange>& keys) {
  constexpr std::size_t kMostShown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(keys.size(), kMostShown); ++i) {
    text += i == 0 ? "" : i + 1 == keys.size() ? " and " : ", ";
    text += keys[i].end - keys[i].first == 1 ? fmt::format("{}", keys[i].first)
                                             : fmt::format("{} to {}", keys[i].first, keys[i].end - 1);
  }
  return keys.size() > kMostShown ? text + ", ..." : text;
}

std::int64_t count_of(const std::vector<KeyRange>& keys) {
  std::int64_t count = 0;
  for (const KeyRange& range : keys) count += range.end - range.first;
  return count;
}

/// For an element of dk or dv: how many queries see its key.
std::string describe_key(const MaskedShape& shape, const std::vector<std::int64_t>& index) {
  const std::int64_t key = index.at(2), group = shape.heads / shape.kv_heads;
  const std::int64_t first_head = index.at(0) * shape.heads + index.at(1) * group;
  std::int64_t queries = 0;
  for (std::int64_t head = first_head; head < first_head + group; ++head) {
    for (std::int64_t query = 0; query < shape.seq_q; ++query) queries += shape.sees(head, query, key);
  }
  const std::int64_t all = group * shape.seq_q;
  if (queries == all) return "";
  if (queries == 0) return fmt::format("no query sees key {}", key);
  return fmt::format("{} of {} queries see{} key {}", queries, all, queries == 1 ? "s" : "", key);
}

}  // namespace

std::optional<Refusal> refuse_block_size(std::int64_t size) {
  if (size == 64 || size == 128) return std::nullopt;
  return Refusal::problem(fmt::format("--block-size is {}: must be 64 or 128", size));
}

std::optional<Refusal> MaskedAttention::refuse(const Shape& shape) {
  if (auto reason = fa::refuse(shape)) return reason;
  if (shape.window && *shape.window < 1)
    return Refusal::problem(
        fmt::format("--window is {}: must be at least 1, which leaves each query one key", *shape.window));
  if (!(shape.dropout == 0 ||
        (shape.dropout >= kLeastDropout && shape.dropout <= kMostDropout)))  // NaN is neither
    return Refusal::problem(fmt::format("--dropout is {}: must be 0, or from {} to {}", shape.dropout,
                                        kLeastDropout, kMostDropout));
  if (shape.softcap && !(*shape.softcap >= kLeastSoftcap && *shape.softcap <= kMostSoftcap)) {
    return Refusal::problem(fmt::format("--softcap is {}: must be from {} to {:.0f}", *shape.softcap,
                                        kLeastSoftcap, kMostSoftcap));
  }
  if (auto reason = refuse_documents(shape)) return reason;
  if (shape.alibi_slopes) {
    if (auto reason = refuse_slopes(shape)) return reason;
  }
  if (shape.key_lengths) {
    if (auto reason = refuse_key_lengths(shape, *shape.key_lengths)) return reason;
  }
  if (shape.sinks) {
    if (auto reason = refuse_sinks(shape)) return reason;
  }
  return shape.block_mask ? refuse_block_mask(shape) : std::nullopt;
}

std::vector<TensorSpec> MaskedAttention::inputs(const Shape& shape) {
  std::vector<TensorSpec> specs =
      shape.backward ? AttentionBackward::inputs(shape) : AttentionForward::inputs(shape);
  if (shape.documents) specs.push_back({.name = "documents", .shape = {shape.seq_q}, .dtype = DType::kInt32});
  if (shape.key_documents)
    specs.push_back({.name = "key_documents", .shape = {shape.seq_k}, .dtype = DType::kInt32});
  if (shape.alibi_slopes) specs.push_back({.name = "alibi_slopes", .shape = {shape.heads}});
  if (shape.key_lengths)
    specs.push_back({.name = "key_lengths", .shape = {shape.batch}, .dtype = DType::kInt32});
  if (const BlockPattern* mask = shape.block_mask.get()) {
    specs.push_back(
        {.name = "block_mask", .shape = {mask->heads, mask->rows, mask->cols}, .dtype = DType::kUint8});
  }
  if (shape.sinks) specs.push_back({.name = "sinks", .shape = {std::int64_t(shape.sinks->size())}});
  return specs;
}

std::vector<TensorSpec> MaskedAttention::outputs(const Shape& shape) {
  if (!shape.backward) return AttentionForward::outputs(shape);
  std::vector<TensorSpec> specs = AttentionBackward::outputs(shape);
  if (has_dsinks(shape)) specs.push_back({.name = "dsinks", .shape = {shape.heads}});
  return specs;
}

TensorMap MaskedAttention::masks(const Shape& shape) {
  TensorMap tensors;
  const auto add = [&](const char* name, const std::vector<std::int64_t>& lengths, const auto& values) {
    tensors.emplace(name, Tensor{lengths, {values.begin(), values.end()}});
  };
  if (shape.documents) add("documents", {shape.seq_q}, *shape.documents);
  if (shape.key_documents) add("key_documents", {shape.seq_k}, *shape.key_documents);
  if (shape.alibi_slopes) add("alibi_slopes", {shape.heads}, *shape.alibi_slopes);
  if (shape.key_lengths) add("key_lengths", {shape.batch}, *shape.key_lengths);
  if (const BlockPattern* mask = shape.block_mask.get())
    add("block_mask", {mask->heads, mask->rows, mask->cols}, mask->blocks);
  if (shape.sinks) add("sinks", {std::int64_t(shape.sinks->size())}, *shape.sinks);
  return tensors;
}

TensorMap MaskedAttention::random_inputs(const Shape& shape, Init init, std::uint64_t seed) {
  TensorMap tensors = shape.backward ? AttentionBackward::random_inputs(shape, init, seed)
                                     : AttentionForward::random_inputs(shape, init, seed);
  tensors.merge(masks(shape));
  return tensors;
}

MaskedAttention::Args MaskedAttention::bind(const Shape& shape, const std::map<std::string, void*>& buffers) {
  const AttentionForward::Args dense = AttentionForward::bind(shape, buffers);
  const BlockPattern* mask = shape.block_mask.get();
  return {dense,
          shape.backward,
          int(shape.reach()),
          dense.buffer_or_null<const std::int32_t>("documents"),
          dense.buffer_or_null<const std::int32_t>("key_documents"),
          dense.buffer_or_null<const std::int32_t>("key_lengths"),
          dense.buffer_or_null<const std::uint8_t>("block_mask"),
          mask ? int(mask->heads) : 1,
          mask ? int(mask->size) : 64,
          Dropout::of(shape.dropout, shape.dropout_seed),
          float(shape.softcap.value_or(std::numeric_limits<double>::infinity())),
          shape.has_alibi(),
          dense.buffer_or_null<const float>("alibi_slopes"),
          dense.buffer_or_null<const float>("sinks")};
}

Reference MaskedAttention::reference(const Shape& shape, const TensorMap& inputs) {
  return masked_reference(shape, inputs);
}

Excerpt<MaskedShape> MaskedAttention::ends(const Shape& shape) {
  const Excerpt<AttentionShape> dense = fa::ends(shape);
  Shape part = shape;
  static_cast<AttentionShape&>(part) = dense.shape;
  const std::int64_t batches[] = {0, shape.batch - 1};
  const std::int64_t heads = shape.batch * shape.heads;
  part.heads_of_whole = shape.heads;
  for (std::int64_t head = 0; head < part.batch * part.heads; ++head) {
    const bool is_first = head < part.heads;
    part.part_of_whole.push_back(is_first ? head : heads - part.batch * part.heads + head);
  }
  if (shape.key_lengths) {
    std::vector<std::int32_t> lengths;
    for (std::int64_t batch = 0; batch < part.batch; ++batch)
      lengths.push_back((*shape.key_lengths)[std::size_t(batches[batch])]);
    part.key_lengths = std::make_shared<const std::vector<std::int32_t>>(std::move(lengths));
  }
  const auto cut = [cut_dense = dense.cut, part](const TensorMap& tensors) {
    TensorMap of_attention = tensors;
    for (const char* mask :
         {"documents", "key_documents", "key_lengths", "block_mask", "alibi_slopes", "sinks", "dsinks"})
      of_attention.erase(mask);
    TensorMap parts = cut_dense(of_attention);
    if (tensors.contains("q")) parts.merge(masks(part));
    return parts;
  };
  return {.shape = part, .cut = cut};
}

namespace {

/// Whether a row has several terms: keys, or one and a sink. If not, P is 1 whatever Q and K are: dQ and dK
/// are 0.
bool has_softmax(const MaskedShape& shape) {
  const std::int64_t most_without = shape.sinks ? 0 : 1;
  for (std::int64_t head = 0; head < shape.batch * shape.heads; ++head) {
    for (std::int64_t query = 0; query < shape.seq_q; ++query) {
      if (count_of(shape.seen_keys(head, query, {0, shape.seq_k})) > most_without) return true;
    }
  }
  return false;
}

}  // namespace

Tolerances MaskedAttention::tolerances(const Shape& shape) {
  if (!shape.backward) return AttentionForward::tolerances(shape);
  if (has_softmax(shape)) {
    AttentionShape several = shape;  // terms of the softmax, if not keys
    several.seq_k = std::max<std::int64_t>(shape.seq_k, 2);
    Tolerances limits = AttentionBackward::tolerances(several);
    if (has_dsinks(shape)) limits.emplace("dsinks", limits.at("dv"));
    return limits;
  }
  AttentionShape one_key = shape;
  one_key.seq_k = 1;
  Tolerances limits = AttentionBackward::tolerances(one_key);
  for (const char* name : {"dq", "dk"}) limits.at(name).limit *= 1 / (1 - shape.dropout);  // as dP and D
  if (has_dsinks(shape)) limits.emplace("dsinks", Tolerance{Measure::kMaxAbs, 0});  // no row has a value
  return limits;
}

namespace {

/// Raises the limits of dQ and dK by what rounding O to 16 bits costs.
void widen_for_rounded_o(const MaskedShape& shape, const TensorMap& inputs, const Reference& expected,
                         Tolerances& limits) {
  const ErrorsOfGradients errors = errors_from_rounding_o(shape, inputs);
  for (const auto& [name, error] :
       {std::pair{"dq", errors.dq}, {"dk", errors.dk}, {"dsinks", errors.dsinks}}) {
    if (!expected.contains(name)) continue;
    const std::vector<double>& gradient = expected.at(name);
    const double norm =
        std::sqrt(std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0));
    if (limits.at(name).measure == Measure::kRelL2 && norm > 0) limits.at(name).limit += error / norm;
  }
  if (Tolerance& of_zeros = limits.at("dq"); of_zeros.measure == Measure::kMaxAbs)
    of_zeros.limit = std::max(of_zeros.limit, errors.row_of_dq);
}

/// Accepts NaN in the gradients of sinks whose heads may have NaN in another gradient.
void accept_nan_of_sinks(const MaskedShape& shape, Tolerances& limits) {
  if (!limits.contains("dsinks")) return;
  std::vector<bool>& accepted = limits.at("dsinks").nan_in_part;
  accepted.assign(std::size_t(shape.kv_heads), false);
  const std::vector<bool>& of_dq = limits.at("dq").nan_in_part;  // by batch and head
  for (std::size_t head = 0; head < of_dq.size(); ++head) {
    if (of_dq[head]) accepted[head % accepted.size()] = true;
  }
}

Scores scores_of(const MaskedShape& shape) {
  const Dropout dropout = Dropout::of(shape.dropout, shape.dropout_seed);
  return {
      .sees = [shape](auto head, auto query, auto key) { return shape.sees(head, query, key); },
      .score = [shape](double product, auto head, auto query,
                       auto key) { return shape.score(product, head, query, key); },
      .derivative = [shape](double product) { return shape.score_derivative(product); },
      .kept = [shape, dropout](auto head, auto query, auto key) -> double {
        if (dropout.kept == Dropout::kOf) return 1;
        return shape.keeps(head, query, key) ? double(Dropout::kOf) / dropout.kept : 0;
      },
      .sink = [shape](auto head) { return shape.sink(head); },
  };
}

}  // namespace

Tolerances MaskedAttention::tolerances(const Shape& shape, const TensorMap& inputs,
                                       const Reference& expected) {
  Tolerances limits = tolerances(shape);
  if (shape.backward && shape.dtype != DType::kFloat32) widen_for_rounded_o(shape, inputs, expected, limits);
  Shape forward = shape;
  forward.backward = false;
  widen_for_fp32(shape, scores_of(shape), inputs, shape.backward ? reference(forward, inputs) : expected,
                 expected, limits);
  accept_nan_of_hidden_keys(shape, inputs, limits);
  accept_nan_of_sinks(shape, limits);
  return limits;
}

std::string MaskedAttention::describe_inputs(const Shape& shape, const TensorMap& inputs,
                                             const std::string& output,
                                             const std::vector<std::int64_t>& index) {
  if (output == "dk" || output == "dv") return describe_key(shape, index);
  if (output == "dsinks") return fmt::format("the sink is {:.4g}", shape.sink(index.at(0)));
  constexpr std::int64_t kMostShown = 4;
  const std::int64_t head = index.at(0) * shape.heads + index.at(1), query = index.at(2), d = shape.head_dim;
  const std::vector<KeyRange> keys = shape.seen_keys(head, query, {0, shape.seq_k});
  const std::int64_t seen = count_of(keys);
  if (seen == 0) return fmt::format("query {} sees no key", query);
  std::string text = fmt::format("query {} sees {} of {} keys: {}", query, seen, shape.seq_k, in_words(keys));
  if (seen > kMostShown) return seen < shape.seq_k ? text : "";
  const float* q = inputs.at("q").data.data() + (head * shape.seq_q + query) * d;
  const float* k = inputs.at("k").data.data() + shape.kv_head(head) * shape.seq_k * d;
  text += seen == 1 ? "; its score is" : "; their scores are";
  const char* separator = " ";
  for (const KeyRange& range : keys) {
    for (std::int64_t key = range.first; key < range.end; ++key) {
      const double product = shape.logit_scale() * std::inner_product(q, q + d, k + key * d, 0.0);
      text += fmt::format("{}{:.4g}", separator, shape.score(product, head, query, key));
      if (shape.dropout > 0 && !shape.keeps(head, query, key)) text += " (dropped)";
      separator = ", ";
    }
  }
  return text;
}

HostTensor<std::uint8_t> MaskedAttention::kept(const Shape& shape) {
  HostTensor<std::uint8_t> kept = {.shape = {shape.batch, shape.heads, shape.seq_q, shape.seq_k}, .data = {}};
  kept.data.reserve(std::size_t(shape.batch * shape.heads * shape.seq_q * shape.seq_k));
  for (std::int64_t head = 0; head < shape.batch * shape.heads; ++head) {
    for (std::int64_t query = 0; query < shape.seq_q; ++query) {
      for (std::int64_t key = 0; key < shape.seq_k; ++key) kept.data.push_back(shape.keeps(head, query, key));
    }
  }
  return kept;
}

double MaskedAttention::flops(const Shape& shape) {
  return (shape.backward ? 10.0 : 4.0) * double(shape.seen_pairs()) * double(shape.head_dim);
}

std::vector<std::pair<std::string, std::int64_t>> MaskedAttention::describe(const Shape& shape) {
  auto sizes = AttentionForward::describe(shape);
  sizes.emplace_back("seen_pairs", shape.seen_pairs());
  return sizes;
}

}  // namespace fa
