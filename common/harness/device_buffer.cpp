#include "harness/device_buffer.hpp"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "device/launch.cuh"
#include "harness/backend.hpp"
#include "harness/errors.hpp"

namespace fa {
namespace {

constexpr int kGuardByte = 0xA5;

}  // namespace

DeviceBuffer::DeviceBuffer(std::string name, std::size_t bytes, std::size_t guard)
    : bytes_(bytes), guard_(guard) {
  const cudaError_t status = cudaMalloc(&allocation_, bytes + 2 * guard);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // the failure has been handled
    throw DeviceError(fmt::format("not enough device memory for the {} bytes of {}: choose a smaller problem",
                                  bytes, name));
  }
  FA_CUDA_CHECK(status);
  backend::name_allocation(allocation_, name);
  if (guard > 0) FA_CUDA_CHECK(cudaMemset(allocation_, kGuardByte, bytes + 2 * guard));
}

DeviceBuffer::~DeviceBuffer() { cudaFree(allocation_); }

void DeviceBuffer::upload(const void* from) {
  FA_CUDA_CHECK(cudaMemcpy(get(), from, bytes_, cudaMemcpyHostToDevice));
}

void DeviceBuffer::download(void* to) const {
  FA_CUDA_CHECK(cudaMemcpy(to, get(), bytes_, cudaMemcpyDeviceToHost));
}

void DeviceBuffer::poison() { fa::poison(get(), bytes_); }

bool DeviceBuffer::guards_intact() const {
  std::vector<unsigned char> bytes(2 * guard_);
  FA_CUDA_CHECK(cudaMemcpy(bytes.data(), allocation_, guard_, cudaMemcpyDeviceToHost));
  FA_CUDA_CHECK(cudaMemcpy(bytes.data() + guard_, static_cast<std::byte*>(get()) + bytes_, guard_,
                           cudaMemcpyDeviceToHost));
  return std::all_of(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte == kGuardByte; });
}

void poison(void* address, std::size_t bytes) {
  FA_CUDA_CHECK(cudaMemset(address, 0xFF, bytes));
  backend::mark_uninitialized(address, bytes);
}

std::size_t free_device_bytes() {
  std::size_t free = 0, total = 0;
  FA_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return free;
}

}  // namespace fa
