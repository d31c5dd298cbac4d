/// @file
/// A chapter as a shared library, so that another program can launch its kernels on its own memory: from Python, to
/// time them and PyTorch's kernels in one process on the same tensors. tools/bench/chapter_library.py is the caller.
///
/// Nothing throws. A function that fails returns null or false, and fa_error() returns the reason.

#include <cuda_runtime.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "attention/attention_backward.hpp"
#include "attention/attention_forward.hpp"
#include "device/launch.cuh"
#include "harness/chapter.hpp"
#include "harness/device_buffer.hpp"
#include "harness/runner.hpp"

namespace {

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

template <fa::Problem P>
const fa::Variant<P>& variant_of(const fa::AnyChapter& chapter, const std::string& name) {
  for (const auto& variant : fa::chapter_of<P>(chapter).variants) {
    if (variant.name == name) return variant;
  }
  throw std::invalid_argument("no variant " + name);
}

/// @param buffers  inputs and outputs, by name
template <fa::Problem P>
std::unique_ptr<Bound> bind_to(const std::string& name, const fa::AttentionShape& shape,
                               std::map<std::string, void*> buffers) {
  auto bound = std::make_unique<Bound>(Bound{.chapter = fa::describe_chapter()});
  const fa::Variant<P>& variant = variant_of<P>(bound->chapter, name);
  if (const auto reason = fa::why_refused<P>(variant, shape)) throw std::invalid_argument(*reason);
  for (const fa::TensorSpec& spec : fa::workspace_of(variant, shape)) {
    bound->workspace.emplace_back(spec.name, spec.bytes());
    buffers[spec.name] = bound->workspace.back().get();
  }
  const typename P::Args args = P::bind(shape, buffers);
  if (variant.before) {
    variant.before(args, nullptr);
    FA_CUDA_CHECK(cudaDeviceSynchronize());
  }
  bound->launch = [&variant, args](cudaStream_t stream) { variant.launch(args, stream); };
  return bound;
}

}  // namespace

extern "C" {

/// The parameters, which ctypes fills in. Addresses are those of device memory.
struct FaAttention {
  std::int64_t batch, heads, kv_heads, seq_q, seq_k, head_dim;
  std::int32_t dtype;  ///< the number of fa::DType: 0 fp32, 1 fp16, 2 bf16
  std::int32_t causal;
  double scale;
  void *q, *k, *v;
  void *o, *lse;             ///< of a forward pass, or null
  void *d_o, *dq, *dk, *dv;  ///< of a backward pass, or null
};

/// The reason why this thread's last call failed.
const char* fa_error() { return last_error.c_str(); }

/// Prepares a variant for a problem: allocates its workspace and runs what must come before it. Null if the variant
/// refuses.
void* fa_bind(const char* variant, const FaAttention* given) {
  return guarded(
      [&]() -> void* {
        const fa::AttentionShape shape{.batch = given->batch,
                                       .heads = given->heads,
                                       .kv_heads = given->kv_heads,
                                       .seq_q = given->seq_q,
                                       .seq_k = given->seq_k,
                                       .head_dim = given->head_dim,
                                       .causal = given->causal != 0,
                                       .scale = given->scale,
                                       .dtype = fa::DType(given->dtype)};
        std::map<std::string, void*> buffers = {{"q", given->q}, {"k", given->k}, {"v", given->v}};
        if (given->d_o == nullptr) {
          buffers.merge(std::map<std::string, void*>{{"o", given->o}, {"lse", given->lse}});
          return bind_to<fa::AttentionForward>(variant, shape, buffers).release();
        }
        buffers.merge(std::map<std::string, void*>{
            {"do", given->d_o}, {"dq", given->dq}, {"dk", given->dk}, {"dv", given->dv}});
        return bind_to<fa::AttentionBackward>(variant, shape, buffers).release();
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

/// Frees what fa_bind() returned. Its launches must have finished.
void fa_release(void* bound) { delete static_cast<Bound*>(bound); }

}  // extern "C"
