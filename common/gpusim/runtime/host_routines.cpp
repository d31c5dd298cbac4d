#include "gpusim/runtime/host_routines.hpp"

#include <cstdint>
#include <new>

#include "gpusim/gpusim.hpp"
#include "gpusim/runtime/arena.hpp"
#include "gpusim/runtime/host_memory.hpp"

namespace gpusim::host {
namespace {

bool right = true;
int entered = 0;

/// Depth of HostRuntime, by hand.
alignas(HostRuntime) unsigned char storage[sizeof(HostRuntime)];

}  // namespace

void begin(CUstream_st* stream, const char* routine) {
  right = true;
  begin_routine(stream, routine);
}

void account(const void* pointer, std::size_t bytes, bool writes, bool may_be_of_host, const char* routine) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if (!Arena::instance().contains(address) &&
      (may_be_of_host || is_pinned(address, bytes) || is_device_variable(address)))
    return;
  right = (writes ? account_write(pointer, bytes, routine) : account_read(pointer, bytes, routine)) && right;
}

bool all_right() { return right; }

void enter() {
  if (entered++ == 0) new (storage) HostRuntime;
}
void leave() {
  if (--entered == 0) reinterpret_cast<HostRuntime*>(storage)->~HostRuntime();
}

}  // namespace gpusim::host
