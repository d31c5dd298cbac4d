#include "attention/attention.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <Eigen/Core>
#include <algorithm>
#include <climits>
#include <cmath>
#include <iterator>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <utility>

#include "attention/parallel.hpp"
#include "device/attention.cuh"

namespace fa {
namespace {

template <class T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Kernels use the scale in fp32, alone or times log2 e. Both must be normal numbers.
constexpr double kLeastScale = 1.2e-38, kMostScale = 2.3e38;
static_assert(kLeastScale >= std::numeric_limits<float>::min());
static_assert(kMostScale * std::numbers::log2e <= std::numeric_limits<float>::max());

constexpr int kLargestTile = 256;  ///< rows of a tile, or of a pair of tiles

/// Whether a tensor has the heads and the rows of K.
bool is_of_keys(const std::string& name) { return name.ends_with('k') || name.ends_with('v'); }

/// Whether a tensor has the columns of V.
bool is_of_values(const std::string& name) { return name.ends_with('v') || name.ends_with('o'); }

/// The strides of a tensor that is dense.
Strides dense_strides(const AttentionShape& shape, const std::string& name) {
  const std::int64_t row = shape.cols_of(name), head = (is_of_keys(name) ? shape.seq_k : shape.seq_q) * row;
  return {.batch = (is_of_keys(name) ? shape.kv_heads : shape.heads) * head, .head = head, .row = row};
}

/// Whether rows of a tensor may have elements in common: whether a stride is smaller than what the dimensions
/// with smaller strides span.
bool overlaps(const AttentionShape& shape, const std::string& name) {
  const Strides strides = shape.strides_of(name);
  std::pair<std::int64_t, std::int64_t> dimensions[] = {
      {strides.batch, shape.batch},
      {strides.head, is_of_keys(name) ? shape.kv_heads : shape.heads},
      {strides.row, is_of_keys(name) ? shape.seq_k : shape.seq_q}};
  std::sort(std::begin(dimensions), std::end(dimensions));
  std::int64_t span = shape.cols_of(name);
  for (const auto& [stride, length] : dimensions) {
    if (length == 1) continue;
    if (stride < span) return true;
    std::int64_t to_last = 0;
    if (__builtin_mul_overflow(stride, length - 1, &to_last) || __builtin_add_overflow(span, to_last, &span))
      return true;
  }
  return false;
}

std::string in_words(const Strides& strides) {
  return fmt::format("({}, {}, {}, 1)", strides.batch, strides.head, strides.row);
}

void require_shape(const char* name, const Tensor& tensor, const std::vector<std::int64_t>& shape) {
  if (tensor.shape != shape) {
    throw std::invalid_argument(fmt::format("{} has shape {}, should have {}", name, tensor.shape, shape));
  }
}

std::optional<Refusal> refuse_other_types(const AttentionShape& shape, const std::vector<DType>& dtypes) {
  if (std::find(dtypes.begin(), dtypes.end(), shape.dtype) != dtypes.end()) return std::nullopt;
  std::vector<std::string_view> names;
  for (const DType dtype : dtypes) names.push_back(name_of(dtype));
  return Refusal::variant(
      fmt::format("--dtype is {}: this variant takes {}", name_of(shape.dtype), fmt::join(names, ", ")));
}

}  // namespace

double AttentionShape::logit_scale() const { return scale.value_or(1.0 / std::sqrt(double(head_dim))); }

std::int64_t AttentionShape::cols_of(const std::string& name) const {
  return is_of_values(name) ? value_dim() : head_dim;
}

TensorSpec AttentionShape::tensor(const std::string& name) const {
  const bool of_keys = is_of_keys(name);
  TensorSpec spec = {.name = name,
                     .shape = {batch, of_keys ? kv_heads : heads, of_keys ? seq_k : seq_q, cols_of(name)},
                     .dtype = dtype};
  if (const auto found = strides.find(name); found != strides.end())
    spec.strides = {found->second.batch, found->second.head, found->second.row, 1};
  return spec;
}

Strides AttentionShape::strides_of(const std::string& name) const {
  const auto found = strides.find(name);
  return found != strides.end() ? found->second : dense_strides(*this, name);
}

void AttentionShape::set_strides(const std::string& name, Strides given) {
  const Strides dense = dense_strides(*this, name);
  if (batch == 1) given.batch = dense.batch;
  if ((is_of_keys(name) ? kv_heads : heads) == 1) given.head = dense.head;
  if ((is_of_keys(name) ? seq_k : seq_q) == 1) given.row = dense.row;
  strides.erase(name);
  if (given != dense) strides.emplace(name, given);
}

void AttentionShape::set_layout(Layout layout) {
  strides.clear();
  if (layout == Layout::kBhsd) return;
  std::int64_t number = 0;
  for (const char* name : kStridedTensors) {
    const TensorSpec spec = tensor(name);
    const std::int64_t more = layout == Layout::kBshd ? 0 : ++number;
    const std::int64_t cols = cols_of(name) + 8 * more, cols_of_all = (spec.shape[1] + more) * cols;
    set_strides(name, {.batch = (spec.shape[2] + more) * cols_of_all, .head = cols, .row = cols_of_all});
  }
}

std::int64_t AttentionShape::visible_keys(std::int64_t query) const {
  return Attention<float>{.seq_q = int(seq_q), .seq_k = int(seq_k), .causal = causal}.visible_keys(
      int(query));
}

std::int64_t AttentionShape::visible_pairs() const {
  if (!causal) return seq_q * seq_k;
  // The last query sees all keys, the one before it one fewer, and so on down to 1 key or to the first query.
  const std::int64_t seeing = std::min(seq_q, seq_k);
  return seeing * seq_k - seeing * (seeing - 1) / 2;
}

std::int64_t AttentionShape::keys_of_query_tiles(std::int64_t Br) const {
  std::int64_t keys = 0;
  for (std::int64_t first = 0; first < seq_q; first += Br) {
    keys += visible_keys(std::min(first + Br, seq_q) - 1);
  }
  return keys;
}

std::int64_t AttentionShape::queries_of_key_tile(std::int64_t first_key, std::int64_t Br) const {
  if (!causal) return seq_q;
  const std::int64_t blind = std::max<std::int64_t>(0, first_key - (seq_k - seq_q));  // queries that see none
  return seq_q - blind / Br * Br;
}

std::int64_t AttentionShape::queries_of_key_tiles(std::int64_t Br, std::int64_t Bc) const {
  std::int64_t queries = 0;
  for (std::int64_t key = 0; key < seq_k; key += Bc) queries += queries_of_key_tile(key, Br);
  return queries;
}

Traffic attention_traffic(const AttentionShape& shape, std::int64_t Br) {
  const std::int64_t heads = shape.batch * shape.heads;
  const std::int64_t element = std::int64_t(size_of(shape.dtype));
  const std::int64_t row = heads * shape.head_dim * element, v_row = heads * shape.value_dim() * element;
  const std::int64_t keys = shape.keys_of_query_tiles(Br);
  return {.tensors = {{"q", {.read_bytes = row * shape.seq_q}},
                      {"k", {.read_bytes = row * keys}},
                      {"v", {.read_bytes = v_row * keys}},
                      {"o", {.write_bytes = v_row * shape.seq_q}},
                      {"lse", {.write_bytes = heads * shape.seq_q * std::int64_t(sizeof(float))}}}};
}

std::optional<Refusal> refuse(const AttentionShape& shape) {
  const std::pair<const char*, std::int64_t> lengths[] = {
      {"batch", shape.batch},           {"heads", shape.heads}, {"kv-heads", shape.kv_heads},
      {"seq-q", shape.seq_q},           {"seq-k", shape.seq_k}, {"head-dim", shape.head_dim},
      {"head-dim-v", shape.value_dim()}};
  for (const auto& [name, length] : lengths) {
    const int most = std::string_view(name).starts_with("seq") ? INT_MAX - (kLargestTile - 1) : INT_MAX;
    if (length < 1 || length > most) {
      return Refusal::problem(fmt::format("--{} is {}: must be from 1 to {}", name, length, most));
    }
  }
  if (shape.heads % shape.kv_heads != 0) {
    return Refusal::problem(fmt::format("--heads is {}: must be a multiple of --kv-heads, which is {}",
                                        shape.heads, shape.kv_heads));
  }
  // Kernels count rows in an int, and launch at most one block for each. Every head has whole tiles.
  const std::tuple<const char*, std::int64_t, const char*, std::int64_t> heads_and_rows[] = {
      {"heads", shape.heads, "seq-q", shape.seq_q}, {"kv-heads", shape.kv_heads, "seq-k", shape.seq_k}};
  for (const auto& [name_of_heads, heads, name_of_rows, length] : heads_and_rows) {
    std::int64_t rows = tiles(length, kLargestTile) * kLargestTile;
    if (__builtin_mul_overflow(rows, heads, &rows) || __builtin_mul_overflow(rows, shape.batch, &rows) ||
        rows > INT_MAX) {
      return Refusal::problem(fmt::format(
          "--batch {} times --{} {} times --{} {}, rounded up to a multiple of {}: must be at most {}",
          shape.batch, name_of_heads, heads, name_of_rows, length, kLargestTile, INT_MAX));
    }
  }
  constexpr std::int64_t kAlignment = 16;  // of the accesses of kernels that take strides
  for (const auto& [name, strides] : shape.strides) {
    const std::int64_t multiple = kAlignment / std::int64_t(size_of(shape.dtype));
    if (strides.batch % multiple != 0 || strides.head % multiple != 0 || strides.row % multiple != 0) {
      return Refusal::problem(
          fmt::format("{} has the strides {}: all but the last must be multiples of {} ({} bytes)", name,
                      in_words(strides), multiple, kAlignment));
    }
  }
  for (const char* name : {"o", "dq", "dk", "dv"}) {
    if (shape.strides.contains(name) && overlaps(shape, name)) {
      return Refusal::problem(
          fmt::format("{} has the strides {}: rows of a tensor that is written must not overlap", name,
                      in_words(shape.strides_of(name))));
    }
  }
  const double scale = shape.logit_scale();
  if (!(scale >= kLeastScale && scale <= kMostScale)) {  // NaN is not in the range
    return Refusal::problem(
        fmt::format("--scale is {}: must be from {} to {}", scale, kLeastScale, kMostScale));
  }
  // The elements of Q and K in float64 must fit into the address space.
  const std::int64_t longest = std::max(shape.heads * shape.seq_q, shape.kv_heads * shape.seq_k);
  std::int64_t bytes = std::int64_t(sizeof(double));
  if (__builtin_mul_overflow(bytes, shape.batch, &bytes) || __builtin_mul_overflow(bytes, longest, &bytes) ||
      __builtin_mul_overflow(bytes, std::max(shape.head_dim, shape.value_dim()), &bytes)) {
    return Refusal::problem(fmt::format(
        "--batch {} --heads {} --seq-q {} --seq-k {} --head-dim {}: more elements than have addresses",
        shape.batch, shape.heads, shape.seq_q, shape.seq_k, shape.head_dim));
  }
  return std::nullopt;
}

std::optional<Refusal> refuse_unless(const AttentionShape& shape, const std::vector<std::int64_t>& head_dims,
                                     const std::vector<DType>& dtypes) {
  if (std::find(head_dims.begin(), head_dims.end(), shape.head_dim) == head_dims.end()) {
    return Refusal::problem(
        fmt::format("--head-dim is {}: must be one of {}", shape.head_dim, fmt::join(head_dims, ", ")));
  }
  return refuse_other_types(shape, dtypes);
}

std::optional<Refusal> refuse_unless_padded(const AttentionShape& shape, std::int64_t largest_head_dim,
                                            const std::vector<DType>& dtypes) {
  if (shape.head_dim % 8 != 0 || shape.head_dim > largest_head_dim) {
    return Refusal::problem(
        fmt::format("--head-dim is {}: must be a multiple of 8 up to {}", shape.head_dim, largest_head_dim));
  }
  return refuse_other_types(shape, dtypes);
}

std::optional<Refusal> refuse_unless_equal_widths(const AttentionShape& shape) {
  if (shape.value_dim() == shape.head_dim) return std::nullopt;
  return Refusal::variant(fmt::format("--head-dim-v is {}: this variant takes that of --head-dim, {}",
                                      shape.value_dim(), shape.head_dim));
}

std::optional<Refusal> refuse_unless_dense(const AttentionShape& shape) {
  for (const char* name : kStridedTensors) {
    if (!shape.strides.contains(name)) continue;
    return Refusal{
        .reason = Refusal::Reason::kLayout,
        .text = fmt::format("{} has the strides {}: this variant takes {}", name,
                            in_words(shape.strides_of(name)), in_words(dense_strides(shape, name))),
        .on_command_line = ", those of --layout bhsd"};
  }
  return std::nullopt;
}

std::optional<Refusal> refuse_key_lengths(const AttentionShape& shape,
                                          const std::vector<std::int32_t>& lengths) {
  if (std::int64_t(lengths.size()) != shape.batch)
    return Refusal::problem(
        fmt::format("--key-lengths: has {} lengths, must have {}", lengths.size(), shape.batch));
  if (shape.seq_k > kMostExact)
    return Refusal::problem(
        fmt::format("--seq-k is {}: must be at most {} with --key-lengths", shape.seq_k, kMostExact));
  for (std::size_t batch = 0; batch < lengths.size(); ++batch) {
    if (lengths[batch] >= 0 && lengths[batch] <= shape.seq_k) continue;
    return Refusal::problem(
        fmt::format("--key-lengths: length {} is {}: must be from 0 to {}, the number of keys", batch,
                    lengths[batch], shape.seq_k));
  }
  return std::nullopt;
}

Excerpt<AttentionShape> ends(const AttentionShape& shape) {
  const std::int64_t groups = shape.batch * shape.kv_heads;  // a head of K, and the heads of Q that read it
  AttentionShape part = shape;
  part.batch = std::min<std::int64_t>(groups, 2);
  part.heads = shape.heads / shape.kv_heads;
  part.kv_heads = 1;
  const auto cut = [=](const TensorMap& tensors) {
    TensorMap parts;
    for (const auto& [name, whole] : tensors) {
      Tensor& tensor = parts[name];
      tensor.shape = whole.shape;
      tensor.shape[0] = part.batch;
      tensor.shape[1] /= shape.kv_heads;
      const std::size_t group = whole.data.size() / std::size_t(groups);
      tensor.data = groups > 2 ? both_ends(whole.data, group) : whole.data;
    }
    return parts;
  };
  return {.shape = part, .cut = cut};
}

Tensor logits(const AttentionShape& shape, const Tensor& q, const Tensor& k) {
  require_shape("q", q, {shape.batch, shape.heads, shape.seq_q, shape.head_dim});
  require_shape("k", k, {shape.batch, shape.kv_heads, shape.seq_k, shape.head_dim});

  const std::int64_t rows = shape.batch * shape.heads * shape.seq_q;
  Tensor x{.shape = {rows, shape.seq_k}, .data = std::vector<float>(std::size_t(rows * shape.seq_k))};

  // A block of queries of one head and all keys of its group. Blocks never span two heads.
  constexpr std::int64_t kQueries = 64;
  const std::int64_t blocks_per_head = tiles(shape.seq_q, kQueries);
  const auto logits_of_block = [&](std::int64_t block) {
    const std::int64_t head = block / blocks_per_head;  // counts through all batches
    const std::int64_t first_query = block % blocks_per_head * kQueries;
    const std::int64_t queries = std::min(kQueries, shape.seq_q - first_query);
    const std::int64_t kv_head = shape.kv_head(head);
    const std::int64_t first_row = head * shape.seq_q + first_query;

    const Eigen::Map<const RowMajor<float>> q_block(q.data.data() + first_row * shape.head_dim, queries,
                                                    shape.head_dim);
    const Eigen::Map<const RowMajor<float>> k_head(k.data.data() + kv_head * shape.seq_k * shape.head_dim,
                                                   shape.seq_k, shape.head_dim);
    Eigen::Map<RowMajor<float>> x_block(x.data.data() + first_row * shape.seq_k, queries, shape.seq_k);
    x_block =
        (shape.logit_scale() * (q_block.cast<double>() * k_head.cast<double>().transpose())).cast<float>();

    if (!shape.causal) return;
    for (std::int64_t query = 0; query < queries; ++query) {
      const std::int64_t hidden = shape.seq_k - shape.visible_keys(first_query + query);
      x_block.row(query).tail(hidden).setConstant(-std::numeric_limits<float>::infinity());
    }
  };
  parallel_for(shape.batch * shape.heads * blocks_per_head, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) logits_of_block(block);
  });
  return x;
}

}  // namespace fa
