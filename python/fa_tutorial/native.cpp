// The operators once more, in C++, so that a call costs the host little more than the launch. They run a
// kernel that the operators in Python (operators.py) have run before, with the same choice, element type,
// head dimension and device; any other call goes to those. So all refusals, and the choice of a kernel, are
// in Python. Eager calls come through at_once(), which also does without the dispatcher. build_native.py
// compiles this file, and native.py loads it.

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_like.h>
#include <ATen/record_function.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/intrusive_ptr.h>
#include <dlfcn.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>

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

// --- memory of the current device -------------------------------------------------------------------

constexpr c10::DispatchKeySet kCuda(c10::DispatchKey::CUDA);

c10::Allocator* allocator() { return c10::cuda::CUDACachingAllocator::get(); }

/// A tensor that is laid out like another one. at::empty_like() is dispatched first, which takes the host
/// longer.
Tensor new_like(const Tensor& x) {
  if (!x.is_non_overlapping_and_dense()) return at::empty_like(x);
  return Tensor(
      at::detail::empty_strided_generic(x.sizes(), x.strides(), allocator(), kCuda, x.scalar_type()));
}

/// A number in fp32 for each row of Q.
Tensor empty_lse(const Tensor& q) {
  const auto rows = q.sizes().slice(0, 3);
  return Tensor(at::detail::empty_generic(rows, allocator(), kCuda, at::kFloat, std::nullopt));
}

// --- kernels ----------------------------------------------------------------------------------------

/// Compares and hashes problems.
struct ByBytes {
  static std::string_view bytes(const FaAttention& given) {
    return {reinterpret_cast<const char*>(&given), sizeof(given)};
  }
  std::size_t operator()(const FaAttention& given) const {
    return std::hash<std::string_view>()(bytes(given));
  }
  bool operator()(const FaAttention& a, const FaAttention& b) const { return bytes(a) == bytes(b); }
};

/// A variant of a chapter's library. It remembers what it has bound to which tensors: a training uses the
/// same addresses in every step.
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

  /// Enqueues the kernel on the current stream of the current device. False if it refuses. An LSE without an
  /// address is written to memory that is freed at once.
  bool run(FaAttention given, c10::DeviceIndex device) {
    const std::scoped_lock lock(mutex_);
    const std::int64_t bytes = workspace_bytes(given);
    if (bytes < 0) return false;
    const std::int64_t of_lse = given.lse ? 0 : aligned(4 * given.batch * given.heads * given.seq_q);
    c10::DataPtr memory;
    if (of_lse + bytes > 0) memory = allocator()->allocate(of_lse + bytes);
    if (of_lse > 0) given.lse = memory.get();
    if (bytes > 0) given.workspace = static_cast<std::byte*>(memory.get()) + of_lse;
    void* const bound = bound_to(given);
    if (!bound) return false;
    const auto stream = c10::cuda::getCurrentCUDAStream(device).stream();
    TORCH_CHECK(launch_(bound, stream), variant_, ": ", error_());
    return true;
  }

 private:
  static constexpr std::size_t kMost = 4096;  // entries of each memory

  /// The workspace begins at a multiple of 256 bytes, as all that the allocator returns.
  static std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

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
    if (const auto found = bound_.find(given); found != bound_.end()) return found->second;
    void* const bound = bind_(variant_.c_str(), &given);
    if (!bound) return bound;
    if (bound_.size() >= kMost) forget();
    return bound_[given] = bound;
  }

  void forget() {
    for (const auto& [given, bound] : bound_) release_(bound);
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
  std::unordered_map<FaAttention, void*, ByBytes, ByBytes> bound_;
};

/// What a kernel has been chosen for: a pass, the name that use() was given, an element type, a head
/// dimension, a device, whether only deterministic kernels are wanted, and whether all tensors are
/// contiguous.
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
    if (x.size(axis) > 1 && bytes % kAlignment != 0) return false;
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

/// O, and LSE if it is wanted. Both are undefined where the operator in Python has to run.
Pair forward_pass(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, double scale,
                  std::string_view forward, bool wants_lse) {
  std::shared_ptr<Kernel> kernel;
  if (is_problem(q, k, v, scale)) kernel = kernel_for(choice(false, forward, q, is_dense(q, k, v)));
  if (!kernel) return {};
  const c10::cuda::CUDAGuard device(q.device());
  Tensor o = new_like(q), lse;
  FaAttention given = problem_of(q, k, v, causal, scale);
  given.o = o.data_ptr();
  given.o_strides = strides_of(o);
  if (wants_lse) {
    lse = empty_lse(q);
    given.lse = lse.data_ptr();
  }
  if (!kernel->run(given, q.get_device())) return {};
  return {std::move(o), std::move(lse)};
}

Pair attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, double scale,
               std::string_view forward, std::string_view backward) {
  Pair results = forward_pass(q, k, v, causal, scale, forward, true);
  if (std::get<0>(results).defined()) return results;
  return attention_in_python(q, k, v, causal, scale, forward, backward);
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
  if (!is_readable(d_o, q) || d_o.strides() != o.strides()) of_o = new_like(o).copy_(d_o);
  Tensor dq = new_like(q), dk = new_like(k), dv = new_like(v);
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
  if (!kernel->run(given, q.get_device())) return in_python();
  return {std::move(dq), std::move(dk), std::move(dv)};
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

void set_gradient(const Pair& results, const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                  double scale, std::string_view backward) {
  const auto node = new_node<AttentionBackward>(q, k, v, causal, scale, backward);
  node->set_results(std::get<0>(results), std::get<1>(results));
}

bool needs_gradient(std::initializer_list<std::reference_wrapper<const Tensor>> tensors) {
  if (!at::GradMode::is_enabled()) return false;
  for (const Tensor& x : tensors) {
    if (x.requires_grad()) return true;
  }
  return false;
}

/// Whether one of the tensors is a dual number of a derivative in forward mode, which Python refuses.
bool has_tangent(std::initializer_list<std::reference_wrapper<const Tensor>> tensors) {
  for (const Tensor& x : tensors) {
    if (x._fw_grad(0).defined()) return true;
  }
  return false;
}

/// Whether a backward pass has run for such tensors. Python says where there is none.
bool has_backward(const Tensor& q, const Tensor& k, const Tensor& v, std::string_view backward) {
  for (const Tensor* x : {&q, &k, &v}) {
    if (x->layout() != at::kStrided || x->unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return false;
  }
  return q.dim() == 4 && kernel_for(choice(true, backward, q, is_dense(q, k, v)));
}

Pair attention_autograd(c10::DispatchKeySet keys, const Tensor& q, const Tensor& k, const Tensor& v,
                        bool causal, double scale, std::string_view forward, std::string_view backward) {
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

Triple backward_autograd(c10::DispatchKeySet keys, const Tensor& d_o, const Tensor& q, const Tensor& k,
                         const Tensor& v, const Tensor& o, const Tensor& lse, bool causal, double scale,
                         std::string_view backward) {
  if (has_tangent({d_o, q, k, v, o, lse}) || needs_gradient({d_o, q, k, v, o, lse}))  // Python refuses both
    return backward_in_python(d_o, q, k, v, o, lse, causal, scale, backward);
  static const auto native = operator_named<Backward>("fa_tutorial::attention_backward_native");
  return native.redispatch(keys & c10::after_autograd_keyset, d_o, q, k, v, o, lse, causal, scale, backward);
}

// --- eager calls ------------------------------------------------------------------------------------

/// Whether the dispatcher would do no more than attention_at_once(): no mode, transformation, trace or
/// profiler is to see the call, and autocast has nothing to convert.
bool is_plain(const Tensor& q, const Tensor& k, const Tensor& v) {
  using c10::DispatchKey;
  constexpr c10::DispatchKeySet plain({DispatchKey::CUDA, DispatchKey::AutogradCUDA,
                                       DispatchKey::AutocastCUDA, DispatchKey::ADInplaceOrView,
                                       DispatchKey::BackendSelect});
  const auto local = c10::impl::tls_local_dispatch_key_set();
  const auto keys = (q.key_set() | k.key_set() | v.key_set() | local.included_) - local.excluded_;
  if (!plain.isSupersetOf(keys) || at::impl::torch_function_mode_enabled()) return false;
  if (has_tangent({q, k, v})) return false;
  if (at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION)) return false;
  return !keys.has(DispatchKey::AutocastCUDA) ||
         q.scalar_type() == at::autocast::get_autocast_dtype(at::kCUDA);
}

/// O; undefined where Python has to look at the call.
Tensor attention_at_once(const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                         std::optional<double> scale, bool shares_heads, std::string_view forward,
                         std::string_view backward) {
  if (!is_plain(q, k, v) || q.dim() != 4 || k.dim() != 4) return {};
  if (!shares_heads && q.size(1) != k.size(1)) return {};
  const double factor = scale.value_or(1 / std::sqrt(double(q.size(3))));
  const bool gradient = needs_gradient({q, k, v});
  if (gradient && !has_backward(q, k, v, backward)) return {};
  Pair results = forward_pass(q, k, v, causal, factor, forward, gradient);
  Tensor& o = std::get<0>(results);
  if (gradient && o.defined()) set_gradient(results, q, k, v, causal, factor, backward);
  return std::move(o);
}

std::string_view text_of(PyObject* object) {
  Py_ssize_t length = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(object, &length);
  if (!text) throw python_error();
  return {text, std::size_t(length)};
}

/// at_once(query, key, value, is_causal, scale, enable_gqa, forward, backward) returns O, or None where
/// Python has to look at the call.
PyObject* at_once(PyObject*, PyObject* const* given, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(count == 8, "at_once() takes 8 arguments");
  for (int which : {0, 1, 2}) {
    if (!THPVariable_CheckExact(given[which])) Py_RETURN_NONE;
  }
  PyObject* const scale = given[4];
  if (!PyBool_Check(given[3]) || !PyBool_Check(given[5])) Py_RETURN_NONE;
  if (scale != Py_None && !PyFloat_Check(scale)) Py_RETURN_NONE;
  const auto factor = scale == Py_None ? std::nullopt : std::optional(PyFloat_AS_DOUBLE(scale));
  const auto tensor = [&](int which) -> Tensor { return THPVariable_Unpack(given[which]); };
  const Tensor q = tensor(0), k = tensor(1), v = tensor(2);
  const std::string_view forward = text_of(given[6]), backward = text_of(given[7]);
  Tensor o;
  {
    const pybind11::gil_scoped_release others_run;
    o = attention_at_once(q, k, v, given[3] == Py_True, factor, given[5] == Py_True, forward, backward);
  }
  if (!o.defined()) Py_RETURN_NONE;
  return THPVariable_Wrap(std::move(o));
  END_HANDLE_TH_ERRORS
}

}  // namespace

PyMODINIT_FUNC PyInit_fa_operators() {
  static PyMethodDef methods[] = {
      {"at_once", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(at_once)), METH_FASTCALL,
       nullptr},
      {}};
  static PyModuleDef module = {PyModuleDef_HEAD_INIT, "fa_operators", nullptr, -1, methods};
  return PyModule_Create(&module);
}

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
