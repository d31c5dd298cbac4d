/// @file
/// The requests of a thread to the runtime: barriers, warp operations, asynchronous copies.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "gpusim/runtime/block.hpp"

namespace gpusim {

int BlockRunner::sync_threads(int value, const void* pc) {
  current_->state = State::kBlockSync;
  current_->sync_pc = pc;
  current_->mask = 0;
  current_->value = value;
  suspend();
  return current_->value;
}

void BlockRunner::warp_rendezvous(unsigned mask, device::WarpOp op, void* operand,
                                  void (*resolve)(void* const*), const void* pc) {
  Thread& t = *current_;
  t.state = State::kWarpSync;
  t.sync_pc = pc;
  t.mask = mask;
  t.op = op;
  t.operand = operand;
  t.resolve = resolve;
  suspend();
}

void BlockRunner::read_matrix_row(const void* row, const void* pc) {
  constexpr std::size_t kRow = 16;
  if (!is_shared(row)) {
    trap(DefectKind::kOutOfBounds, Space::kShared, reinterpret_cast<std::uintptr_t>(row), kRow,
         AccessKind::kRead, pc);
  }
  access<AccessKind::kRead, kRow>(row, pc);
}

void BlockRunner::lacks(int since, const char* instruction, const void* pc) {
  const FindingKey key{.kind = DefectKind::kUnsupported, .pc = reinterpret_cast<std::uintptr_t>(pc)};
  found(key, [&](Example& e) {
    fill(e, current_->linear, Space::kShared, shared_base_);
    const auto number = [](int capability) {
      return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
    };
    e.detail = std::string(instruction) + " needs compute capability " + number(since) +
               ", this device has " + number(compute_capability_);
  });
  stop();
}

void BlockRunner::copy_async(void* shared, const void* global, std::size_t bytes, std::size_t source_bytes,
                             const void* pc) {
  if (source_bytes != 0) on_access(global, source_bytes, AccessKind::kRead, pc, source_bytes == bytes);
  on_access(shared, bytes, AccessKind::kCopyIssue, pc);
  current_->open_group.push_back({shared, global, bytes, source_bytes, pc});
}

void BlockRunner::copy_commit() {
  current_->groups.push_back(std::move(current_->open_group));
  current_->open_group.clear();
}

void BlockRunner::copy_wait(int pending) {
  Thread& t = *current_;
  while (t.groups.size() > std::size_t(std::max(pending, 0))) {
    land(t.groups.front());
    t.groups.pop_front();
  }
}

void BlockRunner::land(std::vector<AsyncCopy>& group) {
  for (const AsyncCopy& c : group) {
    on_access(c.to, c.bytes, AccessKind::kCopyLand, c.pc);
    const OutsideKernel outside;
    std::memcpy(c.to, c.from, c.source_bytes);
    std::memset(static_cast<std::byte*>(c.to) + c.source_bytes, 0, c.bytes - c.source_bytes);
  }
  group.clear();
}

}  // namespace gpusim
