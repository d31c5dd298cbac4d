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

/// Addresses that host code may not use at any time, for the hooks.
struct WatchedRange {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  bool contains(std::uintptr_t address) const { return address - begin < bytes; }
};
extern constinit WatchedRange device_range;  ///< the device's memory; empty until the first allocation
/// From the first to the last byte of pinned memory that an operation uses for which the host has not waited.
extern constinit WatchedRange pinned_range;

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

/// Host code is about to use a watched address. If it is the device's, this ends the program, unless it is
/// the runtime that does that, or the memory is managed.
void host_access(std::uintptr_t address, AccessKind kind, const void* pc, bool polls);

/// Host code is about to use an address. @param polls  with a volatile or atomic access
inline void check_on_host(const void* pointer, AccessKind kind, const void* pc, bool polls = false) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (device_range.contains(address) || pinned_range.contains(address)) [[unlikely]]
    host_access(address, kind, pc, polls || kind == AccessKind::kAtomic);
}

}  // namespace gpusim
