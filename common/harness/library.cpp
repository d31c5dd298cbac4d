#include "harness/library.hpp"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "attention/attention_backward.hpp"
#include "attention/attention_forward.hpp"
#include "attention/decoding_attention.hpp"
#include "attention/masked_attention.hpp"
#include "attention/tensor.hpp"
#include "device/launch.cuh"
#include "harness/chapter.hpp"
#include "harness/device_buffer.hpp"
#include "harness/errors.hpp"
#include "harness/program.hpp"
#include "harness/runner.hpp"

static_assert(sizeof(FaAttention) == 360 && sizeof(FaCache) == 72 &&
              sizeof(FaMasks) == 104);  // as in chapter_library.py

namespace {

/// A variant and its tensors.
struct Bound {
  std::vector<fa::DeviceBuffer> workspace;
  std::function<void(cudaStream_t)> launch;
  std::function<void(std::uint64_t)> set_seed;  ///< of chapter 11
};

const fa::AnyChapter& chapter() {
  static const fa::AnyChapter described = fa::describe_chapter();
  return described;
}

thread_local std::string last_error;
thread_local int last_reason;

/// The result of `attempt`, or the value that means failure.
template <class Attempt>
auto guarded(Attempt attempt, decltype(attempt()) failed) noexcept {
  try {
    return attempt();
  } catch (const fa::Refused& error) {
    last_error = error.refusal.text;
    last_reason = int(error.refusal.reason);
  } catch (const std::exception& error) {
    last_error = error.what();
    last_reason = 0;
  }
  return failed;
}

/// A tensor of the caller. lse and those of a cache or of masks have no strides.
struct Given {
  const char* name;
  void* address;
  const FaStrides* strides;
};

/// The tensors that the caller has.
std::vector<Given> tensors_of(const FaAttention& given) {
  std::vector<Given> tensors = {{"q", given.q, &given.q_strides},    {"k", given.k, &given.k_strides},
                                {"v", given.v, &given.v_strides},    {"o", given.o, &given.o_strides},
                                {"lse", given.lse, nullptr},         {"do", given.d_o, &given.d_o_strides},
                                {"dq", given.dq, &given.dq_strides}, {"dk", given.dk, &given.dk_strides},
                                {"dv", given.dv, &given.dv_strides}};
  if (const FaCache* cache = given.cache) {
    tensors.insert(tensors.end(), {{"key_lengths", cache->key_lengths, nullptr},
                                   {"block_table", cache->block_table, nullptr},
                                   {"k_scale", cache->k_scale, nullptr},
                                   {"v_scale", cache->v_scale, nullptr}});
  }
  if (const FaMasks* masks = given.masks) {
    tensors.insert(tensors.end(), {{"documents", masks->documents, nullptr},
                                   {"key_documents", masks->key_documents, nullptr},
                                   {"key_lengths", masks->key_lengths, nullptr},
                                   {"block_mask", masks->block_mask, nullptr},
                                   {"alibi_slopes", masks->alibi_slopes, nullptr},
                                   {"sinks", masks->sinks, nullptr},
                                   {"dsinks", masks->dsinks, nullptr}});
  }
  std::erase_if(tensors, [](const Given& tensor) { return tensor.address == nullptr; });
  return tensors;
}

/// @throws fa::Refused  unless an address is a multiple of that number
void require_alignment(const std::string& what, const void* address, std::uintptr_t multiple) {
  const auto rest = reinterpret_cast<std::uintptr_t>(address) % multiple;
  if (rest == 0) return;
  throw fa::Refused(
      {fa::Refusal::Reason::kAddress,
       fmt::format("{} begins {} bytes after a multiple of {}: must begin at one", what, rest, multiple),
       {}});
}

/// @throws fa::Refused  if a tensor begins at an address that kernels cannot take
fa::AttentionShape shape_of(const FaAttention& given) {
  constexpr std::uintptr_t kAlignmentOfRows = 16;
  fa::AttentionShape shape = {
      .batch = given.batch,
      .heads = given.heads,
      .kv_heads = given.kv_heads,
      .seq_q = given.seq_q,
      .seq_k = given.seq_k,
      .head_dim = given.head_dim,
      .head_dim_v = given.head_dim_v == given.head_dim ? std::nullopt : std::optional(given.head_dim_v),
      .causal = given.causal != 0,
      .scale = given.scale,
      .dtype = fa::DType(given.dtype)};
  for (const Given& tensor : tensors_of(given)) {
    if (!tensor.strides) continue;
    require_alignment(tensor.name, tensor.address, kAlignmentOfRows);
    shape.set_strides(tensor.name, {tensor.strides->batch, tensor.strides->head, tensor.strides->row});
  }
  return shape;
}

/// Their addresses, by name.
std::map<std::string, void*> addresses_of(const FaAttention& given) {
  std::map<std::string, void*> addresses;
  for (const Given& tensor : tensors_of(given)) addresses.emplace(tensor.name, tensor.address);
  return addresses;
}

/// The numbers in its tables are on the device: the shape has only their sizes.
fa::DecodingShape decoding_shape_of(const FaAttention& given) {
  fa::DecodingShape shape;
  static_cast<fa::AttentionShape&>(shape) = shape_of(given);
  const FaCache* cache = given.cache;
  if (!cache) return shape;
  shape.fp8 = cache->k_scale != nullptr;
  if (cache->splits != 0) shape.splits = cache->splits;
  if (cache->key_lengths) {
    shape.key_lengths = std::make_shared<const std::vector<std::int32_t>>(std::size_t(given.batch),
                                                                          std::int32_t(given.seq_k));
  }
  if (!cache->block_table) return shape;
  shape.block_table = std::make_shared<const fa::BlockTable>(
      fa::BlockTable{.page_size = cache->page_size, .pages = cache->pages, .columns = cache->table_columns});
  for (const char* name : {"k", "v"}) shape.strides.erase(name);  // those of pages
  return shape;
}

/// So many zeros, if there is an address: numbers that only the device has.
template <class T = std::int32_t>
std::shared_ptr<const std::vector<T>> zeros_if(const void* address, std::int64_t count) {
  return address ? std::make_shared<const std::vector<T>>(std::size_t(count)) : nullptr;
}

/// The numbers of masks are on the device: the shape has only their sizes.
fa::MaskedShape masked_shape_of(const FaAttention& given) {
  fa::MaskedShape shape;
  static_cast<fa::AttentionShape&>(shape) = shape_of(given);
  shape.backward = given.d_o != nullptr;
  const FaMasks* masks = given.masks;
  if (!masks) return shape;
  shape.documents = zeros_if(masks->documents, given.seq_q);
  shape.key_documents = zeros_if(masks->key_documents, given.seq_k);
  shape.key_lengths = zeros_if(masks->key_lengths, given.batch);
  shape.alibi_slopes = zeros_if<float>(masks->alibi_slopes, given.heads);
  shape.sinks = zeros_if<float>(masks->sinks, given.heads);
  if (masks->window != 0) shape.window = masks->window;
  if (masks->softcap != 0) shape.softcap = masks->softcap;
  shape.dropout = masks->dropout;
  shape.dropout_seed = masks->dropout_seed;
  if (!masks->block_mask) return shape;
  if (auto refusal = fa::refuse_block_size(masks->size_of_blocks)) throw fa::Refused(*refusal);
  const auto blocks = [&](std::int64_t length) { return (length - 1) / masks->size_of_blocks + 1; };
  fa::BlockPattern pattern = {.heads = masks->heads_of_blocks,
                              .rows = blocks(given.seq_q),
                              .cols = blocks(given.seq_k),
                              .size = masks->size_of_blocks,
                              .blocks = {}};
  pattern.blocks.resize(std::size_t(pattern.heads * pattern.rows * pattern.cols));
  shape.block_mask = std::make_shared<const fa::BlockPattern>(std::move(pattern));
  return shape;
}

/// The shape for a problem. With dO, it is a backward pass.
template <fa::Problem P>
typename P::Shape shape_for(const FaAttention& given) {
  if constexpr (std::is_same_v<P, fa::TwoWayAttention>) {
    return {shape_of(given), given.d_o != nullptr};
  } else if constexpr (std::is_same_v<P, fa::MaskedAttention>) {
    return masked_shape_of(given);
  } else if constexpr (std::is_same_v<P, fa::DecodingAttention>) {
    return decoding_shape_of(given);
  } else {
    return shape_of(given);
  }
}

/// @throws fa::Refused  if the chapter has no such variant, or if it refuses the shape
template <fa::Problem P>
const fa::Variant<P>& variant_for(const std::string& name, const typename P::Shape& shape) {
  for (const auto& variant : fa::chapter_of<P>(chapter()).variants) {
    if (variant.name != name) continue;
    if (const auto refusal = P::refuse(shape)) throw fa::Refused(*refusal);
    if (const auto refusal = fa::why_refused<P>(variant, shape)) throw fa::Refused(*refusal);
    return variant;
  }
  throw fa::Refused({fa::Refusal::Reason::kName, "no variant " + name, {}});
}

/// The tensors of a variant's workspace that the caller does not have: O and LSE may be its own.
template <fa::Problem P>
std::vector<fa::TensorSpec> missing_workspace(const fa::Variant<P>& variant, const typename P::Shape& shape,
                                              const std::map<std::string, void*>& given) {
  std::vector<fa::TensorSpec> specs = fa::workspace_of(variant, shape);
  std::erase_if(specs, [&](const fa::TensorSpec& spec) { return given.contains(spec.name); });
  return specs;
}

constexpr std::size_t kAlignment = 256;  // that of cudaMalloc

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

template <fa::Problem P>
std::int64_t workspace_bytes(const std::string& name, const FaAttention& given) {
  const typename P::Shape shape = shape_for<P>(given);
  const fa::Variant<P>& variant = variant_for<P>(name, shape);
  std::size_t bytes = 0;
  for (const auto& spec : missing_workspace(variant, shape, addresses_of(given)))
    bytes += aligned(spec.extent_bytes());
  return std::int64_t(bytes);
}

/// Whether a variant's before() has something to do.
template <fa::Problem P>
bool must_prepare(const FaAttention& given, const std::map<std::string, void*>& buffers) {
  if (given.d_o) return !buffers.contains("o") || !buffers.contains("lse");
  if constexpr (std::is_same_v<P, fa::TwoWayAttention> || std::is_same_v<P, fa::MaskedAttention>) {
    return false;  // it prepares backward passes
  } else {
    return !given.cache || given.cache->workspace_is_zero == 0;
  }
}

template <fa::Problem P>
std::unique_ptr<Bound> bind_to(const std::string& name, const FaAttention& given) {
  auto bound = std::make_unique<Bound>();
  const typename P::Shape shape = shape_for<P>(given);
  const fa::Variant<P>& variant = variant_for<P>(name, shape);
  std::map<std::string, void*> buffers = addresses_of(given);
  const bool prepare = must_prepare<P>(given, buffers);
  require_alignment("the workspace", given.workspace, kAlignment);
  auto* free = static_cast<std::byte*>(given.workspace);
  for (const fa::TensorSpec& spec : missing_workspace(variant, shape, buffers)) {
    if (free) {
      buffers[spec.name] = free;
      free += aligned(spec.extent_bytes());
    } else {
      bound->workspace.emplace_back(spec.name, spec.extent_bytes());
      buffers[spec.name] = bound->workspace.back().get();
    }
  }
  const auto args = std::make_shared<typename P::Args>(P::bind(shape, buffers));
  if (variant.before && prepare) {
    variant.before(*args, nullptr);
    FA_CUDA_CHECK(cudaDeviceSynchronize());
  }
  bound->launch = [&variant, args](cudaStream_t stream) { variant.launch(*args, stream); };
  if constexpr (std::is_same_v<P, fa::MaskedAttention>) {
    bound->set_seed = [args, dropout = shape.dropout](std::uint64_t seed) {
      args->dropout = fa::Dropout::of(dropout, seed);
    };
  }
  return bound;
}

/// Calls f with the problem of the chapter as a type in std::type_identity.
template <class F>
auto with_problem(F f) {
  if (fa::is_about<fa::TwoWayAttention>(chapter())) return f(std::type_identity<fa::TwoWayAttention>());
  if (fa::is_about<fa::MaskedAttention>(chapter())) return f(std::type_identity<fa::MaskedAttention>());
  if (fa::is_about<fa::DecodingAttention>(chapter())) return f(std::type_identity<fa::DecodingAttention>());
  return fa::is_about<fa::AttentionBackward>(chapter()) ? f(std::type_identity<fa::AttentionBackward>())
                                                        : f(std::type_identity<fa::AttentionForward>());
}

}  // namespace

extern "C" {

const char* fa_error() { return last_error.c_str(); }

int fa_reason() { return last_reason; }

int fa_interface() { return kFaInterface; }

int fa_cuda_version() {
#ifdef CUDART_VERSION
  return CUDART_VERSION;
#else
  return -1;
#endif
}

const char* fa_variants() {
  thread_local std::string names;
  return guarded(
      [&]() -> const char* {
        names.clear();
        for (const std::string& name : fa::variant_names(chapter())) names += name + "\n";
        return names.c_str();
      },
      nullptr);
}

std::int64_t fa_workspace_bytes(const char* variant, const FaAttention* given) {
  return guarded(
      [&] {
        return with_problem(
            [&]<class P>(std::type_identity<P>) { return workspace_bytes<P>(variant, *given); });
      },
      std::int64_t(-1));
}

void* fa_bind(const char* variant, const FaAttention* given) {
  return guarded(
      [&]() -> void* {
        return with_problem(
            [&]<class P>(std::type_identity<P>) -> void* { return bind_to<P>(variant, *given).release(); });
      },
      nullptr);
}

bool fa_launch(void* bound, cudaStream_t stream) {
  return guarded(
      [&] {
        static_cast<Bound*>(bound)->launch(stream);
        return true;
      },
      false);
}

void fa_set_seed(void* bound, std::uint64_t seed) { static_cast<Bound*>(bound)->set_seed(seed); }

void fa_release(void* bound) { delete static_cast<Bound*>(bound); }

}  // extern "C"
