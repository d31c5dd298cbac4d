/// @file
/// The problem of chapters 03 to 07: the forward pass of attention.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attention/attention.hpp"
#include "attention/inputs.hpp"
#include "attention/tensor.hpp"
#include "attention/tolerance.hpp"
#include "device/attention.cuh"
#include "device/math.cuh"

namespace fa {

/// O = softmax(scale * Q K^T) V, and LSE, the natural log of each row's sum of exp(scale * q.k).
///
/// Q, K, V and O have the shapes that AttentionShape names, LSE is [batch, heads, seq_q] and always fp32. A
/// query that sees no key has O = 0 and LSE = -inf. A query that sees a logit of NaN or +inf has O = NaN and
/// LSE = NaN. The contents of hidden keys do not matter, unless K or V has a NaN or an infinity there:
/// kernels may return NaN then for all queries that read this head of K and V.
///
/// attention/problem.hpp describes the members.
struct AttentionForward {
  using Shape = AttentionShape;

  /// The arguments of a launch. Lengths are at most INT_MAX.
  struct Args {
    int batch, heads, kv_heads, seq_q, seq_k, head_dim, head_dim_v;
    float scale;
    bool causal;
    DType dtype;  ///< of q, k, v and o
    std::map<std::string, void*>
        buffers;  ///< device addresses of q, k, v, o, lse and the variant's workspace
    std::map<std::string, Strides> strides;  ///< of those buffers that are kStridedTensors

    /// The address of a tensor, as elements of type T.
    /// @throws std::out_of_range  if there is no tensor of that name
    template <class T>
    T* buffer(const std::string& name) const {
      return static_cast<T*>(buffers.at(name));
    }

    /// The same, or null.
    template <class T>
    T* buffer_or_null(const std::string& name) const {
      const auto found = buffers.find(name);
      return found == buffers.end() ? nullptr : static_cast<T*>(found->second);
    }

    /// The arguments of kernels. @tparam T  the element type: float, __half or __nv_bfloat16, as `dtype` says
    template <class T>
    Attention<T> as() const {
      return {.q = buffer<T>("q"),
              .k = buffer<T>("k"),
              .v = buffer<T>("v"),
              .o = buffer<T>("o"),
              .lse = buffer<float>("lse"),
              .batch = batch,
              .heads = heads,
              .kv_heads = kv_heads,
              .seq_q = seq_q,
              .seq_k = seq_k,
              .scale = scale,
              .exp2_scale = scale * kLog2e,
              .causal = causal,
              .head_dim = head_dim,
              .head_dim_v = head_dim_v,
              .q_strides = strides.at("q"),
              .k_strides = strides.at("k"),
              .v_strides = strides.at("v"),
              .o_strides = strides.at("o")};
    }
  };

  static constexpr std::string_view kName = "attention";

  /// Nothing if the shape can be computed, otherwise what is wrong, naming the option.
  static std::optional<Refusal> refuse(const Shape& shape) { return fa::refuse(shape); }

  static std::vector<TensorSpec> inputs(const Shape& shape);
  static std::vector<TensorSpec> outputs(const Shape& shape);

  /// Random Q, K and V. Only K has outliers, while Q and V are normal: K is 3/4 of a tensor with the outlier
  /// distribution, so one element in 32 is near +-75. With the default scale a logit then has a standard
  /// deviation of 75 / sqrt(32) = 13 for any head_dim, and the largest of some ten thousand are near +-80.
  static TensorMap random_inputs(const Shape& shape, Init init, std::uint64_t seed) {
    return random_inputs(inputs(shape), init, seed);
  }
  /// The same for Q, K and V of any shapes.
  static TensorMap random_inputs(const std::vector<TensorSpec>& qkv, Init init, std::uint64_t seed);

  /// @param buffers  device addresses of all inputs, outputs and tensors of the workspace, by name
  static Args bind(const Shape& shape, const std::map<std::string, void*>& buffers);

  /// Outputs in float64, computed on all cores from inputs rounded to the shape's dtype.
  static Reference reference(const Shape& shape, const TensorMap& inputs);

  static Excerpt<Shape> ends(const Shape& shape) { return fa::ends(shape); }

  /// O: relative L2 error 1e-5. LSE: 1e-4 for each element. In 16 bits, more: the error of standard
  /// attention.
  static Tolerances tolerances(const Shape& shape);
  /// The limits on these inputs: wider if logits are so large that fp32 rounds them by more; and NaN is
  /// accepted where one of a hidden key may spread to.
  /// @param expected  reference(shape, inputs)
  static Tolerances tolerances(const Shape& shape, const TensorMap& inputs, const Reference& expected);

  /// How many keys the query of an element sees if some are hidden, and their logits if they are at most
  /// four: "query 3 sees 1 of 5 keys; its scaled logit is 0.31". Empty if there is nothing short to say.
  /// @param index  of an element of o or lse
  static std::string describe_inputs(const Shape& shape, const TensorMap& inputs, const std::string& output,
                                     const std::vector<std::int64_t>& index);

  /// 2 * (head_dim + value_dim()) for each pair of a query and a key that it sees: a multiplication and an
  /// addition for each column in Q K^T, and the same in P V. The exponentials are not counted, as in the
  /// FlashAttention papers.
  static double flops(const Shape& shape);

  /// The lengths by name, for the JSON report.
  static std::vector<std::pair<std::string, std::int64_t>> describe(const Shape& shape);
};

}  // namespace fa
