/// @file
/// The operators attention_native and attention_backward_native, which are operators.py once more.
#pragma once

#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "cpp/tensors.hpp"

namespace fa_operators {

using Pair = std::tuple<Tensor, Tensor>;
using Triple = std::tuple<Tensor, Tensor, Tensor>;
using Forward = Pair(const Tensor&, const Tensor&, const Tensor&, bool, double, std::string_view,
                     std::string_view);
using Backward = Triple(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                        const Tensor&, bool, double, std::string_view);

inline Pair attention_in_python(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, double scale,
                                std::string_view forward, std::string_view backward) {
  static const auto slow = operator_named<Forward>("fa_tutorial::attention");
  return slow.call(q, k, v, causal, scale, forward, backward);
}

inline Triple backward_in_python(const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                 const Tensor& o, const Tensor& lse, bool causal, double scale,
                                 std::string_view backward) {
  static const auto slow = operator_named<Backward>("fa_tutorial::attention_backward");
  return slow.call(d_o, q, k, v, o, lse, causal, scale, backward);
}

/// O, and LSE if it is wanted. Both are undefined where the operator in Python has to run.
inline Pair forward_pass(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, double scale,
                         std::string_view forward, bool wants_lse) {
  std::shared_ptr<Kernel> kernel;
  if (is_problem(q, k, v, scale)) kernel = kernel_for(choice(false, forward, q, is_dense(q, k, v)));
  if (!kernel) return {};
  const c10::cuda::CUDAGuard device(q.device());
  return run_forward(*kernel, problem_of(q, k, v, causal, scale), q, wants_lse);
}

inline Pair attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, double scale,
                      std::string_view forward, std::string_view backward) {
  Pair results = forward_pass(q, k, v, causal, scale, forward, true);
  if (std::get<0>(results).defined()) return results;
  return attention_in_python(q, k, v, causal, scale, forward, backward);
}

inline Triple attention_backward(const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                 const Tensor& o, const Tensor& lse, bool causal, double scale,
                                 std::string_view backward) {
  std::shared_ptr<Kernel> kernel;
  if (is_problem(q, k, v, scale) && are_results(d_o, o, lse, q)) {
    const bool dense = is_dense(q, k, v);
    if (!dense || o.is_contiguous()) kernel = kernel_for(choice(true, backward, q, dense));
  }
  if (kernel) {
    const c10::cuda::CUDAGuard device(q.device());
    const Problem problem = problem_of(q, k, v, causal, scale);
    Triple gradients = run_backward(*kernel, problem, d_o, q, k, v, o, lse);
    if (std::get<0>(gradients).defined()) return gradients;
  }
  return backward_in_python(d_o, q, k, v, o, lse, causal, scale, backward);
}

// --- autograd ---------------------------------------------------------------------------------------

/// A call in autograd's graph.
class AttentionBackward : public torch::autograd::Node {
 public:
  AttentionBackward(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, double scale,
                    std::string_view backward)
      : Node(torch::autograd::collect_next_edges(q, k, v)),
        saved_{{{q, false}, {k, false}, {v, false}}},
        causal_(causal),
        scale_(scale),
        backward_(backward) {}

  /// Makes O a result of the call.
  void set_results(const Tensor& o, const Tensor& lse) {
    torch::autograd::set_history(o, getptr());
    saved_[3] = {o, true};
    saved_[4] = {lse, false};
  }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const std::scoped_lock lock(mutex_);
    if (!gradients[0].defined()) return torch::autograd::variable_list(3);
    const auto saved = [&](int which) { return saved_[which].unpack(getptr()); };
    static const auto native = operator_named<Backward>("fa_tutorial::attention_backward_native");
    auto [dq, dk, dv] = native.call(gradients[0], saved(0), saved(1), saved(2), saved(3), saved(4), causal_,
                                    scale_, backward_);
    return {std::move(dq), std::move(dk), std::move(dv)};
  }

  void release_variables() override {
    const std::scoped_lock lock(mutex_);
    for (auto& tensor : saved_) tensor.reset_data();
  }

  std::string name() const override { return "AttentionBackward"; }

 private:
  std::array<torch::autograd::SavedVariable, 5> saved_;  // Q, K, V, O, LSE
  bool causal_;
  double scale_;
  std::string backward_;
};

inline void set_gradient(const Pair& results, const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                         double scale, std::string_view backward) {
  const auto node = new_node<AttentionBackward>(q, k, v, causal, scale, backward);
  node->set_results(std::get<0>(results), std::get<1>(results));
}

/// Whether a backward pass has run for such tensors. Python says where there is none.
inline bool has_backward(const Tensor& q, const Tensor& k, const Tensor& v, std::string_view backward) {
  for (const Tensor* x : {&q, &k, &v}) {
    if (x->layout() != at::kStrided || x->unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return false;
  }
  return q.dim() == 4 && kernel_for(choice(true, backward, q, is_dense(q, k, v)));
}

inline Pair attention_autograd(c10::DispatchKeySet keys, const Tensor& q, const Tensor& k, const Tensor& v,
                               bool causal, double scale, std::string_view forward,
                               std::string_view backward) {
  const bool gradient = needs_gradient({q, k, v});
  if (has_tangent({q, k, v}) || (gradient && !has_backward(q, k, v, backward)))
    return attention_in_python(q, k, v, causal, scale, forward, backward);
  static const auto native = operator_named<Forward>("fa_tutorial::attention_native");
  Pair results = [&] {
    const at::AutoDispatchBelowADInplaceOrView below;
    return native.redispatch(keys & c10::after_autograd_keyset, q, k, v, causal, scale, forward, backward);
  }();
  if (gradient) set_gradient(results, q, k, v, causal, scale, backward);
  return results;
}

inline Triple backward_autograd(c10::DispatchKeySet keys, const Tensor& d_o, const Tensor& q, const Tensor& k,
                                const Tensor& v, const Tensor& o, const Tensor& lse, bool causal,
                                double scale, std::string_view backward) {
  if (has_tangent({d_o, q, k, v, o, lse}) || needs_gradient({d_o, q, k, v, o, lse}))  // Python refuses both
    return backward_in_python(d_o, q, k, v, o, lse, causal, scale, backward);
  static const auto native = operator_named<Backward>("fa_tutorial::attention_backward_native");
  return native.redispatch(keys & c10::after_autograd_keyset, d_o, q, k, v, o, lse, causal, scale, backward);
}

// --- eager calls ------------------------------------------------------------------------------------

/// O; undefined where Python has to look at the call.
inline Tensor attention_at_once(const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                                std::optional<double> scale, bool shares_heads, std::string_view forward,
                                std::string_view backward) {
  if (!is_plain(q, {k, v}) || q.dim() != 4 || k.dim() != 4) return {};
  if (!shares_heads && q.size(1) != k.size(1)) return {};
  const double factor = scale.value_or(1 / std::sqrt(double(q.size(3))));
  const bool gradient = needs_gradient({q, k, v});
  if (gradient && !has_backward(q, k, v, backward)) return {};
  Pair results = forward_pass(q, k, v, causal, factor, forward, gradient);
  Tensor& o = std::get<0>(results);
  if (gradient && o.defined()) set_gradient(results, q, k, v, causal, factor, backward);
  return std::move(o);
}

}  // namespace fa_operators
