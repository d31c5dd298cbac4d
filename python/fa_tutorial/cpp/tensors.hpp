/// @file
/// Tensors of PyTorch as the problems of the chapters' libraries, and what autograd and the dispatcher want
/// with them.
#pragma once

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <utility>

#include "cpp/kernels.hpp"

namespace fa_operators {

using Tensors = std::initializer_list<std::reference_wrapper<const Tensor>>;

template <class Signature>
c10::TypedOperatorHandle<Signature> operator_named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

// --- problems ---------------------------------------------------------------------------------------

constexpr std::int64_t kAlignment = 16;  // bytes, of rows

inline bool begins_aligned(const Tensor& x) {
  return reinterpret_cast<std::uintptr_t>(x.data_ptr()) % kAlignment == 0;
}

/// Whether kernels can read the tensor where it is, beside a query.
inline bool is_readable(const Tensor& x, const Tensor& q) {
  if (x.layout() != at::kStrided || x.dim() != 4 || x.numel() == 0) return false;
  if (x.scalar_type() != q.scalar_type() || x.device() != q.device() || !begins_aligned(x)) return false;
  if (x.size(3) > 1 && x.stride(3) != 1) return false;
  for (int axis = 0; axis < 3; ++axis) {
    const std::int64_t bytes = x.stride(axis) * std::int64_t(x.element_size());
    if (x.size(axis) > 1 && bytes % kAlignment != 0) return false;
  }
  return true;
}

inline bool is_factor(double scale) { return std::isfinite(scale) && scale > 0; }

/// Whether these are the tensors of one attention. Anything else is refused in Python.
inline bool is_problem(const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
  return is_readable(q, q) && is_readable(k, q) && is_readable(v, q) && k.sizes() == v.sizes() &&
         q.size(0) == k.size(0) && q.size(3) == k.size(3) && q.size(1) % k.size(1) == 0 && is_factor(scale);
}

/// Whether these are a gradient of O, and what the forward pass has returned for q.
inline bool are_results(const Tensor& d_o, const Tensor& o, const Tensor& lse, const Tensor& q) {
  return is_readable(o, q) && o.sizes() == q.sizes() && d_o.sizes() == q.sizes() &&
         d_o.scalar_type() == q.scalar_type() && d_o.device() == q.device() && lse.is_contiguous() &&
         lse.scalar_type() == at::kFloat && lse.sizes() == q.sizes().slice(0, 3);
}

inline bool is_dense(const Tensor& q, const Tensor& k, const Tensor& v) {
  return q.is_contiguous() && k.is_contiguous() && v.is_contiguous();
}

inline FaStrides strides_of(const Tensor& x) { return {x.stride(0), x.stride(1), x.stride(2)}; }

/// The inputs of both passes.
inline Problem problem_of(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, double scale) {
  Problem problem = Problem::without_numbers();
  FaAttention& given = problem.attention;
  given.batch = q.size(0);
  given.heads = q.size(1);
  given.kv_heads = k.size(1);
  given.seq_q = q.size(2);
  given.seq_k = k.size(2);
  given.head_dim = q.size(3);
  given.head_dim_v = v.size(3);
  given.dtype = q.scalar_type() == at::kFloat ? 0 : q.scalar_type() == at::kHalf ? 1 : 2;
  given.causal = causal;
  given.scale = scale;
  given.q = q.data_ptr();
  given.k = k.data_ptr();
  given.v = v.data_ptr();
  given.q_strides = strides_of(q);
  given.k_strides = strides_of(k);
  given.v_strides = strides_of(v);
  return problem;
}

/// Runs a forward pass: O, and LSE if it is wanted. Both are undefined if the kernel refuses.
inline std::tuple<Tensor, Tensor> run_forward(Kernel& kernel, Problem problem, const Tensor& q,
                                              bool wants_lse) {
  Tensor o = new_like(q), lse;
  problem.attention.o = o.data_ptr();
  problem.attention.o_strides = strides_of(o);
  if (wants_lse) {
    lse = empty_lse(q);
    problem.attention.lse = lse.data_ptr();
  }
  if (!kernel.run(problem, q.get_device())) return {};
  return {std::move(o), std::move(lse)};
}

/// Runs a backward pass: dQ, dK and dV. They are undefined if the kernel refuses.
inline std::tuple<Tensor, Tensor, Tensor> run_backward(Kernel& kernel, Problem problem, const Tensor& d_o,
                                                       const Tensor& q, const Tensor& k, const Tensor& v,
                                                       const Tensor& o, const Tensor& lse) {
  Tensor of_o = d_o;  // PyTorch makes gradients with any strides, and these are copied if they must be
  if (!is_readable(d_o, q) || d_o.strides() != o.strides()) of_o = new_like(o).copy_(d_o);
  Tensor dq = new_like(q), dk = new_like(k), dv = new_like(v);
  FaAttention& given = problem.attention;
  given.o = o.data_ptr();
  given.lse = lse.data_ptr();
  given.d_o = of_o.data_ptr();
  given.dq = dq.data_ptr();
  given.dk = dk.data_ptr();
  given.dv = dv.data_ptr();
  given.o_strides = strides_of(o);
  given.d_o_strides = strides_of(of_o);
  given.dq_strides = strides_of(dq);
  given.dk_strides = strides_of(dk);
  given.dv_strides = strides_of(dv);
  if (!kernel.run(problem, q.get_device())) return {};
  return {std::move(dq), std::move(dk), std::move(dv)};
}

// --- autograd ---------------------------------------------------------------------------------------

/// A node of autograd's graph. Newer versions of PyTorch own nodes by another kind of pointer.
template <class Node, class... Args>
auto new_node(Args&&... args) {
  using Owner = decltype(torch::autograd::Edge::function);
  if constexpr (std::is_same_v<Owner, std::shared_ptr<torch::autograd::Node>>) {
    return std::make_shared<Node>(std::forward<Args>(args)...);
  } else {
    return c10::make_intrusive<Node>(std::forward<Args>(args)...);
  }
}

/// Tensors that are not given are undefined.
inline bool needs_gradient(Tensors tensors) {
  if (!at::GradMode::is_enabled()) return false;
  for (const Tensor& x : tensors) {
    if (x.defined() && x.requires_grad()) return true;
  }
  return false;
}

/// Whether one of the tensors is a dual number of a derivative in forward mode, which Python refuses.
inline bool has_tangent(Tensors tensors) {
  for (const Tensor& x : tensors) {
    if (x.defined() && x._fw_grad(0).defined()) return true;
  }
  return false;
}

/// Whether the dispatcher would do nothing but run a kernel: no mode, transformation, trace or profiler is to
/// see a call with these tensors, and autocast has nothing to convert.
inline bool is_plain(const Tensor& q, Tensors others) {
  using c10::DispatchKey;
  constexpr c10::DispatchKeySet plain({DispatchKey::CUDA, DispatchKey::AutogradCUDA,
                                       DispatchKey::AutocastCUDA, DispatchKey::ADInplaceOrView,
                                       DispatchKey::BackendSelect});
  const auto local = c10::impl::tls_local_dispatch_key_set();
  auto keys = q.key_set() | local.included_;
  for (const Tensor& x : others) {
    if (x.defined()) keys = keys | x.key_set();
  }
  keys = keys - local.excluded_;
  if (!plain.isSupersetOf(keys) || at::impl::torch_function_mode_enabled()) return false;
  if (has_tangent({q}) || has_tangent(others)) return false;
  if (at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION)) return false;
  return !keys.has(DispatchKey::AutocastCUDA) ||
         q.scalar_type() == at::autocast::get_autocast_dtype(at::kCUDA);
}

}  // namespace fa_operators
