/// @file
/// Device memory with an owner.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace fa {

/// Memory on the device, freed when the buffer goes out of scope.
class DeviceBuffer {
 public:
  /// @param name  how counters and defects call it
  /// @throws DeviceError  if there is not enough memory    @throws CudaError  on any other failure
  DeviceBuffer(std::string name, std::size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : pointer_(std::exchange(other.pointer_, nullptr)), bytes_(other.bytes_) {}
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;

  void* get() const { return pointer_; }
  std::size_t bytes() const { return bytes_; }

  /// Copies as many bytes as the buffer has from the host.
  void upload(const void* from);

  /// Copies all bytes to the host.
  void download(void* to) const;

  /// Fills the buffer with 0xFF bytes, which are NaNs, and makes reading them a defect where that is checked.
  void poison();

 private:
  void* pointer_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Bytes that can still be allocated.
std::size_t free_device_bytes();

}  // namespace fa
