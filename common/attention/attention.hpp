/// @file
/// Attention: the sizes of the problem, and the logits on which the softmax chapters run.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attention/refusal.hpp"
#include "attention/tensor.hpp"
#include "attention/traffic.hpp"
#include "device/attention.cuh"

namespace fa {

/// How the tensors of a run lie in device memory.
enum class Layout {
  kBhsd,    ///< dense, [batch, heads, seq, head_dim]
  kBshd,    ///< dense, [batch, seq, heads, head_dim], as models compute them
  kSliced,  ///< slices of larger [batch, seq, heads, head_dim] tensors, of another size for each tensor
};

/// The values of --layout, in the order of the enum.
constexpr std::string_view kLayoutNames[] = {"bhsd", "bshd", "sliced"};

/// The tensors that may have strides. All others are dense.
constexpr const char* kStridedTensors[] = {"q", "k", "v", "o", "do", "dq", "dk", "dv"};

/// The sizes of one attention. Q is [batch, heads, seq_q, head_dim], K [batch, kv_heads, seq_k, head_dim],
/// V [batch, kv_heads, seq_k, value_dim()] and O [batch, heads, seq_q, value_dim()]; heads / kv_heads query
/// heads share one of K and V.
struct AttentionShape {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t seq_q = 1;
  std::int64_t seq_k = 1;
  std::int64_t head_dim = 1;
  std::optional<std::int64_t> head_dim_v = std::nullopt;  ///< of V and O, if it is not head_dim
  bool causal = false;                         ///< query i sees key j only when j <= i + seq_k - seq_q
  std::optional<double> scale = std::nullopt;  ///< default 1/sqrt(head_dim)
  DType dtype = DType::kFloat32;               ///< of Q, K, V and O in device memory
  /// Of those kStridedTensors that are not dense in the order above.
  std::map<std::string, Strides> strides = {};

  /// The columns of V and O.
  std::int64_t value_dim() const { return head_dim_v.value_or(head_dim); }

  /// The columns of one of kStridedTensors.
  std::int64_t cols_of(const std::string& name) const;

  /// The factor of Q K^T.
  double logit_scale() const;

  /// Shape, type and strides of one of kStridedTensors.
  TensorSpec tensor(const std::string& name) const;

  /// The strides of one of them.
  Strides strides_of(const std::string& name) const;

  /// Lays all tensors out.
  void set_layout(Layout layout);

  /// Sets the strides of a tensor. Those of a dimension of length 1 do not matter.
  void set_strides(const std::string& name, Strides given);

  /// The head of K and V that a head of Q reads, both counted across all batches.
  std::int64_t kv_head(std::int64_t head) const { return head / (heads / kv_heads); }

  /// The number of keys that a query sees, which are the first ones.
  std::int64_t visible_keys(std::int64_t query) const;

  /// The sum of visible_keys() over the queries of one head.
  std::int64_t visible_pairs() const;

  /// The keys that all query tiles of one head read: each tile of Br queries reads those that its last query
  /// sees.
  std::int64_t keys_of_query_tiles(std::int64_t Br) const;

  /// The queries of one head that a key tile reads: the first tile of Br queries that sees `first_key`, and
  /// all later ones.
  std::int64_t queries_of_key_tile(std::int64_t first_key, std::int64_t Br) const;

  /// The sum of queries_of_key_tile() over the tiles of Bc keys.
  std::int64_t queries_of_key_tiles(std::int64_t Br, std::int64_t Bc) const;
};

/// Nothing if the shape can be computed, otherwise what is wrong, naming the option and a valid value.
std::optional<Refusal> refuse(const AttentionShape& shape);

/// Nothing if a variant was compiled for the head dimension and the element type, otherwise what would be
/// valid.
std::optional<Refusal> refuse_unless(const AttentionShape& shape, const std::vector<std::int64_t>& head_dims,
                                     const std::vector<DType>& dtypes);

/// Nothing if V has as many columns as K, otherwise what would be valid.
std::optional<Refusal> refuse_unless_equal_widths(const AttentionShape& shape);

/// Nothing if all tensors are dense, in the order [batch, heads, seq, head_dim]; otherwise which one is not.
std::optional<Refusal> refuse_unless_dense(const AttentionShape& shape);

/// The same for a variant that takes every multiple of 8 up to a head dimension.
std::optional<Refusal> refuse_unless_padded(const AttentionShape& shape, std::int64_t largest_head_dim,
                                            const std::vector<DType>& dtypes);

/// Nothing if the sequences can have so many keys, otherwise what would be valid.
/// @param lengths  one for each batch
std::optional<Refusal> refuse_key_lengths(const AttentionShape& shape,
                                          const std::vector<std::int32_t>& lengths);

/// Bytes of a forward pass with a block per tile of Br queries: Q, O and LSE once; K and V once per block, up
/// to the last key that its last query sees.
Traffic attention_traffic(const AttentionShape& shape, std::int64_t Br);

/// The first and the last head of K and V, with the queries that read them.
Excerpt<AttentionShape> ends(const AttentionShape& shape);

/// scale * Q K^T, summed in float64 on all cores; -inf where the mask hides a key.
///
/// @param q  [batch, heads, seq_q, head_dim]
/// @param k  [batch, kv_heads, seq_k, head_dim]
/// @return   [batch * heads * seq_q, seq_k], one row per query: the x of the softmax chapters
/// @throws std::invalid_argument  if a tensor does not have the shape given above
Tensor logits(const AttentionShape& shape, const Tensor& q, const Tensor& k);

}  // namespace fa
