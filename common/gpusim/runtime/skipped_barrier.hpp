/// @file
/// A __syncthreads(), or a wait of a cluster's barrier, that is skipped at run time, to see whether a kernel
/// needs it.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

namespace gpusim {

/// The barrier that GPUSIM_SKIP_BARRIER names: "kernel.cuh:48", preceded by as much of the path as
/// distinguishes it from others. Every call on that line is skipped, in each instantiation of a template and
/// wherever it has been inlined.
class SkippedBarrier {
 public:
  static SkippedBarrier& instance();

  /// Whether the environment variable is set.
  bool is_named() const { return !name_.empty(); }

  /// Whether a call is that barrier; if so, it counts as skipped.
  bool is_at(const void* return_address);

  /// At the end of the program: says on standard error that there was no such barrier. Returns whether that
  /// was so, which is an error.
  bool complain() const;

 private:
  SkippedBarrier();

  std::string name_;  ///< begins with a slash
  std::atomic<bool> met_ = false;
  std::mutex mutex_;
  std::unordered_map<std::uintptr_t, bool> known_;  ///< by return address
};

}  // namespace gpusim
