// The operators once more, in C++, so that a call costs the host little more than the launch. They run a kernel that the
// operators in Python (operators.py) have run before, with the same choice, element type, head dimension and device; any
// other call goes to those. So all refusals, and the choice of a kernel, are in Python. native.py builds and loads this file.

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/cuda/EmptyTensor.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <dlfcn.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "library.hpp"

namespace {

using at::Tensor;
using Pair = std::tuple<Tensor, Tensor>;
using Triple = std::tuple<Tensor, Tensor, Tensor>;
using Forward = Pair(const Tensor&, const Tensor&, const Tensor&, bool, double, std::string_view,
                     std::string_view);
using Backward = Triple(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                        const Tensor&, bool, double, std::string_view);

template <class Signature>
c10::TypedOperatorHandle<Signature> operator_named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

/// A contiguous tensor on the device of another one. at::empty() would be dispatched first, which takes the host longer.
Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype, const Tensor& like) {
  return at::detail::empty_cuda(sizes, dtype, like.device(), std::nullopt);
}

// --- kernels ----------------------------------------------------------------------------------------

struct Hash {
  std::size_t operator()(const std::string& bytes) const { return std::hash<std::string>()(bytes); }
};

/// A variant of a chapter's library. It remembers what it has bound to which tensors: a training uses the same addresses
/// in every step.
class Kernel {
 public:
  Kernel(const std::string& path, std::string variant) : variant_(std::move(variant)) {
    void* const library = dlopen(path.c_str(), RTLD_NOW);
    TORCH_CHECK(library, path, " cannot be loaded: ", dlerror());
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
      TORCH_CHECK(function, path, " has no ", name);
    };
    find(workspace_bytes_, "fa_workspace_bytes");
    find(bind_, "fa_bind");
    find(launch_, "fa_launch");
    find(release_, "fa_release");
    find(error_, "fa_error");
  }

  ~Kernel() { forget(); }

  /// Enqueues the kernel on the current stream. False if it refuses.
  bool run(FaAttention given, const Tensor& like) {
    const std::scoped_lock lock(mutex_);
    Tensor workspace;
    const std::int64_t bytes = workspace_bytes(given);
    if (bytes > 0) {
      workspace = empty({bytes}, at::kByte, like);
      given.workspace = workspace.data_ptr();
    }
    void* const bound = bytes < 0 ? nullptr : bound_to(given);
    if (!bound) return false;
    const auto stream = c10::cuda::getCurrentCUDAStream(like.get_device()).stream();
    TORCH_CHECK(launch_(bound, stream), variant_, ": ", error_());
    return true;
  }

 private:
  static constexpr std::size_t kMost = 4096;  // entries of each memory

  std::int64_t workspace_bytes(const FaAttention& given) {
    const std::array<std::int64_t, 6> sizes = {given.batch, given.heads, given.kv_heads,
                                               given.seq_q, given.seq_k, given.causal};
    if (const auto found = bytes_.find(sizes); found != bytes_.end()) return found->second;
    const std::int64_t bytes = workspace_bytes_(variant_.c_str(), &given);
    if (bytes < 0) return bytes;
    if (bytes_.size() >= kMost) bytes_.clear();
    return bytes_[sizes] = bytes;
  }

  void* bound_to(const FaAttention& given) {
    const std::string key(reinterpret_cast<const char*>(&given), sizeof(given));
    if (const auto found = bound_.find(key); found != bound_.end()) return found->second;
    void* const bound = bind_(variant_.c_str(), &given);
    if (!bound) return bound;
    if (bound_.size() >= kMost) forget();
    return bound_[key] = bound;
  }

  void forget() {
    for (const auto& [key, bound] : bound_) release_(bound);
    bound_.clear();
  }

  std::string variant_;
  decltype(&fa_workspace_bytes) workspace_bytes_ = nullptr;
  decltype(&fa_bind) bind_ = nullptr;
  decltype(&fa_launch) launch_ = nullptr;
  decltype(&fa_release) release_ = nullptr;
  decltype(&fa_error) error_ = nullptr;
  std::mutex mutex_;
  std::map<std::array<std::int64_t, 6>, std::int64_t> bytes_;
  std::unordered_map<std::string, void*, Hash> bound_;
};

/// What a kernel has been chosen for: a pass, the name that use() was given, an element type, a head dimension, a device,
/// whether only deterministic kernels are wanted, and whether all tensors are contiguous.
using Choice = std::tuple<bool, std::string, at::ScalarType, std::int64_t, int, bool, bool>;

std::mutex choices_mutex;
std::map<Choice, std::shared_ptr<Kernel>> choices;

Choice choice(bool backward, std::string_view chosen, const Tensor& q, bool dense) {
  return {backward,  std::string(chosen), q.scalar_type(),
          q.size(3), q.get_device(),      at::globalContext().deterministicAlgorithms(),
          dense};
}

std::shared_ptr<Kernel> kernel_for(const Choice& wanted) {
  const std::scoped_lock lock(choices_mutex);
  const auto found = choices.find(wanted);
  return found == choices.end() ? nullptr : found->second;
}

void remember(const Tensor& like, std::string_view chosen, bool backward, bool dense, std::string_view path,
              std::string_view variant) {
  auto kernel = std::make_shared<Kernel>(std::string(path), std::string(variant));
  const std::scoped_lock lock(choices_mutex);
  choices.insert_or_assign(choice(backward, chosen, like, dense), std::move(kernel));
}

void forget() {
  const std::scoped_lock lock(choices_mutex);
  choices.clear();
}

// --- tensors ----------------------------------------------------------------------------------------

constexpr std::int64_t kAlignment = 16;  // bytes, of rows

/// Whether kernels can read the tensor where it is, beside a query.
bool is_readable(const Tensor& x, const Tensor& q) {
  if (x.layout() != at::kStrided || x.dim() != 4 || x.numel() == 0) return false;
  if (x.scalar_type() != q.scalar_type() || x.device() != q.device()) return false;
  if (reinterpret_cast<std::uintptr_t>(x.data_ptr()) % kAlignment != 0) return false;
  if (x.size(3) > 1 && x.stride(3) != 1) return false;
  for (int axis = 0; axis < 3; ++axis) {
    const std::int64_t bytes = x.stride(axis) * std::int64_t(x.element_size());
    if (x.size(axis) > 1 && (bytes == 0 || bytes % kAlignment != 0)) return false;
  }
  return true;
}

/// Whether these are the tensors of one attention. Anything else is refused in Python.
bool is_problem(const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
  return is_readable(q, q) && is_readable(k, q) && is_readable(v, q) && k.sizes() == v.sizes() &&
         q.size(0) == k.size(0) && q.size(3) == k.size(3) && q.size(1) % k.size(1) == 0 &&
         std::isfinite(scale) && scale > 0;
}

bool is_dense(const Tensor& q, const Tensor& k, const Tensor& v) {
  return q.is_contiguous() && k.is_contiguous() && v.is_contiguous();
}

/// Whether its strides are those of a new tensor. Those of an axis of length 1 may be others, although it is contiguous.
bool has_default_strides(const Tensor& x) {
  std::int64_t expected = 1;
  for (std::int64_t axis = 3; axis >= 0; --axis) {
    if (x.stride(axis) != expected) return false;
    expected *= x.size(axis);
  }
  return true;
}

FaStrides strides_of(const Tensor& x) { return {x.stride(0), x.stride(1), x.stride(2)}; }

/// The inputs of both passes.
FaAttention problem_of(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, double scale) {
  FaAttention given;
  std::memset(&given, 0, sizeof(given));  // its bytes are a key
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
  return given;
}

// --- the operators ----------------------------------------------------------------------------------

Pair attention_in_python(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, double scale,
                         std::string_view forward, std::string_view backward) {
  static const auto slow = operator_named<Forward>("fa_tutorial::attention");
  return slow.call(q, k, v, causal, scale, forward, backward);
}

Triple backward_in_python(const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& o, const Tensor& lse, bool causal, double scale,
                          std::string_view backward) {
  static const auto slow = operator_named<Backward>("fa_tutorial::attention_backward");
  return slow.call(d_o, q, k, v, o, lse, causal, scale, backward);
}

Pair attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, double scale,
               std::string_view forward, std::string_view backward) {
  std::shared_ptr<Kernel> kernel;
  if (is_problem(q, k, v, scale)) kernel = kernel_for(choice(false, forward, q, is_dense(q, k, v)));
  const auto in_python = [&] { return attention_in_python(q, k, v, causal, scale, forward, backward); };
  if (!kernel) return in_python();
  const c10::cuda::CUDAGuard device(q.device());
  Tensor o = has_default_strides(q) ? empty(q.sizes(), q.scalar_type(), q) : at::empty_like(q);
  Tensor lse = empty(q.sizes().slice(0, 3), at::kFloat, q);
  FaAttention given = problem_of(q, k, v, causal, scale);
  given.o = o.data_ptr();
  given.lse = lse.data_ptr();
  given.o_strides = strides_of(o);
  if (!kernel->run(given, q)) return in_python();
  return {std::move(o), std::move(lse)};
}

Triple attention_backward(const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& o, const Tensor& lse, bool causal, double scale,
                          std::string_view backward) {
  const bool dense = is_dense(q, k, v);
  std::shared_ptr<Kernel> kernel;
  if (is_problem(q, k, v, scale) && is_readable(o, q) && o.sizes() == q.sizes() && d_o.sizes() == q.sizes() &&
      d_o.scalar_type() == q.scalar_type() && d_o.device() == q.device() && lse.is_contiguous() &&
      lse.scalar_type() == at::kFloat && lse.sizes() == q.sizes().slice(0, 3)) {
    if (!dense || o.is_contiguous()) kernel = kernel_for(choice(true, backward, q, dense));
  }
  const auto in_python = [&] { return backward_in_python(d_o, q, k, v, o, lse, causal, scale, backward); };
  if (!kernel) return in_python();
  const c10::cuda::CUDAGuard device(q.device());
  Tensor of_o = d_o;  // PyTorch makes gradients with any strides, and these are copied if they must be
  if (!is_readable(d_o, q) || d_o.strides() != o.strides()) of_o = at::empty_like(o).copy_(d_o);
  Tensor dq = at::empty_like(q), dk = at::empty_like(k), dv = at::empty_like(v);
  FaAttention given = problem_of(q, k, v, causal, scale);
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
  if (!kernel->run(given, q)) return in_python();
  return {std::move(dq), std::move(dk), std::move(dv)};
}

// --- autograd ---------------------------------------------------------------------------------------

class Attention : public torch::autograd::Function<Attention> {
 public:
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* ctx, const Tensor& q,
                                                const Tensor& k, const Tensor& v, bool causal, double scale,
                                                std::string forward, std::string backward) {
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto native = operator_named<Forward>("fa_tutorial::attention_native");
    auto [o, lse] = native.call(q, k, v, causal, scale, forward, backward);
    ctx->save_for_backward({q, k, v, o, lse});
    ctx->saved_data["options"] = std::make_tuple(causal, scale, std::move(backward));
    ctx->mark_non_differentiable({lse});
    ctx->set_materialize_grads(false);
    return {o, lse};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list gradients) {
    const Tensor none;
    if (!gradients[0].defined()) return {none, none, none, none, none, none, none};
    const auto saved = ctx->get_saved_variables();
    const auto [causal, scale, backward] =
        ctx->saved_data["options"].to<std::tuple<bool, double, std::string>>();
    static const auto native = operator_named<Backward>("fa_tutorial::attention_backward_native");
    auto [dq, dk, dv] =
        native.call(gradients[0], saved[0], saved[1], saved[2], saved[3], saved[4], causal, scale, backward);
    return {dq, dk, dv, none, none, none, none};
  }
};

bool needs_gradient(std::initializer_list<std::reference_wrapper<const Tensor>> tensors) {
  if (!at::GradMode::is_enabled()) return false;
  for (const Tensor& x : tensors) {
    if (x.requires_grad()) return true;
  }
  return false;
}

Pair attention_autograd(c10::DispatchKeySet keys, const Tensor& q, const Tensor& k, const Tensor& v,
                        bool causal, double scale, std::string_view forward, std::string_view backward) {
  if (!needs_gradient({q, k, v})) {
    static const auto native = operator_named<Forward>("fa_tutorial::attention_native");
    return native.redispatch(keys & c10::after_autograd_keyset, q, k, v, causal, scale, forward, backward);
  }
  // Python also says where there is no backward pass.
  const bool known = q.dim() == 4 && q.layout() == at::kStrided && k.layout() == at::kStrided &&
                     v.layout() == at::kStrided && !q.unsafeGetTensorImpl()->has_symbolic_sizes_strides() &&
                     kernel_for(choice(true, backward, q, is_dense(q, k, v)));
  if (!known) return attention_in_python(q, k, v, causal, scale, forward, backward);
  const auto results = Attention::apply(q, k, v, causal, scale, std::string(forward), std::string(backward));
  return {results[0], results[1]};
}

Triple backward_autograd(c10::DispatchKeySet keys, const Tensor& d_o, const Tensor& q, const Tensor& k,
                         const Tensor& v, const Tensor& o, const Tensor& lse, bool causal, double scale,
                         std::string_view backward) {
  if (needs_gradient({d_o, q, k, v, o, lse}))  // Python refuses the second derivative
    return backward_in_python(d_o, q, k, v, o, lse, causal, scale, backward);
  static const auto native = operator_named<Backward>("fa_tutorial::attention_backward_native");
  return native.redispatch(keys & c10::after_autograd_keyset, d_o, q, k, v, o, lse, causal, scale, backward);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(fa_tutorial, m) {
  m.def(
      "attention_native(Tensor q, Tensor k, Tensor v, bool is_causal, float scale, str forward, str backward)"
      " -> (Tensor, Tensor)");
  m.def(
      "attention_backward_native(Tensor do, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, bool "
      "is_causal,"
      " float scale, str backward) -> (Tensor, Tensor, Tensor)");
  m.def("remember(Tensor like, str chosen, bool backward, bool dense, str path, str variant) -> ()");
  m.def("forget() -> ()", forget);
}

TORCH_LIBRARY_IMPL(fa_tutorial, CUDA, m) {
  m.impl("attention_native", attention);
  m.impl("attention_backward_native", attention_backward);
  m.impl("remember", remember);
}

// Sparse tensors, for example, which Python refuses.
TORCH_LIBRARY_IMPL(fa_tutorial, CompositeExplicitAutograd, m) {
  m.impl("attention_native", attention_in_python);
  m.impl("attention_backward_native", backward_in_python);
}

TORCH_LIBRARY_IMPL(fa_tutorial, AutogradCUDA, m) {
  m.impl("attention_native", attention_autograd);
  m.impl("attention_backward_native", backward_autograd);
  m.impl("remember", torch::CppFunction::makeFallthrough());
}
