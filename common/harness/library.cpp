/// @file
/// A chapter as a shared library, so that another program can launch its kernels on its own memory: from Python, as
/// operators of PyTorch, or to time them and PyTorch's kernels in one process on the same tensors. The caller is
/// python/fa_tutorial/chapter_library.py.
///
/// Nothing throws. A function that fails returns null, false or -1, and fa_error() returns the reason.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "attention/attention_backward.hpp"
#include "attention/attention_forward.hpp"
#include "attention/tensor.hpp"
#include "device/launch.cuh"
#include "harness/chapter.hpp"
#include "harness/device_buffer.hpp"
#include "harness/program.hpp"
#include "harness/runner.hpp"

extern "C" {

/// The parameters, which ctypes fills in. Addresses are those of device memory.
struct FaAttention {
  std::int64_t batch, heads, kv_heads, seq_q, seq_k, head_dim;
  std::int32_t dtype;  ///< the number of fa::DType: 0 fp32, 1 fp16, 2 bf16
  std::int32_t causal;
  double scale;
  void *q, *k, *v;
  void *o, *lse;  ///< outputs of a forward pass; inputs of a backward pass, or null: it computes them itself
  void *d_o, *dq, *dk, *dv;  ///< of a backward pass, or null
  void* workspace;           ///< fa_workspace_bytes(), aligned to 256; null: the library allocates it
};

}  // extern "C"

namespace {

/// Changes with struct FaAttention and with the meaning of a function. The caller has the same number.
constexpr int kInterface = 2;

/// A variant and its tensors.
struct Bound {
  fa::AnyChapter chapter;
  std::vector<fa::DeviceBuffer> workspace;
  std::function<void(cudaStream_t)> launch;
};

thread_local std::string last_error;

/// The result of `attempt`, or the value that means failure.
template <class Attempt>
auto guarded(Attempt attempt, decltype(attempt()) failed) noexcept {
  try {
    return attempt();
  } catch (const std::exception& error) {
    last_error = error.what();
    return failed;
  }
}

fa::AttentionShape shape_of(const FaAttention& given) {
  return {.batch = given.batch,
          .heads = given.heads,
          .kv_heads = given.kv_heads,
          .seq_q = given.seq_q,
          .seq_k = given.seq_k,
          .head_dim = given.head_dim,
          .causal = given.causal != 0,
          .scale = given.scale,
          .dtype = fa::DType(given.dtype)};
}

/// The tensors that the caller has, by name.
std::map<std::string, void*> tensors_of(const FaAttention& given) {
  std::map<std::string, void*> tensors = {{"q", given.q},   {"k", given.k},     {"v", given.v},
                                          {"o", given.o},   {"lse", given.lse}, {"do", given.d_o},
                                          {"dq", given.dq}, {"dk", given.dk},   {"dv", given.dv}};
  std::erase_if(tensors, [](const auto& tensor) { return tensor.second == nullptr; });
  return tensors;
}

/// @throws std::invalid_argument  if the chapter has no such variant, or if it refuses the shape
template <fa::Problem P>
const fa::Variant<P>& variant_for(const fa::AnyChapter& chapter, const std::string& name,
                                  const fa::AttentionShape& shape) {
  for (const auto& variant : fa::chapter_of<P>(chapter).variants) {
    if (variant.name != name) continue;
    if (const auto reason = P::refuse(shape)) throw std::invalid_argument(*reason);
    if (const auto reason = fa::why_refused<P>(variant, shape)) throw std::invalid_argument(*reason);
    return variant;
  }
  throw std::invalid_argument("no variant " + name);
}

/// The tensors of a variant's workspace that the caller does not have: O and LSE may be its own.
template <fa::Problem P>
std::vector<fa::TensorSpec> missing_workspace(const fa::Variant<P>& variant, const fa::AttentionShape& shape,
                                              const std::map<std::string, void*>& given) {
  std::vector<fa::TensorSpec> specs = fa::workspace_of(variant, shape);
  std::erase_if(specs, [&](const fa::TensorSpec& spec) { return given.contains(spec.name); });
  return specs;
}

constexpr std::size_t kAlignment = 256;  // that of cudaMalloc

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

template <fa::Problem P>
std::int64_t workspace_bytes(const std::string& name, const FaAttention& given) {
  const fa::AnyChapter chapter = fa::describe_chapter();
  const fa::AttentionShape shape = shape_of(given);
  const fa::Variant<P>& variant = variant_for<P>(chapter, name, shape);
  std::size_t bytes = 0;
  for (const auto& spec : missing_workspace(variant, shape, tensors_of(given)))
    bytes += aligned(spec.bytes());
  return std::int64_t(bytes);
}

template <fa::Problem P>
std::unique_ptr<Bound> bind_to(const std::string& name, const FaAttention& given) {
  auto bound = std::make_unique<Bound>(Bound{.chapter = fa::describe_chapter()});
  const fa::AttentionShape shape = shape_of(given);
  const fa::Variant<P>& variant = variant_for<P>(bound->chapter, name, shape);
  std::map<std::string, void*> buffers = tensors_of(given);
  const bool forward_is_done = buffers.contains("o") && buffers.contains("lse");
  auto* free = static_cast<std::byte*>(given.workspace);
  for (const fa::TensorSpec& spec : missing_workspace(variant, shape, buffers)) {
    if (free) {
      buffers[spec.name] = free;
      free += aligned(spec.bytes());
    } else {
      bound->workspace.emplace_back(spec.name, spec.bytes());
      buffers[spec.name] = bound->workspace.back().get();
    }
  }
  const typename P::Args args = P::bind(shape, buffers);
  if (variant.before && !forward_is_done) {
    variant.before(args, nullptr);
    FA_CUDA_CHECK(cudaDeviceSynchronize());
  }
  bound->launch = [&variant, args](cudaStream_t stream) { variant.launch(args, stream); };
  return bound;
}

/// Calls f with the problem of the chapter as a type in std::type_identity.
template <class F>
auto with_problem(F f) {
  return fa::is_about<fa::AttentionBackward>(fa::describe_chapter())
             ? f(std::type_identity<fa::AttentionBackward>())
             : f(std::type_identity<fa::AttentionForward>());
}

}  // namespace

extern "C" {

/// The reason why this thread's last call failed.
const char* fa_error() { return last_error.c_str(); }

int fa_interface() { return kInterface; }

/// The version of the CUDA runtime in this library: 13000 for 13.0. -1 if it does not say.
int fa_cuda_version() {
  int version = 0;
  return cudaRuntimeGetVersion(&version) == cudaSuccess ? version : -1;
}

/// The names of the variants, one per line. Null if this fails.
const char* fa_variants() {
  thread_local std::string names;
  return guarded(
      [&]() -> const char* {
        names.clear();
        for (const std::string& name : fa::variant_names(fa::describe_chapter())) names += name + "\n";
        return names.c_str();
      },
      nullptr);
}

/// The bytes that a variant needs in addition to the tensors whose addresses are given. -1 if it refuses; addresses are
/// only compared with null.
std::int64_t fa_workspace_bytes(const char* variant, const FaAttention* given) {
  return guarded(
      [&] {
        return with_problem(
            [&]<class P>(std::type_identity<P>) { return workspace_bytes<P>(variant, *given); });
      },
      std::int64_t(-1));
}

/// Prepares a variant for a problem: allocates its workspace and runs what must come before it, unless the caller has
/// done so. Null if the variant refuses.
void* fa_bind(const char* variant, const FaAttention* given) {
  return guarded(
      [&]() -> void* {
        return with_problem(
            [&]<class P>(std::type_identity<P>) -> void* { return bind_to<P>(variant, *given).release(); });
      },
      nullptr);
}

/// Enqueues the kernels of a variant that fa_bind() returned.
bool fa_launch(void* bound, cudaStream_t stream) {
  return guarded(
      [&] {
        static_cast<Bound*>(bound)->launch(stream);
        return true;
      },
      false);
}

/// Frees what fa_bind() returned. Its launches must have finished, unless the workspace is the caller's.
void fa_release(void* bound) { delete static_cast<Bound*>(bound); }

}  // extern "C"
