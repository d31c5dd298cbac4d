#include "gpusim/runtime/access.hpp"

namespace gpusim {

void AccessLog::enter(int lane) {
  lane_ = lane;
  bit_ = 1u << lane;
  cursor_ = &accesses_[0];
  position_ = -1;
  if (kept_ == 0) return;
  cursor_ = nowhere();
  for (int i = 0; i < kept_; ++i) {
    if (accesses_[i].lanes & bit_) position_ = i;
  }
}

bool AccessLog::append(InstructionKey key, std::uint64_t iteration, std::uintptr_t address) {
  if (follow(key, iteration, address)) return true;
  const std::uint64_t id = id_of(key, iteration);
  const bool at_the_end = cursor_ == &accesses_[count_] && !slots_in_use_;
  if (at_the_end && (pacer_ < 0 || id == pacer_stands_at_)) {  // of the path: this lane extends it
    if (!may_add(id, nullptr)) return false;
    add(key, id);
    return follow(key, iteration, address);
  }
  if (!slots_in_use_) start_slots();
  if (cursor_ != nowhere()) leave_path();
  const std::uint16_t slot = slot_of(id);
  Slot& s = slots_[slot];
  int i = s.latest[lane_] >= 0 ? accesses_[s.latest[lane_]].next_same : s.first;
  if (i < 0) {
    if (!may_add(id, &s)) return false;
    i = add(key, id);
    std::int16_t& before = position_ < 0 ? head_ : accesses_[position_].next;
    accesses_[i].next = before;
    before = std::int16_t(i);
  }
  s.latest[lane_] = std::int16_t(i);
  position_ = i;
  accesses_[i].addresses[lane_] = address;
  accesses_[i].lanes |= bit_;
  return true;
}

/// May the lane add an execution of this instruction? The first one that may not becomes the pacer.
bool AccessLog::may_add(std::uint64_t id, const Slot* slot) {
  if (pacer_ >= 0) {
    if (id == pacer_stands_at_ || count_ == kCapacity) return false;
    // The pacer has executed it less often than this lane: so far only, because it is not done.
    return slot == nullptr || slot->first < 0 || (accesses_[slot->first].lanes >> pacer_ & 1) == 0;
  }
  if (count_ - kept_ < kWindow) return true;
  pacer_ = lane_;
  pacer_stands_at_ = id;
  return false;
}

int AccessLog::add(InstructionKey key, std::uint64_t id) {
  accesses_[count_].id = id;
  accesses_[count_].key = key;
  accesses_[count_].lanes = 0;
  if (slots_in_use_) link(count_);
  accesses_[count_ + 1].id = 0;
  return count_++;
}

void AccessLog::leave_path() {
  for (std::uint16_t slot : used_slots_) slots_[slot].latest[lane_] = -1;
  position_ = int(cursor_ - &accesses_[0]) - 1;
  for (int i = 0; i <= position_; ++i) slots_[accesses_[i].slot].latest[lane_] = std::int16_t(i);
  cursor_ = nowhere();
}

std::uint16_t AccessLog::slot_of(std::uint64_t id) {
  const std::uint64_t hash = id * 0x9e3779b97f4a7c15ull;
  for (auto slot = std::uint16_t(hash >> (64 - std::countr_zero(unsigned(kSlots))));;
       slot = std::uint16_t((slot + 1) % kSlots)) {
    Slot& s = slots_[slot];
    if (!s.used) {
      s.used = true;
      s.id = id;
      s.first = s.last = -1;
      s.latest.fill(-1);
      used_slots_.push_back(slot);
      return slot;
    }
    if (s.id == id) return slot;
  }
}

/// Adds execution i to the list of its instruction.
void AccessLog::link(int i) {
  const std::uint16_t slot = slot_of(accesses_[i].id);
  Slot& s = slots_[slot];
  accesses_[i].slot = slot;
  accesses_[i].next_same = -1;
  if (s.first < 0) s.first = std::int16_t(i);
  if (s.last >= 0) accesses_[s.last].next_same = std::int16_t(i);
  s.last = std::int16_t(i);
}

/// From here to the end of the window: instructions are looked up, and the order of the program is a list,
/// because lanes add to the middle of it.
void AccessLog::start_slots() {
  if (slots_.empty()) slots_.resize(kSlots);
  slots_in_use_ = true;
  head_ = count_ > 0 ? 0 : -1;
  for (int i = 0; i < count_; ++i) {
    link(i);
    accesses_[i].next = std::int16_t(i + 1 < count_ ? i + 1 : -1);
  }
}

/// Marks what the pacer may still take part in: all that lanes have done after their last instruction together
/// with the pacer. @return whether there is any
bool AccessLog::find_stragglers() {
  std::array<std::int16_t, kCapacity> order;
  int n = 0;
  for (std::int16_t i = head_; i >= 0; i = accesses_[i].next) order[n++] = i;
  std::uint32_t together = 0;  // lanes that have been together with the pacer after this point
  int staying = 0;
  while (n-- > 0) {
    const WarpAccess& a = accesses_[order[n]];
    const bool paced = a.lanes >> pacer_ & 1;
    if (paced) together |= a.lanes;
    stays_[order[n]] = !paced && (a.lanes & ~together) != 0;
    staying += stays_[order[n]];
  }
  return staying > 0 && staying <= kCapacity - kWindow;
}

void AccessLog::next_window(bool some_stay) {
  int kept = 0;
  if (some_stay) {
    for (int i = 0; i < count_; ++i) {
      if (stays_[i]) accesses_[kept++] = accesses_[i];
    }
  }
  for (std::uint16_t slot : used_slots_) slots_[slot].used = false;
  used_slots_.clear();
  slots_in_use_ = false;
  count_ = kept_ = kept;
  accesses_[count_].id = 0;
  pacer_ = -1;
  if (kept == 0) return;
  start_slots();
  for (int i = 0; i < kept; ++i) {
    for (std::uint32_t rest = accesses_[i].lanes; rest != 0; rest &= rest - 1) {
      slots_[accesses_[i].slot].latest[std::countr_zero(rest)] = std::int16_t(i);
    }
  }
}

}  // namespace gpusim
