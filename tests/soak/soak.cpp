// Random problems for a chapter on attention, one after another: a random variant that supports the problem
// runs it, and the result is checked against float64. Outputs and workspace start as NaN. On a GPU, every
// tensor is between guards, which must not change; on the simulator, every access is checked. A variant that
// promises identical bits runs twice.
//
//   build/cuda/bin/soak_ch07_multi_stage --problems 3000 --seed 1
//
// A chapter whose kernels all need another GPU is left out, in one line.
// Exit status: 1 a problem failed, and is printed as the chapter's command line; 2 bad options; 3 no usable
// device.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ostream>
#include <random>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "attention/decoding_attention.hpp"
#include "attention/half.hpp"
#include "attention/inputs.hpp"
#include "attention/masked_attention.hpp"
#include "attention/two_way_attention.hpp"
#include "device/dropout.cuh"
#include "harness/backend.hpp"
#include "harness/files.hpp"
#include "harness/runner.hpp"

namespace {

using fa::AttentionShape;

constexpr std::size_t kGuard = 1024;  // bytes
constexpr int kMostFailures = 10;     // give up after this many
constexpr int kMostLacking = 100;     // variants that need another GPU, before any that does not

struct Random {
  std::mt19937_64 bits;

  /// 1 .. most, with equal probability.
  std::int64_t up_to(std::int64_t most) { return 1 + std::int64_t(bits() % std::uint64_t(most)); }
  bool one_in(std::int64_t n) { return up_to(n) == 1; }
  double uniform(double low, double high) { return low + (high - low) * double(bits() >> 11) * 0x1p-53; }
};

struct Problem {
  AttentionShape shape;
  fa::Layout layout;
  fa::Init init;
  std::uint64_t seed;
};

/// Half of all heads have the width of a kernel; the others have any multiple of 8 up to 256.
/// @param small  seldom a wide one
std::int64_t random_head_dim(Random& random, bool small) {
  constexpr std::int64_t kWidths[] = {32, 64, 128, 256};
  const bool narrow = small && !random.one_in(4);
  return random.one_in(2) ? kWidths[random.up_to(narrow ? 2 : 4) - 1] : 8 * random.up_to(narrow ? 8 : 32);
}

/// Half of all lengths are short, because short lengths have most of the edge cases.
std::int64_t random_length(Random& random, std::int64_t most) {
  return random.up_to(random.one_in(2) ? most : std::max<std::int64_t>(1, most / 8));
}

Problem random_problem(Random& random, std::int64_t longest) {
  const bool small = longest < 100;  // the simulator is slow: few heads, and seldom wide ones
  const std::int64_t kv_heads = random.up_to(2);
  const std::int64_t head_dim = random_head_dim(random, small);
  const fa::Init init = random.one_in(4)   ? fa::Init::kOutliers
                        : random.one_in(4) ? fa::Init::kUniform
                                           : fa::Init::kNormal;
  Problem problem{.shape = {.batch = small ? 1 + random.one_in(4) : random.up_to(2),
                            .heads = kv_heads * random.up_to(small ? 2 : 3),
                            .kv_heads = kv_heads,
                            .seq_q = random_length(random, longest),
                            .seq_k = random_length(random, longest),
                            .head_dim = head_dim,
                            .causal = random.one_in(2),
                            .dtype = fa::DType(random.up_to(3) - 1)},
                  .layout = random.one_in(2) ? fa::Layout::kBhsd : fa::Layout(random.up_to(2)),
                  .init = init,
                  .seed = random.bits() % 1'000'000};
  problem.shape.set_layout(problem.layout);
  // With the default scale, outliers give logits near +-80: beyond that, errors are those of fp32, not of
  // kernels.
  if (random.one_in(3)) {
    const double most = init == fa::Init::kOutliers ? 1 : 3;
    problem.shape.scale = random.uniform(0.01, most) * problem.shape.logit_scale();
  }
  return problem;
}

/// A width of chapter 12: half of them are as wide as one of its tiles, the others any multiple of 8.
std::int64_t random_wide_head_dim(Random& random, std::int64_t most) {
  constexpr std::int64_t kWidths[] = {64, 128, 256, 512, 576, 640, 1024};
  const std::int64_t width = kWidths[random.up_to(std::size(kWidths)) - 1];
  return random.one_in(2) ? std::min(width, most) : 8 * random.up_to(most / (random.one_in(2) ? 8 : 64));
}

/// A number of keys for a sequence of chapter 14: one in four is a multiple of all tiles, one in six is the
/// least, and one in six is 0.
std::int64_t random_keys(Random& random, const AttentionShape& shape) {
  if (random.one_in(6)) return 0;
  if (random.one_in(5)) return shape.seq_q;
  const std::int64_t keys = shape.seq_q + random.up_to(shape.seq_k - shape.seq_q + 1) - 1;
  return random.one_in(4) && keys >= 64 ? keys / 64 * 64 : keys;
}

/// The shape of chapter 14: few queries, any number of heads that share one of K, ragged lengths, pages that
/// sequences may share, an fp8 cache, a given number of splits.
fa::DecodingShape decoding_shape(Random& random, const AttentionShape& dense) {
  fa::DecodingShape shape;
  static_cast<AttentionShape&>(shape) = dense;
  const bool small = dense.seq_k < 100;
  constexpr std::int64_t kGroups[] = {1, 1, 2, 4, 5, 8, 16, 24};
  constexpr std::int64_t kWidths[] = {64, 64, 128, 256}, kPages[] = {16, 64, 256};
  shape.causal = true;
  shape.strides.clear();
  shape.batch = random.up_to(small ? 3 : 9);
  shape.heads = shape.kv_heads * kGroups[random.up_to(std::size(kGroups)) - 1];
  shape.head_dim = kWidths[random.up_to(std::size(kWidths)) - 1];
  if (shape.scale) shape.scale = *shape.scale * std::sqrt(double(dense.head_dim) / double(shape.head_dim));
  shape.seq_q = random.one_in(2) ? 1 : random.up_to(fa::kMostDecodingQueries);
  shape.seq_k = std::max(shape.seq_q, dense.seq_k);
  shape.dtype = random.one_in(2) ? fa::DType::kFloat16 : fa::DType::kBFloat16;
  shape.fp8 = random.one_in(4);
  if (random.one_in(2)) shape.splits = random.up_to(random.one_in(2) ? 4 : 20);
  if (!random.one_in(3)) {
    std::vector<std::int32_t> lengths;
    for (std::int64_t number = 0; number < shape.batch; ++number)
      lengths.push_back(std::int32_t(random_keys(random, shape)));
    shape.key_lengths = std::make_shared<const std::vector<std::int32_t>>(std::move(lengths));
  }
  if (random.one_in(3)) {
    const std::int64_t page_size = kPages[random.up_to(std::size(kPages)) - 1];
    shape.block_table = std::make_shared<const fa::BlockTable>(
        random_block_table(shape, page_size, random.one_in(2), random.bits()));
  }
  return shape;
}

/// The shape of a problem, for chapter 11 with random masks, dropout and functions of scores, in either
/// direction; for chapter 12 with two widths, in either direction; for chapter 14 with few queries.
/// @param other_widths  one in eight problems has a V of another width
template <fa::Problem P>
typename P::Shape shape_of(Random& random, const AttentionShape& dense, fa::Layout layout,
                           [[maybe_unused]] bool other_widths) {
  if constexpr (std::is_same_v<P, fa::DecodingAttention>) return decoding_shape(random, dense);
  typename P::Shape shape;
  static_cast<AttentionShape&>(shape) = dense;
  if constexpr (std::is_same_v<P, fa::MaskedAttention>) {
    const auto below = [&](std::int64_t most) { return random.up_to(most) - 1; };
    shape.backward = random.one_in(2);
    if (random.one_in(3)) shape.window = random.up_to(random.one_in(2) ? dense.seq_k : 1 + dense.seq_k / 8);
    if (random.one_in(3)) {
      shape.seq_k = shape.seq_q;
      shape.strides.clear();
      std::vector<std::int32_t> documents(std::size_t(shape.seq_q));
      for (std::size_t token = 1; token < documents.size(); ++token)
        documents[token] = documents[token - 1] + std::int32_t(random.one_in(1 + shape.seq_q / 4));
      shape.documents = std::make_shared<const std::vector<std::int32_t>>(std::move(documents));
    }
    if (random.one_in(3)) {
      std::vector<std::int32_t> lengths;
      for (std::int64_t batch = 0; batch < shape.batch; ++batch)
        lengths.push_back(std::int32_t(below(shape.seq_k + 1)));
      shape.key_lengths = std::make_shared<const std::vector<std::int32_t>>(std::move(lengths));
    }
    if (random.one_in(3)) {
      fa::BlockPattern mask{.heads = random.one_in(2) ? 1 : shape.heads, .size = random.one_in(2) ? 64 : 128};
      mask.rows = (shape.seq_q - 1) / mask.size + 1;
      mask.cols = (shape.seq_k - 1) / mask.size + 1;
      for (std::int64_t block = 0; block < mask.heads * mask.rows * mask.cols; ++block)
        mask.blocks.push_back(std::uint8_t(random.one_in(2)));
      shape.block_mask = std::make_shared<const fa::BlockPattern>(std::move(mask));
    }
    if (shape.block_mask &&
        random.one_in(3)) {  // a pattern alone, of whole blocks: block_sparse takes no other
      typename P::Shape only;
      static_cast<AttentionShape&>(only) = shape;
      only.causal = false;
      only.backward = shape.backward;
      only.block_mask = shape.block_mask;
      only.seq_q = only.block_mask->rows * only.block_mask->size;
      only.seq_k = only.block_mask->cols * only.block_mask->size;
      only.strides.clear();
      return only;
    }
    shape.dropout_seed = random.bits();
    if (random.one_in(4)) shape.dropout = random.uniform(0.01, 0.9);
    if (random.one_in(5)) shape.softcap = random.uniform(1, 50);
    shape.alibi = random.one_in(5);
    if (random.one_in(3)) {
      std::vector<float> sinks;
      for (std::int64_t head = 0; head < shape.heads; ++head) {
        sinks.push_back(random.one_in(6)   ? -std::numeric_limits<float>::infinity()
                        : random.one_in(6) ? random.one_in(2) ? 1e4f : -1e4f
                                           : float(random.uniform(-4, 8)));
      }
      shape.sinks = std::make_shared<const std::vector<float>>(std::move(sinks));
    }
  }
  if constexpr (std::is_same_v<P, fa::TwoWayAttention>) {
    shape.backward = random.one_in(3);
    const std::int64_t most = shape.backward ? 512 : 1024;
    shape.head_dim = random_wide_head_dim(random, most);
    shape.head_dim_v = random.one_in(2) ? shape.head_dim : random_wide_head_dim(random, most);
    shape.strides.clear();
    shape.set_layout(layout);
    if (shape.scale) shape.scale = *shape.scale * std::sqrt(double(dense.head_dim) / double(shape.head_dim));
  } else if (other_widths && random.one_in(8)) {
    shape.head_dim_v = 8 * random.up_to(16);
    shape.strides.clear();
    shape.set_layout(layout);
  }
  return shape;
}

/// What a shape has besides what command_line() says, in words: files are not kept.
std::string masks_of(const AttentionShape&) { return ""; }
std::string masks_of(const fa::TwoWayShape& s) { return s.backward ? " --backward" : ""; }
std::string masks_of(const fa::MaskedShape& s) {
  std::string words = s.backward ? " --backward" : "";
  if (s.window) words += fmt::format(" --window {}", *s.window);
  if (s.documents) words += fmt::format(" --documents [{}]", fmt::join(*s.documents, ","));
  if (s.key_lengths) words += fmt::format(" --key-lengths [{}]", fmt::join(*s.key_lengths, ","));
  if (s.block_mask) {
    words += fmt::format(" --block-size {} --block-mask {} x [{}]", s.block_mask->size, s.block_mask->heads,
                         fmt::join(s.block_mask->blocks, ","));
  }
  if (s.dropout > 0) words += fmt::format(" --dropout {} --dropout-seed {}", s.dropout, s.dropout_seed);
  if (s.softcap) words += fmt::format(" --softcap {}", *s.softcap);
  if (s.alibi) words += " --alibi";
  if (s.sinks) words += fmt::format(" --sinks [{}]", fmt::join(*s.sinks, ","));
  return words;
}
std::string masks_of(const fa::DecodingShape& s) {
  std::string words = s.fp8 ? " --cache fp8" : "";
  if (s.splits) words += fmt::format(" --splits {}", *s.splits);
  if (s.key_lengths) words += fmt::format(" --key-lengths [{}]", fmt::join(*s.key_lengths, ","));
  if (const fa::BlockTable* table = s.block_table.get()) {
    words += fmt::format(" --page-size {} --pages {} --block-table {} x [{}]", table->page_size, table->pages,
                         table->columns, fmt::join(table->numbers, ","));
  }
  return words;
}

std::string command_line(const std::string& chapter, const std::string& variant, const Problem& problem) {
  const AttentionShape& s = problem.shape;
  return fmt::format(
      "ch{} --variant {} --dtype {} --batch {} --heads {} --kv-heads {} --seq-q {} --seq-k {} --head-dim "
      "{}{}{}{} --layout {} "
      "--init {} --seed {}",
      chapter, variant, name_of(s.dtype), s.batch, s.heads, s.kv_heads, s.seq_q, s.seq_k, s.head_dim,
      s.value_dim() != s.head_dim ? fmt::format(" --head-dim-v {}", s.value_dim()) : "",
      s.causal ? " --causal" : "", s.scale ? fmt::format(" --scale {}", *s.scale) : "",
      fa::kLayoutNames[int(problem.layout)], fa::name_of(problem.init), problem.seed);
}

/// Counts of the kinds of problems.
struct Coverage {
  std::map<std::string, int> variants, dtypes, layouts, inits;
  std::map<std::int64_t, int> head_dims;
  std::map<std::string, int> masks;  ///< how many of the problems have each
  int causal = 0, grouped = 0, rows_without_keys = 0, own_scale = 0, repeated = 0, cancelled = 0;

  void add(const std::string& variant, const Problem& problem) {
    const AttentionShape& s = problem.shape;
    ++variants[variant];
    ++dtypes[std::string(name_of(s.dtype))];
    ++head_dims[s.head_dim];
    ++layouts[std::string(fa::kLayoutNames[s.strides.empty() ? 0 : int(problem.layout)])];
    ++inits[std::string(fa::name_of(problem.init))];
    causal += s.causal;
    grouped += s.heads != s.kv_heads;
    rows_without_keys += s.causal && s.seq_q > s.seq_k;
    own_scale += s.scale.has_value();
  }

  void add_masks(const AttentionShape&) {}
  void add_masks(const fa::TwoWayShape& s) {
    masks["backward"] += s.backward;
    masks["widths differ"] += s.value_dim() != s.head_dim;
  }
  void add_masks(const fa::MaskedShape& s) {
    const std::pair<const char*, bool> kinds[] = {{"backward", s.backward},
                                                  {"window", s.window.has_value()},
                                                  {"documents", s.documents != nullptr},
                                                  {"lengths", s.key_lengths != nullptr},
                                                  {"blocks", s.block_mask != nullptr},
                                                  {"dropout", s.dropout > 0},
                                                  {"softcap", s.softcap.has_value()},
                                                  {"alibi", s.alibi},
                                                  {"sinks", s.sinks != nullptr}};
    for (const auto& [name, has] : kinds) masks[name] += has;
  }

  void add_masks(const fa::DecodingShape& s) {
    bool one_key = false, no_keys = false, shared = false;
    for (std::int64_t number = 0; number < s.batch; ++number) {
      one_key |= s.keys_of(number) == 1;
      no_keys |= s.keys_of(number) == 0;
    }
    if (const fa::BlockTable* table = s.block_table.get()) {
      std::set<std::int32_t> seen;
      for (const std::int32_t page : table->numbers) shared |= page >= 0 && !seen.insert(page).second;
    }
    const std::pair<const char*, bool> kinds[] = {
        {"lengths", s.key_lengths != nullptr}, {"without keys", no_keys},       {"one key", one_key},
        {"pages", s.block_table != nullptr},   {"shared pages", shared},        {"fp8", s.fp8},
        {"splits", s.splits.has_value()},      {"several queries", s.seq_q > 1}};
    for (const auto& [name, has] : kinds) masks[name] += has;
  }

  void print() const {
    const auto line = [](const char* what, const auto& counts) {
      std::vector<std::string> words;
      for (const auto& [name, count] : counts) words.push_back(fmt::format("{} {}", name, count));
      fmt::print("  {:<10} {}\n", what, fmt::join(words, ", "));
    };
    line("variants", variants);
    line("types", dtypes);
    line("head_dim", head_dims);
    line("layouts", layouts);
    line("inputs", inits);
    if (!masks.empty()) line("with", masks);
    fmt::print(
        "  causal {}, grouped queries {}, rows without keys {}, scale given {}; run twice, same bits: {}\n"
        "  right except for cancellation in dP - D: {}\n",
        causal, grouped, rows_without_keys, own_scale, repeated, cancelled);
  }
};

/// The largest error as a fraction of its tolerance.
double worst_of_tolerance(const fa::Check& check) {
  double worst = 0;
  for (const auto& [name, tensor] : check.tensors) worst = std::max(worst, tensor.error() / tensor.tolerance);
  return worst;
}

bool same_bits(const fa::TensorMap& a, const fa::TensorMap& b) {
  return std::all_of(a.begin(), a.end(), [&](const auto& tensor) {
    return tensor.second.data == b.at(tensor.first).data;  // none of them holds a NaN
  });
}

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum);
}

/// What a query makes of a key, in the shapes of chapters without masks, and with them.
bool sees(const AttentionShape& s, std::int64_t, std::int64_t query, std::int64_t key) {
  return key < s.visible_keys(query);
}
bool sees(const fa::MaskedShape& s, std::int64_t head, std::int64_t query, std::int64_t key) {
  return s.sees(head, query, key);
}
double score(const AttentionShape&, double product, std::int64_t, std::int64_t, std::int64_t) {
  return product;
}
double score(const fa::MaskedShape& s, double product, std::int64_t head, std::int64_t query,
             std::int64_t key) {
  return s.score(product, head, query, key);
}
/// exp(sink - most), with a `most` that may be the sink.
double weight_of_sink(const AttentionShape&, std::int64_t, double&) { return 0; }
double weight_of_sink(const fa::MaskedShape& s, std::int64_t head, double& most) {
  most = std::max(most, s.sink(head));
  return std::exp(s.sink(head) - most);
}
/// What dropout multiplies P with.
double weight(const AttentionShape&, std::int64_t, std::int64_t, std::int64_t) { return 1; }
double weight(const fa::MaskedShape& s, std::int64_t head, std::int64_t query, std::int64_t key) {
  if (s.dropout == 0) return 1;
  return s.keeps(head, query, key) ? double(fa::Dropout::of(s.dropout, s.dropout_seed).scale) : 0;
}

/// Norms of dQ and dK without cancellation: |dP| + |D| instead of dP - D, with everything else positive too.
/// Rounding errors are a fraction of these norms, however small the gradients themselves are.
template <class Shape>
std::map<std::string, double> norms_without_cancellation(const Shape& s, const fa::TensorMap& inputs) {
  const auto rounded = [&](const char* name) { return fa::rounded_to(s.dtype, inputs.at(name).data); };
  const std::vector<float> q = rounded("q"), k = rounded("k"), v = rounded("v"), d_o = rounded("do");
  std::vector<double> dq(q.size()), dk(k.size());
  const auto d = std::size_t(s.head_dim), d_v = std::size_t(s.value_dim());
  const auto dot = [](const float* a, const float* b, std::size_t n) {
    return std::inner_product(a, a + n, b, 0.0);
  };
  for (std::int64_t row = 0; row < s.batch * s.heads * s.seq_q; ++row) {
    const std::int64_t head = row / s.seq_q, query = row % s.seq_q;
    const std::int64_t kv_head = head / s.heads * s.kv_heads + head % s.heads / (s.heads / s.kv_heads);
    const auto number = [&](std::int64_t key) { return std::size_t(kv_head * s.seq_k + key); };
    const float* q_row = &q[std::size_t(row) * d];
    const float* gradient = &d_o[std::size_t(row) * d_v];
    struct Pair {
      std::int64_t key;
      double p, dp;  ///< of dP, the absolute value
    };
    std::vector<Pair> pairs;
    double most = -std::numeric_limits<double>::infinity();
    for (std::int64_t key = 0; key < s.seq_k; ++key) {
      if (!sees(s, head, query, key)) continue;
      const double product = s.logit_scale() * dot(q_row, &k[number(key) * d], d);
      const double dp = std::abs(dot(gradient, &v[number(key) * d_v], d_v)) * weight(s, head, query, key);
      pairs.push_back({key, score(s, product, head, query, key), dp});
      most = std::max(most, pairs.back().p);
    }
    double sum = weight_of_sink(s, head, most), row_dot = 0;
    for (Pair& pair : pairs) sum += pair.p = std::exp(pair.p - most);
    for (Pair& pair : pairs) row_dot += (pair.p /= sum) * pair.dp;
    for (const Pair& pair : pairs) {
      const double ds =
          s.logit_scale() * pair.p * (pair.dp + row_dot);  // the derivative of a score is at most 1
      const std::size_t at = number(pair.key) * d;
      for (std::size_t col = 0; col < d; ++col) {
        dq[std::size_t(row) * d + col] += ds * std::abs(k[at + col]);
        dk[at + col] += ds * std::abs(q_row[col]);
      }
    }
  }
  return {{"dq", norm(dq)}, {"dk", norm(dk)}};
}

/// What is wrong with a result, or nothing. The tolerance of gradients is relative to their norms without
/// cancellation: where softmax has nearly chosen one key, dP - D is only the rounding error of two equal
/// numbers.
template <fa::Problem P>
std::string complaint_of(const fa::VariantResult& result, const typename P::Shape& shape,
                         const fa::TensorMap& inputs, const fa::Reference& reference, int& cancelled) {
  bool is_backward = std::is_same_v<P, fa::AttentionBackward>;
  if constexpr (requires { shape.backward; }) is_backward = shape.backward;
  const bool only_wrong = result.verdict() == fa::Verdict::kWrong && result.defects.empty();
  if (!only_wrong || !is_backward) return result.complaint();
  const std::map<std::string, double> norms = norms_without_cancellation(shape, inputs);
  for (const auto& [name, check] : result.check->tensors) {
    if (check.passed) continue;
    std::vector<double> difference = reference.at(name);
    const std::vector<float>& got = result.outputs.at(name).data;
    for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= double(got[i]);
    const auto of_norm = norms.find(name);
    if (of_norm == norms.end() || !(norm(difference) <= check.tolerance * of_norm->second))
      return result.complaint();
  }
  ++cancelled;
  return "";
}

/// @return  the exit status
template <fa::Problem P>
int soak(const fa::Chapter<P>& chapter, int problems, std::uint64_t seed, std::int64_t longest,
         const std::string& json_file) {
  const bool guarded = fa::backend::name() != "sim";  // on the simulator, guards would hide what it detects
  const std::size_t guard = guarded ? kGuard : 0;
  Random random{std::mt19937_64(seed)};
  Coverage coverage;
  double worst = 0;
  std::string worst_problem;
  int done = 0, failures = 0, lacking = 0;
  const bool other_widths = std::any_of(chapter.variants.begin(), chapter.variants.end(),
                                        [](const auto& variant) { return variant.takes_other_widths; });
  while (done < problems && failures < kMostFailures) {
    Problem problem = random_problem(random, longest);
    const typename P::Shape shape = shape_of<P>(random, problem.shape, problem.layout, other_widths);
    problem.shape = shape;
    if (shape.strides.empty()) problem.layout = fa::Layout::kBhsd;
    const auto& variant =
        chapter.variants[std::size_t(random.up_to(std::int64_t(chapter.variants.size())) - 1)];
    if (variant.name == "standard") continue;  // cuBLAS
    if (fa::why_unsuitable<P>(variant, shape)) continue;
    if (const auto skip = fa::what_device_lacks<P>(variant, shape)) {
      if (done > 0 || ++lacking < kMostLacking) continue;
      fmt::print("{}: left out: {}\n", chapter.name, skip->reason);
      return 0;
    }
    ++done;
    coverage.add(variant.name, problem);
    coverage.add_masks(shape);
    const fa::TensorMap inputs = P::random_inputs(shape, problem.init, problem.seed);
    const fa::Reference reference = P::reference(shape, inputs);
    const fa::VariantResult result = fa::run_variant<P>(variant, shape, inputs, &reference, guard);
    std::string complaint = complaint_of<P>(result, shape, inputs, reference, coverage.cancelled);
    if (complaint.empty() && variant.repeatable) {
      const fa::VariantResult again = fa::run_variant<P>(variant, shape, inputs, nullptr, guard);
      if (!same_bits(result.outputs, again.outputs)) complaint = "a second run gave different bits";
      ++coverage.repeated;
    }
    if (!complaint.empty()) {
      fmt::print("FAILED {}{}\n  {}\n", command_line(chapter.name, variant.name, problem), masks_of(shape),
                 complaint);
      ++failures;
      continue;
    }
    if (!result.ok()) continue;  // right except for cancellation
    if (const double near = worst_of_tolerance(*result.check); near > worst) {
      worst = near;
      worst_problem = command_line(chapter.name, variant.name, problem) + masks_of(shape);
    }
  }
  fmt::print("{}: {} problems of up to {} queries and keys, seed {}: {} failed\n", chapter.name, done,
             longest, seed, failures);
  coverage.print();
  fmt::print("  largest error: {:.2f} of its tolerance, {}\n", worst, worst_problem);
  fmt::print("  {}\n", guarded ? fmt::format("{} bytes around each tensor unchanged", kGuard)
                               : "every access checked by the simulator");
  if (!json_file.empty()) {
    const nlohmann::json data = {{"device", fa::backend::device_name()},
                                 {"chapter", chapter.name},
                                 {"seed", seed},
                                 {"longest", longest},
                                 {"problems", done},
                                 {"failed", failures},
                                 {"causal", coverage.causal},
                                 {"grouped", coverage.grouped},
                                 {"head_dims", coverage.head_dims.size()},
                                 {"strided", done - coverage.layouts["bhsd"]},
                                 {"rows_without_keys", coverage.rows_without_keys},
                                 {"masks", coverage.masks},
                                 {"same_bits", coverage.repeated},
                                 {"cancelled", coverage.cancelled},
                                 {"worst_of_tolerance", worst},
                                 {"guard_bytes", guard}};
    fa::write_file(json_file, [&](std::ostream& out) { out << data.dump(1) << '\n'; });
  }
  return failures > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Random problems for a chapter on attention, checked against float64");
  const CLI::Validator at_least_one(
      [](const std::string& text) {
        return !text.empty() && text[0] >= '1' && text[0] <= '9' ? "" : text + " must be 1 or more";
      },
      "", "");
  int problems = 1000;
  std::uint64_t seed = 1;
  std::int64_t longest = fa::backend::name() == "sim" ? 48 : 700;
  app.add_option("--problems", problems, "how many (default 1000)")->check(at_least_one);
  app.add_option("--seed", seed, "another seed, other problems (default 1)");
  app.add_option("--longest", longest, "most queries and keys")->check(at_least_one);
  std::string json_file;
  app.add_option("--json", json_file, "what was covered, as data");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "soak: {} (--help lists the options)\n", error.what());
    return 2;
  }
  try {
    if (const auto reason = fa::backend::why_unusable()) throw fa::DeviceError(*reason);
    const fa::AnyChapter chapter = fa::describe_chapter();
    if (fa::is_about<fa::MaskedAttention>(chapter))
      return soak(fa::chapter_of<fa::MaskedAttention>(chapter), problems, seed, longest, json_file);
    if (fa::is_about<fa::DecodingAttention>(chapter))
      return soak(fa::chapter_of<fa::DecodingAttention>(chapter), problems, seed, longest, json_file);
    if (fa::is_about<fa::TwoWayAttention>(chapter))
      return soak(fa::chapter_of<fa::TwoWayAttention>(chapter), problems, seed, longest, json_file);
    if (fa::is_about<fa::AttentionBackward>(chapter))
      return soak(fa::chapter_of<fa::AttentionBackward>(chapter), problems, seed, longest, json_file);
    return soak(fa::chapter_of<fa::AttentionForward>(chapter), problems, seed, longest, json_file);
  } catch (const fa::DeviceError& error) {
    fmt::print(stderr, "soak: {}\n", error.what());
    return 3;
  } catch (const std::exception& error) {
    fmt::print(stderr, "soak: {}\n", error.what());
    return 1;
  }
}
