/// @file
/// Device memory that frees itself.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

namespace fa {

/// Memory on the device, freed when the buffer goes out of scope.
class DeviceBuffer {
 public:
  /// @param name   for counters and defects
  /// @param guard  bytes before and after it that nothing should write; a multiple of 256
  /// @throws DeviceError  if there is not enough memory    @throws CudaError  on any other failure
  DeviceBuffer(std::string name, std::size_t bytes, std::size_t guard = 0);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : allocation_(std::exchange(other.allocation_, nullptr)), bytes_(other.bytes_), guard_(other.guard_) {}
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;

  void* get() const { return static_cast<std::byte*>(allocation_) + guard_; }
  std::size_t bytes() const { return bytes_; }

  /// Fills the buffer with bytes from the host.
  void upload(const void* from);

  /// Copies the whole buffer to the host.
  void download(void* to) const;

  /// Fills the buffer with 0xFF bytes, which are NaNs, and makes reading them a defect if the backend checks
  /// that.
  void poison();

  /// Whether the bytes before and after the buffer are unchanged.
  bool guards_intact() const;

 private:
  void* allocation_ = nullptr;
  std::size_t bytes_ = 0, guard_ = 0;
};

/// Fills device memory with 0xFF bytes, as DeviceBuffer::poison() does.
void poison(void* address, std::size_t bytes);

/// The number of bytes that can still be allocated.
std::size_t free_device_bytes();

}  // namespace fa
