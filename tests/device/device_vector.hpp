/// @file
/// Device memory for the tests of device code.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

#include "device/launch.cuh"

namespace fa {

/// An array in device memory that kernels of a test read and write.
template <class T>
class DeviceVector {
 public:
  explicit DeviceVector(const std::vector<T>& values) : size_(values.size()) {
    FA_CUDA_CHECK(cudaMalloc(&data_, size_ * sizeof(T)));
    FA_CUDA_CHECK(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  explicit DeviceVector(std::size_t size) : DeviceVector(std::vector<T>(size)) {}
  ~DeviceVector() { cudaFree(data_); }
  DeviceVector(const DeviceVector&) = delete;
  DeviceVector& operator=(const DeviceVector&) = delete;

  T* get() { return data_; }

  /// Waits for the kernels, then copies.
  std::vector<T> host() const {
    std::vector<T> values(size_);
    FA_CUDA_CHECK(cudaDeviceSynchronize());
    FA_CUDA_CHECK(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

}  // namespace fa
