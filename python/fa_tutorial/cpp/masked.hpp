/// @file
/// The operator masked_attention and its backward pass (masked.py) once more, for eager calls whose kernels
/// have run in Python before. Anything else goes there.
#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/full.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "cpp/tensors.hpp"

namespace fa_operators {

/// masks.py's Masks. Tensors that are not given are undefined.
struct Masks {
  enum Which { kDocuments, kKeyDocuments, kKeyLengths, kBlockMask, kAlibiSlopes, kSinks, kTensors };
  std::array<Tensor, kTensors> tensors;
  std::int64_t block_size = 0;
  std::int64_t window = 0;
  double softcap = 0;
  double dropout_p = 0;
  std::uint64_t seed = 0;  ///< of dropout

  const Tensor& operator[](Which which) const { return tensors[which]; }

  bool change_scores() const { return softcap != 0 || tensors[kAlibiSlopes].defined(); }

  bool hide_something() const {
    for (const Which which : {kDocuments, kKeyLengths, kBlockMask, kSinks}) {
      if (tensors[which].defined()) return true;
    }
    return window != 0 || dropout_p != 0 || change_scores();
  }

  /// What decides which variant runs: masked.py has the same names.
  std::string kind(bool deterministic) const {
    std::string kind = dropout_p != 0 ? "dropout" : "masks";
    if (change_scores()) kind += " scores";
    return deterministic ? kind + " deterministic" : kind;
  }

  void add_to(Problem& problem) const {
    const auto address = [&](Which which) {
      return tensors[which].defined() ? tensors[which].data_ptr() : nullptr;
    };
    problem.has_masks = 1;
    problem.masks.documents = address(kDocuments);
    problem.masks.key_documents = address(kKeyDocuments);
    problem.masks.key_lengths = address(kKeyLengths);
    problem.masks.block_mask = address(kBlockMask);
    problem.masks.alibi_slopes = address(kAlibiSlopes);
    problem.masks.sinks = address(kSinks);
    problem.masks.heads_of_blocks = tensors[kBlockMask].defined() ? tensors[kBlockMask].size(0) : 1;
    problem.masks.size_of_blocks = block_size;
    problem.masks.window = window;
    problem.masks.softcap = softcap;
    problem.masks.dropout = dropout_p;
    problem.masks.dropout_seed = seed;
  }
};

/// A call of the operator.
struct MaskedCall {
  Tensor q, k, v;
  Masks masks = {};
  bool causal = false;
  double scale = 0;
  bool deterministic = false;

  /// The kernel, if one has run such a call before.
  std::shared_ptr<Kernel> kernel(bool backward) const {
    return kernel_for(choice(backward, masks.kind(deterministic), q, is_dense(q, k, v)));
  }

  Problem problem() const {
    Problem problem = problem_of(q, k, v, causal, scale);
    masks.add_to(problem);
    return problem;
  }
};

using Optional = std::optional<Tensor>;
using Gradients = std::tuple<Tensor, Tensor, Tensor, Tensor>;  // dQ, dK, dV and those of the sinks

inline Gradients masked_backward_in_python(const Tensor& d_o, const MaskedCall& call, const Tensor& o,
                                           const Tensor& lse) {
  using Signature = Gradients(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                              const Tensor&, const Optional&, const Optional&, const Optional&,
                              const Optional&, const Optional&, const Optional&, const Optional&, c10::SymInt,
                              c10::SymInt, double, double, bool, double, bool);
  static const auto slow = operator_named<Signature>("fa_tutorial::masked_attention_backward");
  const Masks& masks = call.masks;
  const auto given = [&](Masks::Which which) {
    return masks[which].defined() ? Optional(masks[which]) : Optional();
  };
  Optional seed;
  if (masks.dropout_p != 0) seed = at::full({1}, std::int64_t(masks.seed), at::kLong);
  return slow.call(d_o, call.q, call.k, call.v, o, lse, given(Masks::kDocuments), given(Masks::kKeyDocuments),
                   given(Masks::kKeyLengths), given(Masks::kBlockMask), given(Masks::kAlibiSlopes),
                   given(Masks::kSinks), seed, masks.block_size, masks.window, masks.softcap, masks.dropout_p,
                   call.causal, call.scale, call.deterministic);
}

inline Gradients masked_backward(const Tensor& d_o, const MaskedCall& call, const Tensor& o,
                                 const Tensor& lse) {
  const auto& [q, k, v, masks, causal, scale, deterministic] = call;
  std::shared_ptr<Kernel> kernel;
  if (is_plain(d_o, {q, k, v, o, lse}) && !needs_gradient({d_o, q, k, v, o, lse}) &&
      are_results(d_o, o, lse, q)) {
    kernel = call.kernel(true);
  }
  if (kernel) {
    const c10::cuda::CUDAGuard device(q.device());
    Problem problem = call.problem();
    Tensor of_sinks;
    if (masks[Masks::kSinks].defined()) {
      of_sinks = new_like(masks[Masks::kSinks]);
      problem.masks.dsinks = of_sinks.data_ptr();
    }
    auto [dq, dk, dv] = run_backward(*kernel, problem, d_o, q, k, v, o, lse);
    if (dq.defined()) return {std::move(dq), std::move(dk), std::move(dv), std::move(of_sinks)};
  }
  return masked_backward_in_python(d_o, call, o, lse);
}

/// A call in autograd's graph. Its inputs are Q, K, V and the sinks.
class MaskedAttentionBackward : public torch::autograd::Node {
 public:
  explicit MaskedAttentionBackward(const MaskedCall& call)
      : Node(torch::autograd::collect_next_edges(call.q, call.k, call.v, call.masks[Masks::kSinks])),
        saved_{{{call.q, false}, {call.k, false}, {call.v, false}}},
        call_(call) {
    call_.q = call_.k = call_.v = Tensor();
    for (int which = 0; which < Masks::kTensors; ++which) {
      masks_[which] = {call.masks.tensors[which], false};
      call_.masks.tensors[which] = Tensor();
    }
  }

  /// Makes O a result of the call.
  void set_results(const Tensor& o, const Tensor& lse) {
    torch::autograd::set_history(o, getptr());
    saved_[3] = {o, true};
    saved_[4] = {lse, false};
  }

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const std::scoped_lock lock(mutex_);
    if (!gradients[0].defined()) return torch::autograd::variable_list(4);
    const auto saved = [&](int which) { return saved_[which].unpack(getptr()); };
    MaskedCall call = call_;
    std::tie(call.q, call.k, call.v) = std::tuple(saved(0), saved(1), saved(2));
    for (int which = 0; which < Masks::kTensors; ++which)
      call.masks.tensors[which] = masks_[which].unpack(getptr());
    auto [dq, dk, dv, of_sinks] = masked_backward(gradients[0], call, saved(3), saved(4));
    if (!call.masks[Masks::kSinks].defined()) of_sinks = Tensor();
    return {std::move(dq), std::move(dk), std::move(dv), std::move(of_sinks)};
  }

  void release_variables() override {
    const std::scoped_lock lock(mutex_);
    for (auto& tensor : saved_) tensor.reset_data();
    for (auto& tensor : masks_) tensor.reset_data();
  }

  std::string name() const override { return "MaskedAttentionBackward"; }

 private:
  std::array<torch::autograd::SavedVariable, 5> saved_;  // Q, K, V, O, LSE
  std::array<torch::autograd::SavedVariable, Masks::kTensors> masks_;
  MaskedCall call_;  // without tensors
};

/// As torch.randint(0, 2**63 - 1, (1,)) returns it.
inline std::uint64_t new_seed() {
  auto* const generator = at::check_generator<at::CPUGeneratorImpl>(at::detail::getDefaultCPUGenerator());
  const std::scoped_lock lock(generator->mutex_);
  return generator->random64() % std::uint64_t(std::numeric_limits<std::int64_t>::max());
}

/// O, and LSE if it is wanted or there is a gradient. Both are undefined where Python has to look at the
/// call.
///
/// @param call  of masks that hide something, whose tensors are as the operator takes them
/// @param draws_seed  whether it has no seed of dropout yet
inline std::tuple<Tensor, Tensor> masked_at_once(MaskedCall call, bool wants_lse, bool draws_seed) {
  const auto& [q, k, v, masks, causal, scale, deterministic] = call;
  if (!is_plain(q, {k, v, masks[Masks::kSinks]}) || !is_problem(q, k, v, scale)) return {};
  const bool gradient = needs_gradient({q, k, v, masks[Masks::kSinks]});
  const auto kernel = call.kernel(false);
  if (!kernel || (gradient && !call.kernel(true))) return {};
  if (draws_seed && masks.dropout_p != 0) call.masks.seed = new_seed();
  const c10::cuda::CUDAGuard device(q.device());
  auto results = run_forward(*kernel, call.problem(), q, wants_lse || gradient);
  const auto& [o, lse] = results;
  if (gradient && o.defined()) new_node<MaskedAttentionBackward>(call)->set_results(o, lse);
  return results;
}

// --- what people pass to attention() ------------------------------------------------------------------

/// Whether this is a tensor of a mask as kernels read it, if it is given.
inline bool is_row(const Tensor& x, at::ScalarType type, std::int64_t length, const Tensor& q) {
  if (!x.defined()) return true;
  return x.layout() == at::kStrided && x.scalar_type() == type && x.device() == q.device() && x.dim() == 1 &&
         x.size(0) == length && x.is_contiguous() && begins_aligned(x);
}

/// The size of the blocks of which a tensor is the mask; 0 if it is none.
inline std::int64_t block_size_of(const Tensor& x, const Tensor& q, const Tensor& k) {
  if (x.layout() != at::kStrided || x.device() != q.device() || x.dim() != 3 || !x.is_contiguous()) return 0;
  if ((x.scalar_type() != at::kBool && x.scalar_type() != at::kByte) || !begins_aligned(x)) return 0;
  if (x.size(0) != 1 && x.size(0) != q.size(1)) return 0;
  for (const std::int64_t size : {128, 64}) {
    const auto blocks = [&](std::int64_t length) { return (length + size - 1) / size; };
    if (x.size(1) == blocks(q.size(2)) && x.size(2) == blocks(k.size(2))) return size;
  }
  return 0;
}

/// Makes the arguments of functions.py's attention() those of the operator. False where Python has to look at
/// them.
inline bool complete(MaskedCall& call) {
  const auto& q = call.q;
  Masks& masks = call.masks;
  if (q.dim() != 4 || call.k.dim() != 4) return false;
  const std::int64_t batch = q.size(0), heads = q.size(1), seq_q = q.size(2);
  if (masks[Masks::kDocuments].defined() && seq_q != call.k.size(2)) return false;
  if (!is_row(masks[Masks::kDocuments], at::kInt, seq_q, q) ||
      !is_row(masks[Masks::kKeyLengths], at::kInt, batch, q) ||
      !is_row(masks[Masks::kAlibiSlopes], at::kFloat, heads, q) ||
      !is_row(masks[Masks::kSinks], at::kFloat, heads, q) || needs_gradient({masks[Masks::kAlibiSlopes]}))
    return false;
  if (masks[Masks::kBlockMask].defined()) {
    masks.block_size = block_size_of(masks[Masks::kBlockMask], q, call.k);
    if (masks.block_size == 0) return false;
  }
  // a graph would drop the same in every replay
  return masks.dropout_p == 0 ||
         c10::cuda::currentStreamCaptureStatusMayInitCtx() == c10::cuda::CaptureStatus::None;
}

}  // namespace fa_operators
