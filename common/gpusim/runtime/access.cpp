#include "gpusim/runtime/access.hpp"

namespace gpusim {

std::uint16_t AccessLog::slot_of(InstructionKey key) {
  std::uint64_t hash = (key.bits ^ key.iteration) * 0x9e3779b97f4a7c15ull;
  for (auto slot = std::uint16_t(hash >> 54);; slot = std::uint16_t((slot + 1) % kSlots)) {
    Slot& s = slots_[slot];
    if (!s.used) {
      s.used = true;
      s.key = key;
      s.first = s.last = -1;
      s.latest.fill(-1);
      used_slots_.push_back(slot);
      return slot;
    }
    if (s.key == key) return slot;
  }
}

/// Adds execution i to the list of its instruction.
void AccessLog::link(int i) {
  const std::uint16_t slot = slot_of(accesses_[i].key);
  Slot& s = slots_[slot];
  accesses_[i].slot = slot;
  accesses_[i].next_same = -1;
  if (s.first < 0) s.first = i;
  if (s.last >= 0) accesses_[s.last].next_same = i;
  s.last = i;
}

void AccessLog::start_slots() {
  if (slots_.empty()) slots_.resize(kSlots);
  slots_in_use_ = true;
  for (int i = 0; i < count_; ++i) link(i);
}

void AccessLog::forget_slots() {
  for (std::uint16_t slot : used_slots_) slots_[slot].used = false;
  used_slots_.clear();
  slots_in_use_ = false;
}

bool AccessLog::append_slow(InstructionKey key, std::uintptr_t address) {
  if (follows_ && cursor_ == count_) {  // at the end of the path: this lane extends it
    if (count_ == kCapacity) return false;
    accesses_[count_] = {key, 0, -1, 0};
    if (slots_in_use_) link(count_);
    ++count_;
    put(cursor_++, address);
    return true;
  }
  if (!slots_in_use_) start_slots();
  if (follows_) {  // leaves the path here: from now on it looks its instructions up
    follows_ = false;
    for (std::uint16_t slot : used_slots_) slots_[slot].latest[lane_] = -1;
    for (int i = 0; i < cursor_; ++i) slots_[accesses_[i].slot].latest[lane_] = i;
  }
  const std::uint16_t slot = slot_of(key);
  Slot& s = slots_[slot];
  int i = s.latest[lane_] >= 0 ? accesses_[s.latest[lane_]].next_same : s.first;
  if (i < 0) {
    if (count_ == kCapacity) return false;
    i = count_++;
    accesses_[i] = {key, 0, -1, 0};
    link(i);
  }
  slots_[slot].latest[lane_] = i;
  put(i, address);
  return true;
}

}  // namespace gpusim
