#include "harness/device_buffer.hpp"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include "device/launch.cuh"
#include "harness/backend.hpp"
#include "harness/errors.hpp"

namespace fa {

DeviceBuffer::DeviceBuffer(std::string name, std::size_t bytes) : bytes_(bytes) {
  const cudaError_t status = cudaMalloc(&pointer_, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // the failure has been dealt with
    throw DeviceError(fmt::format("not enough device memory for the {} bytes of {}: choose a smaller problem",
                                  bytes, name));
  }
  FA_CUDA_CHECK(status);
  backend::name_allocation(pointer_, name);
}

DeviceBuffer::~DeviceBuffer() { cudaFree(pointer_); }

void DeviceBuffer::upload(const void* from) {
  FA_CUDA_CHECK(cudaMemcpy(pointer_, from, bytes_, cudaMemcpyHostToDevice));
}

void DeviceBuffer::download(void* to) const {
  FA_CUDA_CHECK(cudaMemcpy(to, pointer_, bytes_, cudaMemcpyDeviceToHost));
}

void DeviceBuffer::poison() {
  FA_CUDA_CHECK(cudaMemset(pointer_, 0xFF, bytes_));
  backend::mark_uninitialized(pointer_, bytes_);
}

std::size_t free_device_bytes() {
  std::size_t free = 0, total = 0;
  FA_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return free;
}

}  // namespace fa
