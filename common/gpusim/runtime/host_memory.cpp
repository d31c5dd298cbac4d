#include "gpusim/runtime/host_memory.hpp"

#include <cstdio>
#include <cstdlib>
#include <map>

#include "gpusim/runtime/arena.hpp"
#include "gpusim/runtime/streams.hpp"
#include "gpusim/runtime/symbols.hpp"

namespace gpusim {
namespace {

/// Bytes by address.
using RangesOfBytes = std::map<std::uintptr_t, std::size_t>;
RangesOfBytes& pinned() {
  static auto* ranges = new RangesOfBytes;  // programs release memory at exit
  return *ranges;
}
RangesOfBytes& managed() {
  static auto* ranges = new RangesOfBytes;
  return *ranges;
}

bool contain(const RangesOfBytes& ranges, std::uintptr_t address, std::size_t bytes) {
  const auto after = ranges.upper_bound(address);
  if (after == ranges.begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  return address - begin < size && bytes <= size - (address - begin);
}

}  // namespace

constinit WatchedRange device_range;
constinit WatchedRange pinned_range;
constinit thread_local int HostRuntime::depth = 0;

std::recursive_mutex& OneHostThread::mutex() {
  static auto* mutex = new std::recursive_mutex;  // never destroyed, like the session
  return *mutex;
}

void pin(void* pointer, std::size_t bytes) { pinned()[reinterpret_cast<std::uintptr_t>(pointer)] = bytes; }

void unpin(const void* pointer) { pinned().erase(reinterpret_cast<std::uintptr_t>(pointer)); }

bool is_pinned(std::uintptr_t address, std::size_t bytes) { return contain(pinned(), address, bytes); }

void manage(void* pointer, std::size_t bytes) {
  managed()[reinterpret_cast<std::uintptr_t>(pointer)] = bytes;
}
void unmanage(const void* pointer) { managed().erase(reinterpret_cast<std::uintptr_t>(pointer)); }
bool is_managed(std::uintptr_t address) { return contain(managed(), address, 1); }

bool is_device_variable(std::uintptr_t address) { return data_layout().device_variables.contain(address); }

bool is_constant(std::uintptr_t address) { return data_layout().constants.contain(address); }

void host_access(std::uintptr_t address, AccessKind kind, const void* pc, bool polls) {
  if (HostRuntime::is_at_work()) return;
  const HostRuntime outside;
  if (!device_range.contains(address))
    return Streams::instance().use_pinned_on_host(address, kind, pc, polls);
  if (is_managed(address))
    return Streams::instance().use_on_host(address - Arena::instance().base(), kind, pc);
  const auto at = reinterpret_cast<std::uintptr_t>(pc);
  std::fflush(stdout);
  std::fprintf(stderr, "gpusim: error: host code %s %s, in device memory, at %s: it needs cudaMemcpy()\n",
               kind == AccessKind::kRead ? "reads" : "writes", Arena::instance().place_of(address).c_str(),
               source_lines({at}).at(at).text.c_str());
  std::exit(2);
}

}  // namespace gpusim
