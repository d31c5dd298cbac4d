#include "gpusim/runtime/streams.hpp"

#include <algorithm>
#include <string>

#include "gpusim/runtime/allocation_names.hpp"
#include "gpusim/runtime/arena.hpp"
#include "gpusim/runtime/host_memory.hpp"
#include "gpusim/runtime/session.hpp"
#include "gpusim/runtime/sites.hpp"

namespace gpusim {
namespace {

constexpr std::uint64_t kAtomicBit = 1 << 16;

void join(std::vector<std::uint32_t>& to, const std::vector<std::uint32_t>& from) {
  to.resize(std::max(to.size(), from.size()));
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = std::max(to[i], from[i]);
}

}  // namespace

Streams& Streams::instance() {
  static auto* streams = new Streams;  // never destroyed, like the session
  return *streams;
}

Streams::Streams() : numbers_{{nullptr, 0}}, streams_(1), operations_(1) {}

void Streams::create(const void* stream, bool blocking) {
  const OneHostThread turn;
  numbers_[stream] = streams_.size();
  streams_.push_back({.times = {}, .blocking = blocking});
  constexpr std::size_t kDefaultAndOne = 2;
  if (numbers_.size() > kDefaultAndOne) watch();
}

void Streams::watch() {
  if (several_) return;
  const std::size_t words = Arena::instance().size() / 4;
  if (!writers_) writers_ = Reserved<LastUse>(words);
  if (!readers_) readers_ = Reserved<LastUse>(words);
  several_ = writers_ && readers_;
}

void Streams::destroy(const void* stream) {
  const OneHostThread turn;
  numbers_.erase(stream);
}

Streams::Times Streams::times_before(std::size_t stream) const {
  Times times = streams_[stream].times;
  join(times, host_);
  if (stream == 0) {
    for (const Stream& other : streams_) {
      if (other.blocking) join(times, other.times);
    }
  } else if (streams_[stream].blocking) {
    join(times, streams_[0].times);
  }
  return times;
}

void Streams::record(const void* event, const void* stream) {
  const OneHostThread turn;
  events_[event] = times_before(numbers_.at(stream));
}

void Streams::wait(const void* stream, const void* event) {
  const OneHostThread turn;
  if (const auto found = events_.find(event); found != events_.end()) join(of(stream).times, found->second);
}

void Streams::host_waits_for(const Times& times) {
  join(host_, times);
  if (pinned_uses_.empty()) return;
  const auto is_known = [this](const PinnedUse& use) { return is_over_for_host(operations_[use.operation]); };
  pinned_uses_.erase(std::remove_if(pinned_uses_.begin(), pinned_uses_.end(), is_known), pinned_uses_.end());
  watch_pinned();
}

void Streams::watch_pinned() const {
  std::uintptr_t begin = ~std::uintptr_t(0), end = 0;
  for (const PinnedUse& use : pinned_uses_) {
    begin = std::min(begin, use.begin);
    end = std::max(end, use.end);
  }
  pinned_range = {begin, end == 0 ? 0 : end - begin};
}

void Streams::synchronize(const void* stream) {
  const OneHostThread turn;
  // For the default stream, the host waits for all streams that this one waits for.
  host_waits_for(stream == nullptr ? times_before(0) : of(stream).times);
}

void Streams::synchronize_event(const void* event) {
  const OneHostThread turn;
  if (const auto found = events_.find(event); found != events_.end()) host_waits_for(found->second);
}

void Streams::synchronize_all() {
  const OneHostThread turn;
  Times all;
  for (const Stream& stream : streams_) join(all, stream.times);
  host_waits_for(all);
}

void Streams::begin(const void* stream, const HostCall& call) {
  const OneHostThread turn;
  const std::size_t number = numbers_.at(stream);
  Times& times = streams_[number].times;
  times = times_before(number);
  times.resize(std::max(times.size(), number + 1));
  const std::uint32_t known = number < host_.size() ? host_[number] : 0;
  follows_kernel_ = streams_[number].ends_with_kernel && known < times[number];
  streams_[number].ends_with_kernel = call.routine.empty();
  operations_.push_back({std::uint32_t(number), ++times[number], call});
  if (several_ && call.routine.empty()) operations_.back().call.launch = callers();
  now_ = times;
}

void Streams::mark_transfer() {
  const Operation& operation = operations_.back();
  streams_[operation.stream].last_transfer = operation.time;
}

bool Streams::is_beside_transfer() const {
  for (std::size_t number = 0; number < streams_.size(); ++number) {
    const std::uint32_t over = number < now_.size() ? now_[number] : 0;
    if (streams_[number].last_transfer > over) return true;
  }
  return false;
}

bool Streams::is_over_for_host(const Operation& operation) const {
  return operation.stream < host_.size() && operation.time <= host_[operation.stream];
}

/// Whether an earlier use is over before the latest operation begins. Its own uses count as over.
bool Streams::is_over(std::uint64_t last) const {
  const Operation& operation = operations_[last >> 32];
  return operation.stream < now_.size() && operation.time <= now_[operation.stream];
}

void Streams::use(std::uintptr_t offset, std::size_t bytes, Use use, std::uint16_t site) {
  if (!several_) return;
  const bool reads = use == Use::kRead, atomic = use == Use::kAtomic;
  const std::uint64_t mine = std::uint64_t(operations_.size() - 1) << 32 | (atomic ? kAtomicBit : 0) | site;
  for (std::uintptr_t word = (offset + 3) / 4; word < (offset + bytes) / 4; ++word) {
    const std::uint64_t writer = writers_[word].load(std::memory_order_relaxed);
    const bool both_atomic = atomic && (writer & kAtomicBit) != 0;
    if (writer != 0 && !both_atomic && !is_over(writer)) {
      report(4 * word, (writer & kAtomicBit) != 0 ? Use::kAtomic : Use::kWrite, writer, use, mine);
    }
    if (reads) {
      readers_[word].store(mine, std::memory_order_relaxed);
      continue;
    }
    const std::uint64_t reader = readers_[word].load(std::memory_order_relaxed);
    if (reader != 0 && !is_over(reader)) report(4 * word, Use::kRead, reader, use, mine);
    writers_[word].store(mine, std::memory_order_relaxed);
  }
}

void Streams::share_with_host(std::uintptr_t offset) {
  const std::lock_guard lock(shared_mutex_);
  shared_with_host_.insert(offset / 4);
}

void Streams::use_on_host(std::uintptr_t offset, AccessKind kind, const void* pc) {
  if (!several_) return;
  if (kind != AccessKind::kWrite && shared_with_host_.contains(offset / 4)) return;
  const std::uint64_t writer = writers_[offset / 4].load(std::memory_order_relaxed);
  const std::uint64_t reader =
      kind == AccessKind::kRead ? 0 : readers_[offset / 4].load(std::memory_order_relaxed);
  for (const std::uint64_t other : {writer, reader}) {
    if (other == 0 || is_over_for_host(operations_[other >> 32])) continue;
    const bool is_atomic = (other & kAtomicBit) != 0;
    if (is_atomic && kind == AccessKind::kAtomic) continue;
    const Arena& arena = Arena::instance();
    Session::instance().add({.kind = DefectKind::kRace,
                             .pc = reinterpret_cast<std::uintptr_t>(pc),
                             .rival_pc = pc_of(other),
                             .access = kind,
                             .rival_access = is_atomic         ? AccessKind::kAtomic
                                             : other == writer ? AccessKind::kWrite
                                                               : AccessKind::kRead,
                             .space = Space::kGlobal,
                             .bytes = 4},
                            {.block = offset / 4,
                             .address = arena.base() + offset,
                             .place = "managed memory, " + arena.place_of(arena.base() + offset),
                             .of_operations = true,
                             .on_host = true,
                             .rival_call = operations_[other >> 32].call});
  }
}

void Streams::use_pinned(const void* memory, std::size_t bytes, Use use) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  if (!is_pinned(begin, bytes)) return;
  const std::size_t operation = operations_.size() - 1;
  const auto same = std::find_if(pinned_uses_.begin(), pinned_uses_.end(), [&](const PinnedUse& known) {
    return known.begin == begin && known.end == begin + bytes && known.use == use &&
           operations_[known.operation].stream == operations_[operation].stream;
  });
  if (same != pinned_uses_.end()) {
    same->operation = operation;
    return;
  }
  constexpr std::size_t kMost = 1024;  // of a program that never waits, the latest
  if (pinned_uses_.size() == kMost) pinned_uses_.erase(pinned_uses_.begin());
  pinned_uses_.push_back({begin, begin + bytes, use, operation});
  watch_pinned();
}

void Streams::use_pinned_on_host(std::uintptr_t address, AccessKind kind, const void* pc, bool polls) {
  const OneHostThread turn;
  const auto meets = [&](const PinnedUse& use) {
    return address - use.begin < use.end - use.begin && (use.use == Use::kWrite || kind != AccessKind::kRead);
  };
  const auto found = std::find_if(pinned_uses_.begin(), pinned_uses_.end(), meets);
  if (found == pinned_uses_.end()) return;
  const Operation& operation = operations_[found->operation];
  if (polls) {
    Times seen(operation.stream + 1);
    seen[operation.stream] = operation.time;
    return host_waits_for(seen);
  }
  const bool writes = found->use == Use::kWrite;
  Session::instance().add({.kind = DefectKind::kRace,
                           .pc = reinterpret_cast<std::uintptr_t>(pc),
                           .rival_pc = reinterpret_cast<std::uintptr_t>(operation.call.pc),
                           .access = kind,
                           .rival_access = writes ? AccessKind::kWrite : AccessKind::kRead,
                           .space = Space::kGlobal,
                           .bytes = 1},
                          {.block = address - found->begin,  // the lowest byte is shown
                           .address = address,
                           .place = "pinned memory, byte " + std::to_string(address - found->begin) +
                                    " of what the copy " + (writes ? "writes" : "reads"),
                           .of_operations = true,
                           .on_host = true,
                           .rival_call = operation.call});
}

/// The return address of an access, or of the routine that makes it.
std::uintptr_t Streams::pc_of(std::uint64_t user) const {
  const HostCall& call = operations_[user >> 32].call;
  return call.routine.empty() ? pc_of_site(std::uint16_t(user)) : reinterpret_cast<std::uintptr_t>(call.pc);
}

void Streams::report(std::uintptr_t offset, Use one_use, std::uint64_t one, Use other_use,
                     std::uint64_t other) const {
  const Arena& arena = Arena::instance();
  constexpr AccessKind kKinds[] = {AccessKind::kRead, AccessKind::kWrite, AccessKind::kAtomic,
                                   AccessKind::kInTurn};
  const std::uintptr_t address = arena.base() + offset;
  Session::instance().add({.kind = DefectKind::kRace,
                           .pc = pc_of(other),
                           .rival_pc = pc_of(one),
                           .access = kKinds[int(other_use)],
                           .rival_access = kKinds[int(one_use)],
                           .space = Space::kGlobal,
                           .bytes = 4},
                          {.block = offset / 4,  // the lowest word is shown
                           .address = address,
                           .place = arena.place_of(address),
                           .of_operations = true,
                           .call = operations_[other >> 32].call,
                           .rival_call = operations_[one >> 32].call});
}

void Streams::forget(std::uintptr_t offset, std::size_t bytes) {
  if (!several_) return;
  shared_with_host_.erase(shared_with_host_.lower_bound(offset / 4),
                          shared_with_host_.lower_bound((offset + bytes) / 4));
  writers_.clear(offset / 4, bytes / 4);
  readers_.clear(offset / 4, bytes / 4);
}

}  // namespace gpusim
