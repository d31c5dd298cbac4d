/// @file
/// A chapter as a shared library, so that another program launches its kernels on its own memory: PyTorch, to time
/// them on the tensors of its own kernels in one process. common/bench/chapter_library.py is the other side.
///
/// Nothing throws. A function that fails returns null or false, and fa_error() says why.

#include <cuda_runtime.h>

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "attention/attention_forward.hpp"
#include "harness/chapter.hpp"
#include "harness/device_buffer.hpp"
#include "harness/runner.hpp"

namespace {

using fa::AttentionForward;

/// A variant and what it is launched on.
struct Bound {
  fa::AnyChapter chapter;
  const fa::Variant<AttentionForward>* variant;
  std::vector<fa::DeviceBuffer> workspace;
  AttentionForward::Args args;
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

const fa::Variant<AttentionForward>& variant_of(const fa::AnyChapter& chapter, const std::string& name) {
  for (const auto& variant : fa::chapter_of<AttentionForward>(chapter).variants) {
    if (variant.name == name) return variant;
  }
  throw std::invalid_argument("no variant " + name);
}

}  // namespace

extern "C" {

/// What ctypes fills in. Addresses are of device memory.
struct FaAttention {
  std::int64_t batch, heads, kv_heads, seq_q, seq_k, head_dim;
  std::int32_t dtype;  ///< the number of fa::DType: 0 fp32, 1 fp16, 2 bf16
  std::int32_t causal;
  double scale;
  void *q, *k, *v, *o, *lse;
};

/// Why the last call of this thread failed.
const char* fa_error() { return last_error.c_str(); }

/// A variant made ready for a problem, with its workspace allocated; null if it refuses.
void* fa_bind(const char* variant, const FaAttention* given) {
  return guarded(
      [&]() -> void* {
        auto bound = std::make_unique<Bound>(Bound{.chapter = fa::describe_chapter()});
        bound->variant = &variant_of(bound->chapter, variant);
        const fa::AttentionShape shape{.batch = given->batch,
                                       .heads = given->heads,
                                       .kv_heads = given->kv_heads,
                                       .seq_q = given->seq_q,
                                       .seq_k = given->seq_k,
                                       .head_dim = given->head_dim,
                                       .causal = given->causal != 0,
                                       .scale = given->scale,
                                       .dtype = fa::DType(given->dtype)};
        if (bound->variant->refuse) {
          if (const auto reason = bound->variant->refuse(shape)) throw std::invalid_argument(*reason);
        }
        std::map<std::string, void*> buffers = {
            {"q", given->q}, {"k", given->k}, {"v", given->v}, {"o", given->o}, {"lse", given->lse}};
        for (const fa::TensorSpec& spec : fa::workspace_of(*bound->variant, shape)) {
          bound->workspace.emplace_back(spec.name, spec.bytes());
          buffers[spec.name] = bound->workspace.back().get();
        }
        bound->args = AttentionForward::bind(shape, buffers);
        return bound.release();
      },
      nullptr);
}

/// Enqueues the kernels of fa_bind()'s result.
bool fa_launch(void* bound, cudaStream_t stream) {
  return guarded(
      [&] {
        const Bound& ready = *static_cast<Bound*>(bound);
        ready.variant->launch(ready.args, stream);
        return true;
      },
      false);
}

/// Frees what fa_bind() made. Launches of it must be over.
void fa_release(void* bound) { delete static_cast<Bound*>(bound); }

}  // extern "C"
