/// @file
/// The requests of a thread to the runtime: barriers and warp operations.
#include <cstddef>
#include <cstdint>
#include <string>

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

std::uint32_t BlockRunner::shared_address(const void* pointer) {
  addressed_ = variable_at(reinterpret_cast<std::uintptr_t>(pointer) - shared_base_);
  return std::uint32_t(reinterpret_cast<std::uintptr_t>(pointer) - shared_base_) & 0x3ffff;
}
void* BlockRunner::shared_pointer(std::uint32_t address) const {
  if (addressed_ == nullptr) return nullptr;
  for (std::size_t at = address; at < shared_bytes_; at += 0x40000) {
    if (at - addressed_->offset < addressed_->bytes) return reinterpret_cast<void*>(shared_base_ + at);
  }
  return nullptr;
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

}  // namespace gpusim
