/// @file
/// Helpers for the simulator's tests: device buffers with names, a launch that returns its report, and
/// defects in a comparable form.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <new>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gpusim/gpusim.hpp"

namespace gpusim_test {

/// Device memory, released at the end of its scope.
template <class T>
class Buffer {
 public:
  /// A buffer that is never written.
  Buffer(const std::string& name, std::size_t count) : count_(count) {
    if (cudaMalloc(&data_, count * sizeof(T)) != cudaSuccess) throw std::bad_alloc();
    gpusim::name_allocation(data_, name);
  }
  Buffer(const std::string& name, const std::vector<T>& values) : Buffer(name, values.size()) {
    cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice);
  }
  /// A buffer of zero bytes.
  static Buffer zeros(const std::string& name, std::size_t count) {
    Buffer buffer(name, count);
    cudaMemset(buffer.data_, 0, count * sizeof(T));
    return buffer;
  }

  Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), count_(other.count_) {}
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer() { cudaFree(data_); }

  T* get() const { return data_; }
  operator T*() const { return data_; }

  std::vector<T> host() const {
    std::vector<T> values(count_);
    cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost);
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

struct Launch {
  dim3 grid = 1;
  dim3 block = 32;
  std::size_t dynamic_shared_bytes = 0;
};

/// Runs a kernel. @return the result of the runtime
template <class... Params, class... Args>
cudaError_t try_run(const Launch& launch, void (*kernel)(Params...), Args&&... args) {
  cudaLaunchConfig_t config = {};
  config.gridDim = launch.grid;
  config.blockDim = launch.block;
  config.dynamicSmemBytes = launch.dynamic_shared_bytes;
  return cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...);
}

/// Runs a kernel. @return the report of this kernel only
template <class... Params, class... Args>
gpusim::Report run(const Launch& launch, void (*kernel)(Params...), Args&&... args) {
  gpusim::take_report();
  const cudaError_t status = try_run(launch, kernel, std::forward<Args>(args)...);
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
  return gpusim::take_report();
}

/// A defect without its text: kind, lines of the test in the order of the report, and count.
struct Told {
  gpusim::DefectKind kind;
  std::vector<int> lines;
  std::int64_t count;
  bool operator==(const Told&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Told& told) {
  out << gpusim::name_of(told.kind) << " at";
  for (int line : told.lines) out << ' ' << line;
  return out << ", " << told.count << " times";
}

/// The numbers after "file:" in a message, for the calling file.
inline std::vector<int> lines_of(const std::string& message, const std::string& path) {
  const std::string file = path.substr(path.rfind('/') + 1) + ":";
  std::vector<int> lines;
  for (std::size_t i = message.find(file); i != std::string::npos; i = message.find(file, i + 1)) {
    lines.push_back(std::stoi(message.substr(i + file.size())));
  }
  return lines;
}

/// The number of the line that ends with the comment "// <tag>", in the calling file.
inline int line_of(const std::string& tag, const char* test = __builtin_FILE()) {
  std::ifstream file(test);
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.ends_with("// " + tag)) return number;
  }
  throw std::runtime_error("no line is marked " + tag);
}

inline std::vector<Told> told(const gpusim::Report& report, const char* test = __builtin_FILE()) {
  std::vector<Told> result;
  for (const gpusim::Defect& d : report.defects) {
    result.push_back({d.kind, lines_of(d.message, test), d.count});
  }
  return result;
}

using Defects = std::vector<Told>;

/// Whether the report contains the words.
inline testing::AssertionResult says(const gpusim::Report& report, const std::string& words) {
  const std::string text = gpusim::format_defects(report);
  if (text.find(words) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "not found: " << words << "\n" << text;
}

inline testing::AssertionResult is_clean(const gpusim::Report& report) {
  if (report.defects.empty()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << gpusim::format_defects(report);
}

/// A place in an array of shared memory, as reports name it: only g++ tells what the kernel calls it.
inline std::string place(const std::string& element, const std::string& byte) {
#ifdef __clang__
  static_cast<void>(element);
  return byte;
#else
  return element + " (" + byte + ")";
#endif
}

/// Exact counts and lines are promised for g++; clang merges and splits accesses, and calls as well.
#ifdef __clang__
#define GPUSIM_NEEDS_EXACT_ACCESSES() GTEST_SKIP() << "accesses are as written with g++ only"
#else
#define GPUSIM_NEEDS_EXACT_ACCESSES() static_cast<void>(0)
#endif

}  // namespace gpusim_test
