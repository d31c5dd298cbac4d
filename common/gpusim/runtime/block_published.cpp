/// @file
/// Values that a block hands to blocks with higher numbers.
#include <cstdint>
#include <thread>

#include "gpusim/runtime/block.hpp"
#include "gpusim/runtime/published.hpp"

namespace gpusim {

using device::kMissing;

void BlockRunner::publish(std::uint32_t* to, std::uint32_t bits, const void* pc) {
  const auto address = reinterpret_cast<std::uintptr_t>(to);
  const bool was_written =
      address - arena_base_ < arena_bytes_ && address % 4 == 0 && arena_.written_prefix(address, 4) == 4;
  on_access(to, 4, AccessKind::kPublish, pc);
  if (!was_written || __atomic_exchange_n(to, bits, __ATOMIC_SEQ_CST) != kMissing)
    misuse(pc, {"publishes a value where nothing says that it was missing: who comes earlier takes what is "
                "there for the value"});
  if (bits == kMissing) misuse(pc, {"publishes the mark of a missing value"});
  arena_.publishers().set(address - arena_base_, number_);
}

void BlockRunner::copy_published_async(void* shared, const void* global, const void* pc) {
  on_access(global, 4, AccessKind::kReadPublished, pc);
  on_access(shared, 4, AccessKind::kCopyIssue, pc);
  current_->open_group.push_back({shared, &kMissing, 4, 4, pc});
}

std::uint32_t BlockRunner::await_published(const std::uint32_t* from, const void* pc) {
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  if (address - arena_base_ >= arena_bytes_)
    trap(DefectKind::kOutOfBounds, Space::kGlobal, address, 4, AccessKind::kReadPublished, pc);
  check_global(address, 4, AccessKind::kReadPublished, pc, true);
  const auto is_published = [&] {
    const std::uint32_t by = arena_.publishers().of(address - arena_base_);
    return by >= first_block() && by < number_;
  };
  while (!is_published()) {
    if (Progress::instance().is_lowest(number_) && !is_published())
      misuse(pc, {"waits for a value that no earlier block of the grid publishes"});
    std::this_thread::yield();
  }
  return __atomic_load_n(from, __ATOMIC_SEQ_CST);
}

}  // namespace gpusim
