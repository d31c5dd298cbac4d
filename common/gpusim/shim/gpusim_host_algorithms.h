/// @file
/// Library algorithms that the host answers (CUB, Thrust): what they read and write is counted as the least
/// that such an algorithm can move, and checked like the accesses of a kernel.
#pragma once

#include <cstddef>
#include <iterator>
#include <type_traits>

#include "cuda_runtime.h"
#include "gpusim/runtime/host_routines.hpp"

namespace gpusim::host {

/// A routine that runs. What it reads and writes is counted by ranges: those that pointers and iterators
/// based on them name.
class Routine {
 public:
  /// @param may_use_host  ranges may be in memory of the host
  explicit Routine(const char* name, cudaStream_t stream = nullptr, bool may_use_host = false)
      : name_(name), may_use_host_(may_use_host) {
    begin(stream, name);
  }
  template <class Iterator>
  void reads(const Iterator& first, std::ptrdiff_t n) const {
    count(first, n, false, 0);
  }
  template <class Iterator>
  void writes(const Iterator& first, std::ptrdiff_t n) const {
    count(first, n, true, 0);
  }
  /// The status of a routine whose ranges have been counted.
  cudaError_t status() const { return all_right() ? cudaSuccess : cudaErrorIllegalAddress; }

  template <class T>
  void count(T* first, std::ptrdiff_t n, bool writes, int) const {
    if (n > 0)
      account(const_cast<std::remove_cv_t<T>*>(first), std::size_t(n) * sizeof(T), writes, may_use_host_,
              name_);
  }
  /// Iterators of the libraries say what they are based on.
  template <class Iterator>
  auto count(const Iterator& first, std::ptrdiff_t n, bool writes, int) const
      -> decltype(first.gpusim_count(*this, n, writes)) {
    first.gpusim_count(*this, n, writes);
  }
  template <class Iterator>
  void count(const Iterator&, std::ptrdiff_t, bool, long) const {}

 private:
  const char* name_;
  bool may_use_host_;
};

/// From here to the end of the scope, the host may use the memory of the device.
class Access {
 public:
  Access() { enter(); }
  ~Access() { leave(); }
  Access(const Access&) = delete;
};

template <class Iterator>
using ValueOf = std::remove_cv_t<std::remove_reference_t<decltype(*std::declval<Iterator>())>>;

}  // namespace gpusim::host
