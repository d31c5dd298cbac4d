/// @file
/// The host's memory as kernels see it: which of it they may use. And the device's, which the host's code may
/// not use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "gpusim/runtime/access.hpp"

namespace gpusim {

/// cudaMallocHost() and cudaFreeHost(): memory that kernels may use by its ordinary address. No kernel runs
/// meanwhile.
void pin(void* pointer, std::size_t bytes);
void unpin(const void* pointer);
/// Whether all of [address, address + bytes) is in such memory.
bool is_pinned(std::uintptr_t address, std::size_t bytes);

/// cudaMallocManaged() and cudaFree(): memory of the device that the host may use as well.
void manage(void* pointer, std::size_t bytes);
void unmanage(const void* pointer);
bool is_managed(std::uintptr_t address);

/// Whether a `__device__` or `__constant__` variable is at an address.
bool is_device_variable(std::uintptr_t address);
/// Whether a constant of the program is at an address: bytes that nobody can write.
bool is_constant(std::uintptr_t address);

/// Where the device's memory is, for the hooks.
struct DeviceRange {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;  ///< 0 until the first allocation
};
extern constinit DeviceRange device_range;

/// While this object lives, the runtime is at work in this thread of the host, and may use the device's
/// memory.
class HostRuntime {
 public:
  HostRuntime() { ++depth; }
  ~HostRuntime() { --depth; }
  HostRuntime(const HostRuntime&) = delete;
  static bool is_at_work() { return depth != 0; }

 private:
  static constinit thread_local int depth;
};

/// Several threads of the host may use the runtime: each has its turn while such an object of its own lives.
class OneHostThread {
 public:
  OneHostThread() : lock_(mutex()) {}

 private:
  static std::recursive_mutex& mutex();
  std::lock_guard<std::recursive_mutex> lock_;
};

/// Host code is about to use an address of the device's memory. Ends the program, unless it is the runtime
/// that does that, or the memory is managed.
void host_access(std::uintptr_t address, AccessKind kind, const void* pc);

/// Host code is about to use an address.
inline void check_on_host(const void* pointer, AccessKind kind, const void* pc) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (address - device_range.begin < device_range.bytes) [[unlikely]]
    host_access(address, kind, pc);
}

}  // namespace gpusim
