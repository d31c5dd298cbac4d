/// @file
/// Values and turns that a block hands to blocks with higher numbers.
#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

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

/// A word that other blocks change while this one waits.
void BlockRunner::check_awaited(const void* word, const void* pc) {
  const auto address = reinterpret_cast<std::uintptr_t>(word);
  if (address - arena_base_ >= arena_bytes_)
    trap(DefectKind::kOutOfBounds, Space::kGlobal, address, 4, AccessKind::kReadPublished, pc);
  check_global(address, 4, AccessKind::kReadPublished, pc, true);
}

std::uint32_t BlockRunner::await_published(const std::uint32_t* from, const void* pc) {
  check_awaited(from, pc);
  const auto is_published = [&] {
    const std::uint32_t by = arena_.publishers().of(reinterpret_cast<std::uintptr_t>(from) - arena_base_);
    return by >= first_block() && by < number_;
  };
  while (!is_published()) {
    if (Progress::instance().is_lowest(number_) && !is_published())
      misuse(pc, {"waits for a value that no earlier block of the grid publishes"});
    std::this_thread::yield();
  }
  return __atomic_load_n(from, __ATOMIC_SEQ_CST);
}

void BlockRunner::await_turn(const int* counter, int turn, const void* pc) {
  check_awaited(counter, pc);
  for (;;) {
    const bool is_last_chance = Progress::instance().is_lowest(number_);  // no other block can pass turns on
    const int now = __atomic_load_n(counter, __ATOMIC_SEQ_CST);
    if (now == turn) break;
    if (now > turn) {
      misuse(pc, {"takes turn " + std::to_string(turn) + " out of order: it is turn " + std::to_string(now) +
                  " already"});
    }
    if (is_last_chance) {
      misuse(pc, {"takes turn " + std::to_string(turn) +
                  " out of order: no earlier block of the grid passes on turn " + std::to_string(now)});
    }
    std::this_thread::yield();
  }
  const OutsideKernel outside;
  current_->bulk.turns.push_back({counter, turn});
}

void BlockRunner::pass_turn(int* counter, int turn, const void* pc) {
  std::vector<Turn>& turns = current_->bulk.turns;
  const auto held = std::find_if(turns.begin(), turns.end(),
                                 [&](const Turn& t) { return t.counter == counter && t.number == turn; });
  if (held == turns.end()) {
    misuse(pc,
           {"passes on turn " + std::to_string(turn) + " out of order: this thread has not waited for it"});
  }
  for (const auto& copy : current_->bulk.pending) {
    if (copy->turn != counter) continue;
    misuse(pc, {"passes on turn " + std::to_string(turn) + " before the store at ", Piece::line(copy->pc),
                " is complete: no bulk_wait() between the two"});
  }
  on_access(counter, 4, AccessKind::kPublish, pc);
  __atomic_store_n(counter, turn + 1, __ATOMIC_SEQ_CST);
  const OutsideKernel outside;
  turns.erase(held);
}

}  // namespace gpusim
