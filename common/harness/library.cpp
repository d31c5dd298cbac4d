/// @file
/// A chapter as a shared library, so that another program launches its kernels on its own memory: PyTorch, to time
/// them on the tensors of its own kernels in one process. tools/bench/chapter_library.py is the other side.
///
/// Nothing throws. A function that fails returns null or false, and fa_error() says why.

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

/// A variant and what it is launched on.
struct Bound {
  fa::AnyChapter chapter;
  std::vector<fa::DeviceBuffer> workspace;
  std::function<void(cudaStream_t)> launch;
};

thread_local std::string last_error;

/// The result of `attempt`, or what stands for failure.
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
  if (variant.refuse) {
    if (const auto reason = variant.refuse(shape)) throw std::invalid_argument(*reason);
  }
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

/// What ctypes fills in. Addresses are of device memory.
struct FaAttention {
  std::int64_t batch, heads, kv_heads, seq_q, seq_k, head_dim;
  std::int32_t dtype;  ///< the number of fa::DType: 0 fp32, 1 fp16, 2 bf16
  std::int32_t causal;
  double scale;
  void *q, *k, *v;
  void *o, *lse;             ///< of a forward pass, or null
  void *d_o, *dq, *dk, *dv;  ///< of a backward pass, or null
};

/// Why the last call of this thread failed.
const char* fa_error() { return last_error.c_str(); }

/// A variant made ready for a problem: its workspace is allocated, and what comes before it has run. Null if it
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

/// Enqueues the kernels of fa_bind()'s result.
bool fa_launch(void* bound, cudaStream_t stream) {
  return guarded(
      [&] {
        static_cast<Bound*>(bound)->launch(stream);
        return true;
      },
      false);
}

/// Frees what fa_bind() made. Launches of it must be over.
void fa_release(void* bound) { delete static_cast<Bound*>(bound); }

}  // extern "C"
