#include "attention/decoding_attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <random>

#include "attention/fp32_errors.hpp"
#include "attention/half.hpp"
#include "attention/problem.hpp"

namespace fa {

static_assert(Problem<DecodingAttention>);

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr double kLargestOfFloat8 = 448;

}  // namespace

// --- DecodingShape

std::int64_t DecodingShape::keys_of(std::int64_t number) const {
  return key_lengths ? (*key_lengths)[std::size_t(number)] : seq_k;
}

std::int64_t DecodingShape::all_keys() const {
  return key_lengths ? std::accumulate(key_lengths->begin(), key_lengths->end(), std::int64_t{0})
                     : batch * seq_k;
}

AttentionShape DecodingShape::sequence(std::int64_t number) const {
  AttentionShape alone = *this;
  alone.batch = 1;
  alone.seq_k = keys_of(number);
  alone.causal = true;
  alone.scale = logit_scale();
  alone.strides.clear();
  return alone;
}

AttentionShape DecodingShape::cache() const {
  AttentionShape cache = *this;
  if (!block_table) return cache;
  cache.batch = block_table->pages;
  cache.seq_k = block_table->page_size;
  return cache;
}

std::pair<std::int64_t, std::int64_t> DecodingShape::place_of(std::int64_t number, std::int64_t key) const {
  if (!block_table) return {number, key};
  const std::int64_t entry = number * block_table->columns + key / block_table->page_size;
  return {block_table->numbers[std::size_t(entry)], key % block_table->page_size};
}

// --- what is refused

std::optional<Refusal> refuse_page_size(std::int64_t size) {
  if (size == 16 || size == 64 || size == 256) return std::nullopt;
  return Refusal::problem(fmt::format("--page-size is {}: must be 16, 64 or 256", size));
}

namespace {

std::optional<Refusal> refuse_fewer_keys_than_queries(const DecodingShape& shape) {
  for (std::int64_t number = 0; number < shape.batch; ++number) {
    const std::int64_t keys = shape.keys_of(number);
    if (keys == 0 || keys >= shape.seq_q) continue;
    const std::string what = shape.key_lengths
                                 ? fmt::format("--key-lengths: length {} is {}: must be 0 or", number, keys)
                                 : fmt::format("--seq-k is {}: must be", keys);
    return Refusal::problem(fmt::format(
        "{} at least --seq-q, {}: queries are the last tokens of their sequence", what, shape.seq_q));
  }
  return std::nullopt;
}

std::optional<Refusal> refuse_block_table(const DecodingShape& shape) {
  const BlockTable& table = *shape.block_table;
  if (auto reason = refuse_page_size(table.page_size)) return reason;
  if (table.pages < 1 || table.pages > kMostExact)
    return Refusal::problem(fmt::format("--pages is {}: must be from 1 to {}", table.pages, kMostExact));
  if (table.pages > INT_MAX / (shape.kv_heads * table.page_size))
    return Refusal::problem(
        fmt::format("--pages {} times --page-size {} times --kv-heads {}: must be at most {}", table.pages,
                    table.page_size, shape.kv_heads, INT_MAX));
  if (table.numbers.empty()) return std::nullopt;
  if (std::int64_t(table.numbers.size()) != shape.batch * table.columns)
    return Refusal::problem(fmt::format("--block-table: has {} numbers, must have {}", table.numbers.size(),
                                        shape.batch * table.columns));
  for (std::int64_t number = 0; number < shape.batch; ++number) {
    const std::int64_t used = tiles(shape.keys_of(number), table.page_size);
    if (used > table.columns)
      return Refusal::problem(
          fmt::format("--block-table: has {} columns, for {} keys each: must have {} for the {} keys of "
                      "sequence {}",
                      table.columns, table.page_size, used, shape.keys_of(number), number));
    for (std::int64_t column = 0; column < used; ++column) {
      const std::int64_t page = table.numbers[std::size_t(number * table.columns + column)];
      if (page < 0 || page >= table.pages)
        return Refusal::problem(
            fmt::format("--block-table: column {} of sequence {} has page {}: must be from 0 to {}", column,
                        number, page, table.pages - 1));
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> DecodingAttention::refuse(const Shape& shape) {
  if (auto reason = fa::refuse(shape)) return reason;
  if (shape.seq_q > kMostDecodingQueries)
    return Refusal::problem(
        fmt::format("--seq-q is {}: must be at most {}", shape.seq_q, kMostDecodingQueries));
  if (shape.splits && (*shape.splits < 1 || *shape.splits > kMostSplits))
    return Refusal::problem(fmt::format("--splits is {}: must be from 1 to {}", *shape.splits, kMostSplits));
  if (shape.key_lengths) {
    if (auto reason = refuse_key_lengths(shape, *shape.key_lengths)) return reason;
  }
  if (auto reason = refuse_fewer_keys_than_queries(shape)) return reason;
  return shape.block_table ? refuse_block_table(shape) : std::nullopt;
}

// --- inputs

std::vector<TensorSpec> DecodingAttention::inputs(const Shape& shape) {
  const AttentionShape cache = shape.cache();
  std::vector<TensorSpec> specs = {shape.tensor("q"), cache.tensor("k"), cache.tensor("v")};
  if (shape.fp8) specs[1].dtype = specs[2].dtype = DType::kFloat8;
  if (shape.key_lengths)
    specs.push_back({.name = "key_lengths", .shape = {shape.batch}, .dtype = DType::kInt32});
  if (shape.block_table)
    specs.push_back(
        {.name = "block_table", .shape = {shape.batch, shape.block_table->columns}, .dtype = DType::kInt32});
  if (shape.fp8) {
    for (const char* name : {"k_scale", "v_scale"})
      specs.push_back({.name = name, .shape = {shape.kv_heads}});
  }
  return specs;
}

namespace {

/// Quantises a cache of K or V: divides each head by a scale that takes its largest number to the largest of
/// e4m3. Returns the scales.
Tensor quantise(const DecodingShape& shape, Tensor& cache) {
  Tensor scales = {.shape = {shape.kv_heads}, .data = std::vector<float>(std::size_t(shape.kv_heads))};
  const std::int64_t of_head = cache.shape[2] * cache.shape[3];
  const auto scale_of = [&](std::size_t i) -> float& {
    return scales.data[i / std::size_t(of_head) % scales.data.size()];
  };
  for (std::size_t i = 0; i < cache.data.size(); ++i) {
    if (std::isfinite(cache.data[i])) scale_of(i) = std::max(scale_of(i), std::abs(cache.data[i]));
  }
  for (float& scale : scales.data) scale = scale > 0 ? float(scale / kLargestOfFloat8) : 1.0f;
  for (std::size_t i = 0; i < cache.data.size(); ++i) cache.data[i] /= scale_of(i);
  cache.data = rounded_to(DType::kFloat8, cache.data);
  return scales;
}

}  // namespace

void DecodingAttention::store(const Shape& shape, TensorMap& inputs) {
  const std::int64_t d = shape.head_dim;
  for (const char* name : {"k", "v"}) {
    const TensorSpec spec = shape.cache().tensor(name);
    Tensor cache = {.shape = spec.shape, .data = std::vector<float>(std::size_t(spec.elements()), kNaN)};
    Tensor& given = inputs.at(name);
    for (std::int64_t number = 0; number < shape.batch; ++number) {
      for (std::int64_t key = 0; key < shape.keys_of(number); ++key) {
        const auto [batch, row] = shape.place_of(number, key);
        for (std::int64_t head = 0; head < shape.kv_heads; ++head) {
          const auto from = given.data.begin() + ((number * shape.kv_heads + head) * shape.seq_k + key) * d;
          std::copy_n(from, d,
                      cache.data.begin() + ((batch * shape.kv_heads + head) * spec.shape[2] + row) * d);
        }
      }
    }
    if (shape.fp8) inputs[std::string(name) + "_scale"] = quantise(shape, cache);
    given = std::move(cache);
  }
  const auto add = [&](const char* name, const std::vector<std::int64_t>& lengths, const auto& values) {
    inputs.emplace(name, Tensor{lengths, {values.begin(), values.end()}});
  };
  if (shape.key_lengths) add("key_lengths", {shape.batch}, *shape.key_lengths);
  if (const BlockTable* table = shape.block_table.get())
    add("block_table", {shape.batch, table->columns}, table->numbers);
}

TensorMap DecodingAttention::random_inputs(const Shape& shape, Init init, std::uint64_t seed) {
  TensorMap tensors =
      AttentionForward::random_inputs({shape.tensor("q"), shape.tensor("k"), shape.tensor("v")}, init, seed);
  store(shape, tensors);
  return tensors;
}

BlockTable random_block_table(const DecodingShape& shape, std::int64_t page_size, bool shared,
                              std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t end) { return std::int64_t(random() % std::uint64_t(end)); };
  BlockTable table = {.page_size = page_size, .pages = 0, .columns = tiles(shape.seq_k, page_size)};
  std::vector<std::int64_t> first_of(std::size_t(shape.batch));
  for (std::int64_t number = 0; number < shape.batch; ++number) {
    const std::int64_t needed = tiles(shape.keys_of(number), page_size);
    const std::int64_t other = number > 0 ? below(number) : 0;
    const std::int64_t common =
        shared && number > 0 ? below(std::min(needed, tiles(shape.keys_of(other), page_size)) + 1) : 0;
    for (std::int64_t column = 0; column < table.columns; ++column) {
      table.numbers.push_back(column >= needed ? -1
                              : column >= common
                                  ? std::int32_t(table.pages++)
                                  : table.numbers[std::size_t(other * table.columns + column)]);
    }
  }
  table.pages += 1 + table.pages / 8;  // some belong to no sequence
  std::vector<std::int32_t> order(std::size_t(table.pages));
  std::iota(order.begin(), order.end(), 0);
  for (std::int64_t left = table.pages; left > 1; --left)
    std::swap(order[std::size_t(left - 1)], order[std::size_t(below(left))]);
  for (std::int32_t& page : table.numbers) page = page < 0 ? page : order[std::size_t(page)];
  return table;
}

DecodingAttention::Args DecodingAttention::bind(const Shape& shape,
                                                const std::map<std::string, void*>& buffers) {
  const AttentionForward::Args dense = AttentionForward::bind(shape, buffers);
  const BlockTable* table = shape.block_table.get();
  Args args = {dense,
               dense.buffer_or_null<const std::int32_t>("key_lengths"),
               dense.buffer_or_null<const std::int32_t>("block_table"),
               table ? int(table->page_size) : 0,
               table ? int(table->pages) : 0,
               table ? int(table->columns) : 0,
               shape.fp8,
               dense.buffer_or_null<const float>("k_scale"),
               dense.buffer_or_null<const float>("v_scale"),
               int(shape.splits.value_or(0))};
  args.causal = true;
  for (const char* name : {"k", "v"}) args.strides[name] = shape.cache().strides_of(name);
  return args;
}

// --- the reference

namespace {

/// The rows of one sequence's keys in K or V, [1, kv_heads, keys, d], as they are stored.
std::vector<float> rows_of(const DecodingShape& shape, std::int64_t number, const Tensor& tensor) {
  const AttentionShape cache = shape.cache();
  const std::int64_t d = shape.head_dim;
  std::vector<float> rows;
  rows.reserve(std::size_t(shape.kv_heads * shape.keys_of(number) * d));
  for (std::int64_t head = 0; head < shape.kv_heads; ++head) {
    for (std::int64_t key = 0; key < shape.keys_of(number); ++key) {
      const auto [batch, row] = shape.place_of(number, key);
      const auto begin = tensor.data.begin() + ((batch * shape.kv_heads + head) * cache.seq_k + row) * d;
      rows.insert(rows.end(), begin, begin + d);
    }
  }
  return rows;
}

/// A sequence's part of an output: each has as many elements.
std::vector<double> part_of(const std::vector<double>& whole, std::int64_t number, std::int64_t count) {
  const std::size_t length = whole.size() / std::size_t(count);
  const auto begin = whole.begin() + std::ptrdiff_t(std::size_t(number) * length);
  return {begin, begin + std::ptrdiff_t(length)};
}

}  // namespace

DecodedSequence sequence_of(const DecodingShape& shape, std::int64_t number, const TensorMap& inputs) {
  DecodedSequence of = {.shape = shape.sequence(number), .inputs = {}};
  const auto add = [&](const char* name, std::vector<float> data) {
    of.inputs.emplace(name, Tensor{of.shape.tensor(name).shape, std::move(data)});
  };
  const std::int64_t elements = shape.heads * shape.seq_q * shape.head_dim;
  const auto first = inputs.at("q").data.begin() + number * elements;
  add("q", rounded_to(shape.dtype, {first, first + elements}));
  for (const char* name : {"k", "v"}) {
    std::vector<float> rows = rows_of(shape, number, inputs.at(name));
    if (shape.fp8) {
      const std::vector<float>& scales = inputs.at(std::string(name) + "_scale").data;
      const std::size_t of_head = rows.size() / scales.size();
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i] *= scales[i / of_head];
    }
    add(name, shape.fp8 ? std::move(rows) : rounded_to(shape.dtype, rows));
  }
  of.shape.dtype = DType::kFloat32;
  return of;
}

Reference DecodingAttention::reference(const Shape& shape, const TensorMap& inputs) {
  Reference outputs;
  const std::int64_t rows = shape.heads * shape.seq_q;
  for (std::int64_t number = 0; number < shape.batch; ++number) {
    Reference of_sequence = {
        {"o", std::vector<double>(std::size_t(rows * shape.head_dim))},
        {"lse", std::vector<double>(std::size_t(rows), -std::numeric_limits<double>::infinity())}};
    if (shape.keys_of(number) > 0) {
      const DecodedSequence sequence = sequence_of(shape, number, inputs);
      of_sequence = AttentionForward::reference(sequence.shape, sequence.inputs);
    }
    for (const auto& [name, values] : of_sequence)
      outputs[name].insert(outputs[name].end(), values.begin(), values.end());
  }
  return outputs;
}

Excerpt<DecodingShape> DecodingAttention::ends(const Shape& shape) {
  Shape part = shape;
  part.batch = std::min<std::int64_t>(shape.batch, 2);
  part.block_table = nullptr;
  if (shape.key_lengths) {
    const std::vector<std::int32_t> both = {shape.key_lengths->front(), shape.key_lengths->back()};
    part.key_lengths =
        std::make_shared<const std::vector<std::int32_t>>(both.begin(), both.begin() + part.batch);
  }
  const auto cut = [=](const TensorMap& tensors) {
    TensorMap parts;
    for (const auto& [name, whole] : tensors) {
      if (name == "block_table") continue;
      Tensor& tensor = parts[name];
      tensor.shape = whole.shape;
      if (name == "k_scale" || name == "v_scale") {
        tensor.data = whole.data;
        continue;
      }
      tensor.shape[0] = part.batch;
      if (name != "k" && name != "v") {
        const std::size_t of_sequence = whole.data.size() / std::size_t(shape.batch);
        tensor.data = shape.batch > 2 ? both_ends(whole.data, of_sequence) : whole.data;
        continue;
      }
      tensor.shape[2] = part.seq_k;
      tensor.data.assign(std::size_t(part.tensor(name).elements()), kNaN);
      for (std::int64_t batch = 0; batch < part.batch; ++batch) {
        const std::vector<float> rows = rows_of(shape, batch == 0 ? 0 : shape.batch - 1, whole);
        const std::int64_t of_head = std::int64_t(rows.size()) / shape.kv_heads;
        for (std::int64_t head = 0; head < shape.kv_heads; ++head) {
          std::copy_n(rows.begin() + head * of_head, of_head,
                      tensor.data.begin() + (batch * shape.kv_heads + head) * part.seq_k * shape.head_dim);
        }
      }
    }
    return parts;
  };
  return {.shape = part, .cut = cut};
}

Tolerances DecodingAttention::tolerances(const Shape& shape, const TensorMap& inputs,
                                         const Reference& expected) {
  Tolerances limits = tolerances(shape);
  for (std::int64_t number = 0; number < shape.batch; ++number) {
    Tolerances of_sequence = tolerances(shape);
    if (shape.keys_of(number) > 0) {
      const DecodedSequence sequence = sequence_of(shape, number, inputs);
      Reference own;
      for (const auto& [name, values] : expected) own.emplace(name, part_of(values, number, shape.batch));
      widen_for_fp32(sequence.shape, Scores::of(sequence.shape), sequence.inputs, own, own, of_sequence);
      accept_nan_of_hidden_keys(sequence.shape, sequence.inputs, of_sequence);
    }
    for (auto& [name, limit] : limits) {
      Tolerance& own = of_sequence.at(name);
      if (own.measure == limit.measure) limit.limit = std::max(limit.limit, own.limit);
      own.nan_in_part.resize(std::size_t(shape.kv_heads));
      limit.nan_in_part.insert(limit.nan_in_part.end(), own.nan_in_part.begin(), own.nan_in_part.end());
    }
  }
  return limits;
}

std::string DecodingAttention::describe_inputs(const Shape& shape, const TensorMap& inputs,
                                               const std::string& output,
                                               const std::vector<std::int64_t>& index) {
  const std::int64_t number = index.at(0);
  if (shape.keys_of(number) == 0) return fmt::format("sequence {} has no keys", number);
  std::vector<std::int64_t> own = index;
  own[0] = 0;
  const DecodedSequence sequence = sequence_of(shape, number, inputs);
  const std::string text = AttentionForward::describe_inputs(sequence.shape, sequence.inputs, output, own);
  return text.empty() || shape.batch == 1 ? text : fmt::format("in sequence {}, {}", number, text);
}

double DecodingAttention::flops(const Shape& shape) {
  double sum = 0;
  for (std::int64_t number = 0; number < shape.batch; ++number) {
    if (shape.keys_of(number) > 0) sum += AttentionForward::flops(shape.sequence(number));
  }
  return sum;
}

std::vector<std::pair<std::string, std::int64_t>> DecodingAttention::describe(const Shape& shape) {
  auto sizes = AttentionForward::describe(shape);
  sizes.emplace_back("all_keys", shape.all_keys());
  if (const BlockTable* table = shape.block_table.get()) {
    sizes.emplace_back("page_size", table->page_size);
    sizes.emplace_back("pages", table->pages);
  }
  if (shape.splits) sizes.emplace_back("splits", *shape.splits);
  return sizes;
}

}  // namespace fa
