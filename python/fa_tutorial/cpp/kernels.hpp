/// @file
/// The kernels of the chapters' libraries, and which of them have been chosen for what.
#pragma once

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAStream.h>
#include <dlfcn.h>

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

namespace fa_operators {

using at::Tensor;

// --- memory of the current device -------------------------------------------------------------------

constexpr c10::DispatchKeySet kCuda(c10::DispatchKey::CUDA);

inline c10::Allocator* allocator() { return c10::cuda::CUDACachingAllocator::get(); }

/// A tensor that is laid out like another one. at::empty_like() is dispatched first, which takes the host
/// longer.
inline Tensor new_like(const Tensor& x) {
  if (!x.is_non_overlapping_and_dense()) return at::empty_like(x);
  return Tensor(
      at::detail::empty_strided_generic(x.sizes(), x.strides(), allocator(), kCuda, x.scalar_type()));
}

/// A number in fp32 for each row of Q.
inline Tensor empty_lse(const Tensor& q) {
  const auto rows = q.sizes().slice(0, 3);
  return Tensor(at::detail::empty_generic(rows, allocator(), kCuda, at::kFloat, std::nullopt));
}

// --- problems ---------------------------------------------------------------------------------------

/// A problem of a library, and what it has besides. Its bytes are a key: without_numbers() makes them all
/// zeros.
struct Problem {
  FaAttention attention;  ///< `masks` and `cache` stay null
  FaMasks masks;
  FaCache cache;
  std::int64_t has_masks, has_cache;

  static Problem without_numbers() {
    Problem problem;
    std::memset(&problem, 0, sizeof(problem));
    return problem;
  }

  /// As the library takes it. The result points into this problem.
  FaAttention given() const {
    FaAttention given = attention;
    if (has_masks) given.masks = &masks;
    if (has_cache) given.cache = &cache;
    return given;
  }

  /// What the size of the workspace depends on: lengths, and which tensors there are.
  Problem sizes() const {
    Problem sizes = without_numbers();
    const FaAttention& from = attention;
    FaAttention& to = sizes.attention;
    std::tie(to.batch, to.heads, to.kv_heads) = std::tie(from.batch, from.heads, from.kv_heads);
    std::tie(to.seq_q, to.seq_k, to.causal) = std::tie(from.seq_q, from.seq_k, from.causal);
    sizes.masks = masks;
    sizes.cache = cache;
    for (void** address :
         {&sizes.masks.documents, &sizes.masks.key_documents, &sizes.masks.key_lengths,
          &sizes.masks.block_mask, &sizes.masks.alibi_slopes, &sizes.masks.sinks, &sizes.masks.dsinks,
          &sizes.cache.key_lengths, &sizes.cache.block_table, &sizes.cache.k_scale, &sizes.cache.v_scale}) {
      if (*address) *address = address;
    }
    return sizes;
  }
};

/// Compares and hashes problems.
struct ByBytes {
  static std::string_view bytes(const Problem& given) {
    return {reinterpret_cast<const char*>(&given), sizeof(given)};
  }
  std::size_t operator()(const Problem& given) const { return std::hash<std::string_view>()(bytes(given)); }
  bool operator()(const Problem& a, const Problem& b) const { return bytes(a) == bytes(b); }
};

// --- kernels ----------------------------------------------------------------------------------------

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
    find(set_seed_, "fa_set_seed");
    find(release_, "fa_release");
    find(error_, "fa_error");
  }

  ~Kernel() { forget(); }

  /// Enqueues the kernel on the current stream of the current device. False if it refuses. An LSE without an
  /// address is written to memory that is freed at once. The workspace of a problem with a cache begins as
  /// zeros.
  bool run(Problem problem, c10::DeviceIndex device) {
    FaAttention& given = problem.attention;
    const std::scoped_lock lock(mutex_);
    const std::uint64_t seed = std::exchange(problem.masks.dropout_seed, 0);  // a new one in each call
    const std::int64_t bytes = workspace_bytes(problem);
    if (bytes < 0) return false;
    const std::int64_t of_lse = given.lse ? 0 : aligned(4 * given.batch * given.heads * given.seq_q);
    c10::DataPtr memory;
    Tensor zeros;
    if (problem.has_cache) {
      zeros = zeros_for(problem, bytes, device);
      given.workspace = zeros.data_ptr();
    } else if (of_lse + bytes > 0) {
      memory = allocator()->allocate(of_lse + bytes);
      if (bytes > 0) given.workspace = static_cast<std::byte*>(memory.get()) + of_lse;
    }
    if (of_lse > 0) given.lse = memory.get();
    const auto stream = c10::cuda::getCurrentCUDAStream(device).stream();
    void* const bound = bound_to(problem);
    if (!bound) return false;
    if (problem.masks.dropout > 0) set_seed_(bound, seed);
    TORCH_CHECK(launch_(bound, stream), variant_, ": ", error_());
    return true;
  }

 private:
  static constexpr std::size_t kMost = 4096;  // entries of a memory
  static constexpr std::size_t kMostZeros = 16;

  /// The workspace begins at a multiple of 256 bytes, as all that the allocator returns.
  static std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

  std::int64_t workspace_bytes(const Problem& problem) {
    const Problem sizes = problem.sizes();
    if (const auto found = bytes_.find(sizes); found != bytes_.end()) return found->second;
    const FaAttention given = problem.given();
    const std::int64_t bytes = workspace_bytes_(variant_.c_str(), &given);
    if (bytes < 0) return bytes;
    if (bytes_.size() >= kMost) bytes_.clear();
    return bytes_[sizes] = bytes;
  }

  /// A workspace that begins as zeros. Kernels leave those zeros that they need, so the calls of the default
  /// stream use the same memory again. That of a graph's calls belongs to the graph.
  Tensor zeros_for(const Problem& problem, std::int64_t bytes, c10::DeviceIndex device) {
    const auto stream = c10::cuda::getCurrentCUDAStream(device);
    const auto make = [&] { return at::zeros({bytes}, at::device({at::kCUDA, device}).dtype(at::kByte)); };
    if (stream != c10::cuda::getDefaultCUDAStream(device) ||
        c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None)
      return make();
    const Problem sizes = problem.sizes();
    if (const auto found = zeros_.find(sizes); found != zeros_.end()) return found->second;
    if (zeros_.size() >= kMostZeros) zeros_.clear();
    return zeros_[sizes] = make();
  }

  void* bound_to(const Problem& problem) {
    if (const auto found = bound_.find(problem); found != bound_.end()) return found->second;
    const FaAttention given = problem.given();
    void* const bound = bind_(variant_.c_str(), &given);
    if (!bound) return bound;
    if (bound_.size() >= kMost) forget();
    return bound_[problem] = bound;
  }

  void forget() {
    for (const auto& [problem, bound] : bound_) release_(bound);
    bound_.clear();
  }

  std::string variant_;
  decltype(&fa_workspace_bytes) workspace_bytes_ = nullptr;
  decltype(&fa_bind) bind_ = nullptr;
  decltype(&fa_launch) launch_ = nullptr;
  decltype(&fa_set_seed) set_seed_ = nullptr;
  decltype(&fa_release) release_ = nullptr;
  decltype(&fa_error) error_ = nullptr;
  std::mutex mutex_;
  std::unordered_map<Problem, std::int64_t, ByBytes, ByBytes> bytes_;
  std::unordered_map<Problem, void*, ByBytes, ByBytes> bound_;
  std::unordered_map<Problem, Tensor, ByBytes, ByBytes> zeros_;
};

/// What a kernel has been chosen for: a pass, a name (that use() was given, or what masks there are), an
/// element type, a head dimension, a device, whether only deterministic kernels are wanted, and whether all
/// tensors are contiguous.
using Choice = std::tuple<bool, std::string, at::ScalarType, std::int64_t, int, bool, bool>;

inline std::mutex choices_mutex;
inline std::map<Choice, std::shared_ptr<Kernel>> choices;

inline Choice choice(bool backward, std::string_view chosen, const Tensor& q, bool dense) {
  return {backward,  std::string(chosen), q.scalar_type(),
          q.size(3), q.get_device(),      at::globalContext().deterministicAlgorithms(),
          dense};
}

inline std::shared_ptr<Kernel> kernel_for(const Choice& wanted) {
  const std::scoped_lock lock(choices_mutex);
  const auto found = choices.find(wanted);
  return found == choices.end() ? nullptr : found->second;
}

inline void remember(const Tensor& like, std::string_view chosen, bool backward, bool dense,
                     std::string_view path, std::string_view variant) {
  const Choice wanted = choice(backward, chosen, like, dense);
  if (kernel_for(wanted)) return;
  auto kernel = std::make_shared<Kernel>(std::string(path), std::string(variant));
  const std::scoped_lock lock(choices_mutex);
  choices.insert_or_assign(wanted, std::move(kernel));
}

inline void forget() {
  const std::scoped_lock lock(choices_mutex);
  choices.clear();
}

}  // namespace fa_operators
