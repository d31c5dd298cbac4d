// The operators once more, in C++, so that a call costs the host little more than the launch. They run a
// kernel that the operators in Python have run before, with the same choice, element type, head dimension and
// device; any other call goes to those. So all refusals, and the choice of a kernel, are in Python. Eager
// calls come through functions that do without the dispatcher: attention_at_once(), masked_at_once() and
// decode_at_once(). build_native.py compiles this file, and native.py loads it.
#include <c10/core/InferenceMode.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "cpp/attention.hpp"
#include "cpp/decoding.hpp"
#include "cpp/masked.hpp"

namespace fa_operators {

/// Arguments from Python. One of another type than it must have makes are_right false, and Python looks at
/// the call.
class Arguments {
 public:
  Arguments(PyObject* const* given, Py_ssize_t count, Py_ssize_t wanted) : given_(given) {
    TORCH_CHECK_TYPE(count == wanted, "takes ", wanted, " arguments");
  }

  bool are_right = true;

  Tensor tensor(int which) {
    if (!THPVariable_CheckExact(given_[which])) return wrong(Tensor());
    return THPVariable_Unpack(given_[which]);
  }
  Tensor optional_tensor(int which) { return is_none(which) ? Tensor() : tensor(which); }

  bool boolean(int which) { return PyBool_Check(given_[which]) ? given_[which] == Py_True : wrong(false); }

  /// At least `least`; 0 for None.
  std::int64_t integer(int which, std::int64_t least) {
    if (is_none(which)) return 0;
    if (!PyLong_CheckExact(given_[which])) return wrong(0);
    const long long number = PyLong_AsLongLong(given_[which]);
    if (number == -1 && PyErr_Occurred()) PyErr_Clear();
    return number < least ? wrong(0) : number;
  }

  double number(int which) {
    return PyFloat_Check(given_[which]) ? PyFloat_AS_DOUBLE(given_[which]) : wrong(0.0);
  }

  /// A finite number that is not negative; 0 for None.
  double amount(int which) {
    const double found = is_none(which) ? 0.0 : number(which);
    return std::isfinite(found) && found >= 0 ? found : wrong(0.0);
  }

  std::optional<double> scale(int which) {
    return is_none(which) ? std::nullopt : std::optional(number(which));
  }

  std::string_view text(int which) {
    Py_ssize_t length = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(given_[which], &length);
    if (!text) throw python_error();
    return {text, std::size_t(length)};
  }

 private:
  bool is_none(int which) const { return given_[which] == Py_None; }

  template <class T>
  T wrong(T value) {
    are_right = false;
    return value;
  }

  PyObject* const* given_;
};

double scale_of(std::optional<double> scale, const Tensor& q) {
  return scale.value_or(q.dim() == 4 ? 1 / std::sqrt(double(q.size(3))) : 0.0);
}

/// O, or O and LSE; None for undefined ones.
PyObject* wrapped(std::tuple<Tensor, Tensor> results, bool both) {
  auto& [o, lse] = results;
  if (!o.defined()) Py_RETURN_NONE;
  if (!both) return THPVariable_Wrap(std::move(o));
  if (!lse.defined()) return Py_BuildValue("(NO)", THPVariable_Wrap(std::move(o)), Py_None);
  return Py_BuildValue("(NN)", THPVariable_Wrap(std::move(o)), THPVariable_Wrap(std::move(lse)));
}

/// attention_at_once(query, key, value, is_causal, scale, enable_gqa, forward, backward) returns O, or None
/// where Python has to look at the call.
PyObject* python_attention_at_once(PyObject*, PyObject* const* given, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  Arguments from(given, count, 8);
  const Tensor q = from.tensor(0), k = from.tensor(1), v = from.tensor(2);
  const bool causal = from.boolean(3), shares_heads = from.boolean(5);
  const auto scale = from.scale(4);
  const std::string_view forward = from.text(6), backward = from.text(7);
  if (!from.are_right) Py_RETURN_NONE;
  Tensor o;
  {
    const pybind11::gil_scoped_release others_run;
    o = attention_at_once(q, k, v, causal, scale, shares_heads, forward, backward);
  }
  return wrapped({std::move(o), Tensor()}, false);
  END_HANDLE_TH_ERRORS
}

/// attention_with_masks_at_once(query, key, value, is_causal, scale, window, documents, key_lengths,
/// block_mask, softcap, alibi_slopes, sinks, dropout_p, deterministic, return_lse, forward, backward, packed)
/// has the arguments of functions.py's attention(), of which Python has checked the numbers in documents and
/// key_lengths. If `packed`, tensors are [tokens, heads, head_dim], those of attention_varlen(). It returns
/// O, or O and LSE, or None where Python has to look at the call.
PyObject* python_attention_with_masks_at_once(PyObject*, PyObject* const* given, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  Arguments from(given, count, 18);
  MaskedCall call = {.q = from.tensor(0), .k = from.tensor(1), .v = from.tensor(2)};
  call.causal = from.boolean(3);
  const auto scale = from.scale(4);
  call.masks.window = from.integer(5, 1);
  call.masks.tensors[Masks::kDocuments] = from.optional_tensor(6);
  call.masks.tensors[Masks::kKeyLengths] = from.optional_tensor(7);
  call.masks.tensors[Masks::kBlockMask] = from.optional_tensor(8);
  call.masks.softcap = from.amount(9);
  call.masks.tensors[Masks::kAlibiSlopes] = from.optional_tensor(10);
  call.masks.tensors[Masks::kSinks] = from.optional_tensor(11);
  call.masks.dropout_p = from.amount(12);
  call.deterministic = from.boolean(13) || at::globalContext().deterministicAlgorithms();
  const bool wants_lse = from.boolean(14);
  const std::string_view forward = from.text(15), backward = from.text(16);
  const bool packed = from.boolean(17);
  if (!from.are_right) Py_RETURN_NONE;
  std::tuple<Tensor, Tensor> results;
  {
    const pybind11::gil_scoped_release others_run;
    if (packed) {
      for (Tensor* x : {&call.q, &call.k, &call.v}) *x = x->transpose(0, 1).unsqueeze(0);
    }
    if (call.masks.hide_something()) {
      call.scale = scale_of(scale, call.q);
      const bool refused = wants_lse && needs_gradient({call.q, call.k, call.v});
      if (!refused && complete(call)) results = masked_at_once(std::move(call), wants_lse, true);
    } else if (!wants_lse && !call.deterministic) {
      std::get<0>(results) =
          attention_at_once(call.q, call.k, call.v, call.causal, scale, true, forward, backward);
    }
    auto& [o, lse] = results;
    if (packed && o.defined()) o = o.select(0, 0).transpose(0, 1);
    if (packed && lse.defined()) lse = lse.select(0, 0);
  }
  return wrapped(std::move(results), wants_lse);
  END_HANDLE_TH_ERRORS
}

/// masked_at_once(q, k, v, ...) has the arguments of the operator masked_attention and returns O and LSE, or
/// None where the operator has to run. LSE is None where nothing needs it.
PyObject* python_masked_at_once(PyObject*, PyObject* const* given, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  Arguments from(given, count, 18);
  MaskedCall call = {.q = from.tensor(0), .k = from.tensor(1), .v = from.tensor(2)};
  for (int which = 0; which < Masks::kTensors; ++which)
    call.masks.tensors[which] = from.optional_tensor(3 + which);
  const Tensor seed = from.optional_tensor(9);
  if (seed.defined()) call.masks.seed = std::uint64_t(*seed.const_data_ptr<std::int64_t>());
  call.masks.block_size = from.integer(10, 0);
  call.masks.window = from.integer(11, 0);
  call.masks.softcap = from.amount(12);
  call.masks.dropout_p = from.amount(13);
  call.causal = from.boolean(14);
  call.scale = from.number(15);
  call.deterministic = from.boolean(16);
  const bool wants_lse = from.boolean(17);
  if (!from.are_right || !call.masks.hide_something()) Py_RETURN_NONE;
  std::tuple<Tensor, Tensor> results;
  {
    const pybind11::gil_scoped_release others_run;
    results = masked_at_once(std::move(call), wants_lse, false);
  }
  return wrapped(std::move(results), true);
  END_HANDLE_TH_ERRORS
}

/// decode_at_once(query, k_cache, v_cache, lengths, block_table, scale, k_scale, v_scale, splits) has the
/// arguments of decoding.py's decode(), of which Python has checked the numbers in lengths and block_table.
/// It returns O and LSE, or None where Python has to look at the call.
PyObject* python_decode_at_once(PyObject*, PyObject* const* given, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  Arguments from(given, count, 9);
  DecodeCall call = {.q = from.tensor(0), .k = from.tensor(1), .v = from.tensor(2)};
  call.lengths = from.optional_tensor(3);
  call.block_table = from.optional_tensor(4);
  call.k_scale = from.optional_tensor(6);
  call.v_scale = from.optional_tensor(7);
  call.splits = from.integer(8, 0);
  const auto scale = from.scale(5);
  if (!from.are_right) Py_RETURN_NONE;
  call.scale = scale_of(scale, call.q);
  std::tuple<Tensor, Tensor> results;
  {
    const pybind11::gil_scoped_release others_run;
    results = decode_at_once(call);
  }
  return wrapped(std::move(results), true);
  END_HANDLE_TH_ERRORS
}

template <auto function>
PyMethodDef method(const char* name) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function)), METH_FASTCALL,
          nullptr};
}

}  // namespace fa_operators

PyMODINIT_FUNC PyInit_fa_operators() {
  using namespace fa_operators;
  static PyMethodDef methods[] = {method<python_attention_at_once>("attention_at_once"),
                                  method<python_attention_with_masks_at_once>("attention_with_masks_at_once"),
                                  method<python_masked_at_once>("masked_at_once"),
                                  method<python_decode_at_once>("decode_at_once"),
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
  m.def("forget() -> ()", fa_operators::forget);
}

TORCH_LIBRARY_IMPL(fa_tutorial, CUDA, m) {
  m.impl("attention_native", fa_operators::attention);
  m.impl("attention_backward_native", fa_operators::attention_backward);
  m.impl("remember", fa_operators::remember);
}

// Sparse tensors, for example, which Python refuses.
TORCH_LIBRARY_IMPL(fa_tutorial, CompositeExplicitAutograd, m) {
  m.impl("attention_native", fa_operators::attention_in_python);
  m.impl("attention_backward_native", fa_operators::backward_in_python);
}

TORCH_LIBRARY_IMPL(fa_tutorial, AutogradCUDA, m) {
  m.impl("attention_native", fa_operators::attention_autograd);
  m.impl("attention_backward_native", fa_operators::backward_autograd);
  m.impl("remember", torch::CppFunction::makeFallthrough());
}
