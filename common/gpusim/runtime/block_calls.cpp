/// @file
/// The requests of a thread to the runtime: barriers and warp operations.
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gpusim/runtime/api.hpp"
#include "gpusim/runtime/block.hpp"
#include "gpusim/runtime/cluster.hpp"
#include "gpusim/runtime/watchdog.hpp"

namespace gpusim {

void BlockRunner::thread_fence(const void* pc) {
  current_->fence_epoch = epoch_;
  const InstructionKey key = InstructionKey::make(pc, 0, AccessKind::kFence, Space::kGlobal);
  if (debugging_) {
    const OutsideKernel outside;
    return process_fence(key, 1u << lane(), current_->linear / kWarpSize);
  }
  while (!log_.append(key, current_->loops, 0)) suspend();
}

void BlockRunner::trap_by_kernel(const void* pc) { misuse(pc, {"the thread executes __trap()"}); }

void BlockRunner::fault(int signal, bool divides, std::uintptr_t address, const void* pc) {
  if (signal == kTimeIsUp) time_out(pc);
  if (signal == SIGFPE) {
    misuse(pc, {divides ? "an integer is divided by zero" : "an arithmetic operation has failed"});
  }
  const std::uintptr_t offset = address - reinterpret_cast<std::uintptr_t>(stacks_);
  if (offset < std::size_t(kMaxThreads) * kStackStride && offset % kStackStride < kPage)
    misuse(pc, {"the thread has used up its stack: here it has " + std::to_string(kStack / 1024) + " KiB"});
  if (signal != SIGSEGV && signal != SIGBUS) misuse(pc, {"the thread has executed an invalid instruction"});
  trap(DefectKind::kOutOfBounds, Space::kGlobal, address, 1, AccessKind::kRead, pc);
}

void BlockRunner::time_out(const void* pc) {
  {
    const OutsideKernel outside;
    const bool awaited = std::any_of(threads_.begin(), threads_.begin() + thread_count_, [](const Thread& t) {
      return t.state != State::kReady && t.state != State::kDone;
    });
    if (awaited) report_divergence();
  }
  misuse(pc, {"the kernel makes no progress: this thread was still here after " +
              std::to_string(Watchdog::seconds()) + " seconds"});
}

void BlockRunner::fail_assertion(const char* condition, const void* pc) {
  api::fail_device(cudaErrorAssert);
  misuse(pc, {std::string("the assertion `") + condition + "' fails"});
}

void BlockRunner::declare_members(const DeclaredObject& object) {
  if (object.begin - shared_base_ >= shared_bytes_) return;
  const OutsideKernel outside;
  std::erase_if(declared_, [&](const DeclaredObject& other) { return other.contains(object.begin); });
  declared_.push_back(object);
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
  constexpr std::uintptr_t kSwizzlePeriod = 1024;
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const StaticVariable* variable = nullptr;  // that holds it, or the last one before it
  for (const StaticVariable& v : variables_) {
    if (!v.name.empty() && !v.is_index && shared_base_ + v.offset <= address) variable = &v;
  }
  if (variable == nullptr) return 0;
  const OutsideKernel outside;
  const std::uintptr_t begin = shared_base_ + variable->offset;
  const std::uint32_t of_block = std::uint32_t(rank_) << 24;  // as on a GPU: the address is the cluster's
  std::uintptr_t end = kSwizzlePeriod;  // as on a GPU, the first bytes are not the kernel's
  for (const auto& [window, start, bytes] : window_) {
    if (start == begin) return of_block + std::uint32_t(window + (address - begin));
    end = window + bytes;
  }
  const std::uintptr_t window = end + (begin - end) % kSwizzlePeriod;
  window_.push_back({std::uint32_t(window), begin, variable->bytes});
  return of_block + std::uint32_t(window + (address - begin));
}

void* BlockRunner::shared_pointer(std::uint32_t address) const {
  void* end = nullptr;  // of a variable
  for (const auto& [window, start, bytes] : window_) {
    if (address - window < bytes) return reinterpret_cast<void*>(start + (address - window));
    if (address - window == bytes) end = reinterpret_cast<void*>(start + bytes);
  }
  return end;
}

void* BlockRunner::pointer_of_window(std::uint32_t address) {
  const std::uint32_t rank = address >> 24, low = address & 0xffffff;
  std::uintptr_t at = 0;
  for (const auto& [window, start, bytes] : window_) {
    if (at == 0 || low >= window) at = start + low - window;
  }
  if (at == 0) return reinterpret_cast<void*>(shared_base_ + low);  // nothing has an address yet
  if (cluster_ == nullptr || rank >= cluster_->blocks().size()) return reinterpret_cast<void*>(at);
  return reinterpret_cast<void*>(at - shared_base_ + cluster_->blocks()[rank]->shared_base_);
}

std::uint32_t BlockRunner::window_address(const void* pointer) {
  const BlockRunner* const owner =
      cluster_ != nullptr ? cluster_->owner_of(reinterpret_cast<std::uintptr_t>(pointer)) : nullptr;
  if (owner == nullptr || owner == this) return shared_address(pointer);
  const std::uintptr_t own = reinterpret_cast<std::uintptr_t>(pointer) - owner->shared_base_ + shared_base_;
  return (shared_address(reinterpret_cast<const void*>(own)) & 0xffffff) +
         (std::uint32_t(owner->rank_) << 24);
}

const std::uint32_t* BlockRunner::copy_of_operand(const std::uint32_t* const* registers) {
  const OutsideKernel outside;
  operand_copies_.resize(kMaxThreads);
  std::array<std::uint32_t, 4>& copy = operand_copies_[std::size_t(current_->linear)];
  for (std::size_t i = 0; i < 4; ++i) copy[i] = *registers[i];
  return copy.data();
}

void BlockRunner::refuse(const char* why, const void* pc) {
  const FindingKey key{.kind = DefectKind::kUnsupported, .pc = reinterpret_cast<std::uintptr_t>(pc)};
  found(key, [&](Example& e) {
    fill(e, current_->linear, Space::kShared, shared_base_);
    e.detail = why;
  });
  stop();
}

void BlockRunner::check_map(const TensorMap& map, const void* address, int rank, const void* pc) {
  if (!map.is_valid()) misuse(pc, {"these bytes are not what cuTensorMapEncodeTiled() has made"});
  if (reinterpret_cast<std::uintptr_t>(address) % 64 != 0)
    misuse(pc, {"the tensor map must be at a multiple of 64 bytes"});
  if (map.rank != rank)
    misuse(pc, {"the tensor map has " + std::to_string(int(map.rank)) + " dimensions, the instruction " +
                std::to_string(rank)});
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
