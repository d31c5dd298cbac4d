#include "gpusim/runtime/access.hpp"

namespace gpusim {

void AccessLog::enter(int lane) {
  lane_ = lane;
  bit_ = 1u << lane;
  cursor_ = follows_ && kept_ == 0 ? &accesses_[0] : nowhere();
  latest_ = -1;
}

bool AccessLog::append(InstructionKey key, const LoopTracker& place, std::uintptr_t address) {
  const auto follows = [&] {
    if (cursor_->id != id_of(key, place.iteration())) return false;
    join(*cursor_++, address);
    return true;
  };
  if (follows()) return true;
  if (cursor_ == &accesses_[count_] && !slots_in_use_ && pacer_ < 0) {  // at the end of the path: extend it
    if (!may_add(key, place, nullptr)) return false;
    add(key, place);
    return follows();
  }
  if (cursor_ == &accesses_[count_] && !slots_in_use_ && !is_before_pacer(key, place)) return false;
  if (!slots_in_use_) start_slots();
  if (cursor_ != nowhere()) leave_path();
  const std::uint16_t slot = slot_of(id_of(key, place.iteration()));
  Slot& s = slots_[slot];
  int i = s.latest[lane_] >= 0 ? accesses_[s.latest[lane_]].next_same : s.first;
  if (i < 0) {
    if (!may_add(key, place, &s)) return false;
    i = add(key, place);
  }
  s.latest[lane_] = std::int16_t(i);
  latest_ = i;
  join(accesses_[i], address);
  return true;
}

void AccessLog::join(WarpAccess& access, std::uintptr_t address) {
  access.addresses[lane_] = address;
  access.lanes |= bit_;
  const std::size_t size = access.key.size();
  if (access.key.kind() == AccessKind::kWrite && size != 0 && size <= 16)
    access.replaced[lane_] = digest(address, size);
}

/// Whether the lane may add an execution of this instruction. The first one that may not becomes the pacer.
bool AccessLog::may_add(InstructionKey key, const LoopTracker& place, const Slot* slot) {
  if (pacer_ < 0) {
    if (count_ - kept_ < kWindow) return true;
    pace(key, place);
    return false;
  }
  if (!is_before_pacer(key, place)) return false;
  if (count_ == kCapacity) {  // the other lanes have to wait for this one
    pace(key, place);
    return false;
  }
  // The pacer has executed it less often than this lane, but only because it has not finished.
  return slot == nullptr || slot->first < 0 || (accesses_[slot->first].lanes >> pacer_ & 1) == 0;
}

void AccessLog::pace(InstructionKey key, const LoopTracker& place) {
  pacer_ = lane_;
  pacer_stands_before_ = key;
  pacer_place_ = place;
}

bool AccessLog::is_before_pacer(InstructionKey key, const LoopTracker& place) const {
  const auto order = place <=> pacer_place_;
  return order < 0 || (order == 0 && key.pc() < pacer_stands_before_.pc());
}

int AccessLog::add(InstructionKey key, const LoopTracker& place) {
  accesses_[count_].expected = 0;
  accesses_[count_].id = id_of(key, place.iteration());
  accesses_[count_].key = key;
  accesses_[count_].lanes = 0;
  places_[count_] = place;
  if (slots_in_use_) link(count_);
  void_entry(accesses_[count_ + 1]);
  return count_++;
}

void AccessLog::leave_path() {
  for (std::uint16_t slot : used_slots_) slots_[slot].latest[lane_] = -1;
  const int made = int(cursor_ - &accesses_[0]);
  for (int i = 0; i < made; ++i) slots_[accesses_[i].slot].latest[lane_] = std::int16_t(i);
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

/// From here to the end of the window, instructions are looked up.
void AccessLog::start_slots() {
  if (slots_.empty()) slots_.resize(kSlots);
  slots_in_use_ = true;
  for (int i = 0; i < count_; ++i) link(i);
}

/// Marks the entries beyond the pacer. @return whether there are any, and room for more
bool AccessLog::find_those_ahead() {
  int staying = 0;
  for (int i = 0; i < count_; ++i) {
    stays_[i] = !is_before_pacer(accesses_[i].key, places_[i]);
    staying += stays_[i];
  }
  return staying > 0 && staying <= kCapacity - kWindow;
}

void AccessLog::next_window(bool some_stay) {
  int kept = 0;
  for (int i = 0; some_stay && i < count_; ++i) {
    if (!stays_[i] || i == kept++) continue;
    accesses_[kept - 1] = accesses_[i];
    places_[kept - 1] = places_[i];
  }
  for (std::uint16_t slot : used_slots_) slots_[slot].used = false;
  used_slots_.clear();
  slots_in_use_ = false;
  count_ = kept_ = kept;
  void_entry(accesses_[count_]);
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
