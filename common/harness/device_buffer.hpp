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
  /// @param name   how counters and defects call it
  /// @param guard  bytes before and behind it that nobody should write; a multiple of 256
  /// @throws DeviceError  if there is not enough memory    @throws CudaError  on any other failure
  DeviceBuffer(std::string name, std::size_t bytes, std::size_t guard = 0);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : allocation_(std::exchange(other.allocation_, nullptr)), bytes_(other.bytes_), guard_(other.guard_) {}
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;

  void* get() const { return static_cast<std::byte*>(allocation_) + guard_; }
  std::size_t bytes() const { return bytes_; }

  /// Copies as many bytes as the buffer has from the host.
  void upload(const void* from);

  /// Copies all bytes to the host.
  void download(void* to) const;

  /// Fills the buffer with 0xFF bytes, which are NaNs, and makes reading them a defect where that is checked.
  void poison();

  /// Whether the bytes before and behind the buffer are what they were.
  bool guards_intact() const;

 private:
  void* allocation_ = nullptr;
  std::size_t bytes_ = 0, guard_ = 0;
};

/// Bytes that can still be allocated.
std::size_t free_device_bytes();

}  // namespace fa
