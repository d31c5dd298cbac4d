/// @file
/// The operator decode (decoding.py) once more, for eager calls whose kernels have run in Python before.
#pragma once

#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAGuard.h>

#include <cstdint>
#include <tuple>
#include <utility>

#include "cpp/tensors.hpp"

namespace fa_operators {

/// A call of the operator. Tensors that are not given are undefined.
struct DecodeCall {
  Tensor q, k, v;                         ///< k and v: a cache, or its pages
  Tensor lengths = {}, block_table = {};  ///< whose numbers have been checked
  Tensor k_scale = {}, v_scale = {};
  double scale = 0;
  std::int64_t splits = 0;
};

/// Whether an optional tensor is as kernels read it.
inline bool is_table(const Tensor& x, at::ScalarType type, std::int64_t rows, bool has_columns,
                     const Tensor& q) {
  if (!x.defined()) return true;
  return x.layout() == at::kStrided && x.scalar_type() == type && x.device() == q.device() &&
         x.dim() == (has_columns ? 2 : 1) && x.size(0) == rows && x.numel() > 0 && x.is_contiguous() &&
         begins_aligned(x);
}

/// Whether this is one decoding. Anything else is refused in Python.
inline bool is_decoding(const DecodeCall& call) {
  const auto& [q, k, v, lengths, block_table, k_scale, v_scale, scale, splits] = call;
  const bool paged = block_table.defined(), fp8 = k_scale.defined();
  if (fp8 != v_scale.defined() || !is_readable(q, q) || !is_factor(scale) || splits < 0) return false;
  for (const Tensor* x : {&k, &v}) {
    if (x->layout() != at::kStrided || x->dim() != 4 || x->numel() == 0 || x->device() != q.device() ||
        !x->is_contiguous() || !begins_aligned(*x))
      return false;
    if (x->scalar_type() != (fp8 ? at::kFloat8_e4m3fn : q.scalar_type())) return false;
  }
  const std::int64_t batch = q.size(0), kv_heads = k.size(1);
  return k.sizes() == v.sizes() && (paged || k.size(0) == batch) && q.size(3) == k.size(3) &&
         q.size(1) % kv_heads == 0 && is_table(lengths, at::kInt, batch, false, q) &&
         is_table(block_table, at::kInt, batch, true, q) &&
         is_table(k_scale, at::kFloat, kv_heads, false, q) &&
         is_table(v_scale, at::kFloat, kv_heads, false, q);
}

/// O and LSE; undefined where Python has to look at the call.
inline std::tuple<Tensor, Tensor> decode_at_once(const DecodeCall& call) {
  const auto& [q, k, v, lengths, block_table, k_scale, v_scale, scale, splits] = call;
  if (!is_plain(q, {k, v, lengths, block_table, k_scale, v_scale}) || !is_decoding(call)) return {};
  if (needs_gradient({q, k, v})) return {};
  const bool paged = block_table.defined();
  const auto kernel = kernel_for(choice(false, k_scale.defined() ? "decode fp8" : "decode", q, true));
  if (!kernel) return {};
  const c10::cuda::CUDAGuard device(q.device());
  const Tensor dense = q.contiguous();
  Problem problem = problem_of(dense, k, v, false, scale);
  const auto address = [](const Tensor& x) { return x.defined() ? x.data_ptr() : nullptr; };
  problem.has_cache = 1;
  FaCache& cache = problem.cache;
  cache.key_lengths = address(lengths);
  cache.block_table = address(block_table);
  cache.k_scale = address(k_scale);
  cache.v_scale = address(v_scale);
  if (paged) {
    cache.page_size = k.size(2);
    cache.pages = k.size(0);
    cache.table_columns = block_table.size(1);
    problem.attention.seq_k = cache.page_size * cache.table_columns;
  }
  cache.splits = splits;
  cache.workspace_is_zero = 1;
  return run_forward(*kernel, problem, dense, true);
}

}  // namespace fa_operators
