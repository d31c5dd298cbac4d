/// @file
/// Checks an access that a thread is about to make, and reports it if it is not allowed.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "gpusim/runtime/block.hpp"
#include "gpusim/runtime/cluster.hpp"
#include "gpusim/runtime/host_memory.hpp"
#include "gpusim/runtime/symbols.hpp"

namespace gpusim {
namespace {

/// Calls f(state, bits) for each word that contains some of the bytes, with the bits that represent them.
template <class F>
void for_each_word(std::uint8_t* state, std::uintptr_t address, std::size_t size, F&& f) {
  for (const std::uintptr_t end = address + size; address < end; ++state) {
    const std::uintptr_t next = std::min(end, address / 4 * 4 + 4);
    f(*state, std::uint8_t(((1u << (next - address)) - 1) << address % 4));
    address = next;
  }
}

bool all_initialized(std::uint8_t* state, std::uintptr_t address, std::size_t size) {
  bool all = true;
  for_each_word(state, address, size, [&](std::uint8_t s, std::uint8_t bits) { all &= (s & bits) == bits; });
  return all;
}

/// Whether bytes that nothing has written may lie between the members of a struct, or after them, where a
/// kernel that writes the members writes nothing. Of a piece of an object that is copied as a whole, any byte
/// may. An access of 16 bytes is one of a vector, or of a struct such as {int, double} or {double, int}: the
/// latter if its neighbour has the same gap.
bool may_be_padding(const std::uint8_t* state, std::size_t size, bool of_object) {
  if (of_object) return std::any_of(state, state + (size + 3) / 4, [](std::uint8_t s) { return s != 0; });
  constexpr std::uint8_t kAll = 0xf;
  const auto ends_with_gap = [](const std::uint8_t* s) {
    return s[0] == kAll && s[1] == kAll && s[2] != 0 && s[3] != kAll;
  };
  if (size != 16 || state[0] != kAll) return false;
  if (state[1] != kAll) return state[2] == kAll && state[3] == kAll;
  return ends_with_gap(state) && (ends_with_gap(state - 4) || ends_with_gap(state + 4));
}

void set_initialized(std::uint8_t* state, std::uintptr_t address, std::size_t size) {
  for_each_word(state, address, size, [](std::uint8_t& s, std::uint8_t bits) {
    if ((s & bits) == bits) return;
    // Two blocks may own the halves of a word.
    std::atomic_ref<std::uint8_t>(s).fetch_or(bits, std::memory_order_relaxed);
  });
}

}  // namespace

void BlockRunner::on_access(const void* pointer, std::size_t size, AccessKind kind, const void* pc,
                            bool aligned) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  Space space = Space::kGlobal;
  if (address - shared_base_ < shared_bytes_) {
    if (variables_[variable_of_word_[(address - shared_base_) / 4]].is_index) return;  // clang's hooks see it
    space = Space::kShared;
    if (!check_shared(address, size, kind, pc, aligned)) return;
  } else if (address - arena_base_ < arena_bytes_) {
    if (!check_global(address, size, kind, pc, aligned)) return;
  } else {
    return is_own_local(address) ? access_local(address, size, kind, pc)
                                 : access_elsewhere(address, size, kind, pc, aligned);
  }
  const InstructionKey key = InstructionKey::make(pc, size, kind, space);
  if (debugging_) [[unlikely]] {  // with this thread on the stack
    const OutsideKernel outside;
    const int warp = current_->linear / kWarpSize;
    warps_[warp].barrier_pc = nullptr;
    find_races(key, address, 1u << lane(), actor_of(key, warp));
    if (kind == AccessKind::kWrite) latest_stores_[address] = iteration_;
  }
  of_object_ = false;
  note_depth();
  while (!log_.append(key, current_->loops, address)) suspend();
  if (WarpAccess* const access = log_.newest())
    AccessLog::keep_to(*access, surroundings(space, address, size), iteration_);
}

/// What is around an address that has been checked.
Surroundings BlockRunner::surroundings(Space space, std::uintptr_t address, std::size_t size) {
  if (space == Space::kGlobal) {
    const Allocation& a = arena_.allocation(arena_.find(address, size));
    return {a.begin, a.end - a.begin - size,
            reinterpret_cast<std::uintptr_t>(arena_.initialized(address)) - address / 4};
  }
  const StaticVariable& v = *variable_at(address - shared_base_);
  const auto state = reinterpret_cast<std::uintptr_t>(&shared_state_[(address - shared_base_) / 4]);
  return {shared_base_ + v.offset, v.bytes - size, state - address / 4};
}

/// An address in a local variable of the thread.
void BlockRunner::access_local(std::uintptr_t address, std::size_t size, AccessKind kind, const void* pc) {
  if (kind == AccessKind::kCopyIssue) trap(DefectKind::kOutOfBounds, Space::kShared, address, size, kind, pc);
  if (register_time_ != 0) note_register(address, size, kind, pc);
}

/// An address outside of the device's memory, this block's and this thread's. Ends the thread if no kernel
/// may use it.
void BlockRunner::access_elsewhere(std::uintptr_t address, std::size_t size, AccessKind kind, const void* pc,
                                   bool aligned) {
  if (cluster_ != nullptr) {
    if (BlockRunner* const owner = cluster_->owner_of(address))
      return access_remote(address, size, kind, pc, aligned, *owner);
  }
  if (kind == AccessKind::kCopyIssue) trap(DefectKind::kOutOfBounds, Space::kShared, address, size, kind, pc);
  const auto arguments = reinterpret_cast<std::uintptr_t>(launch_->arguments);
  const bool is_read = kind == AccessKind::kRead;
  if (is_read && address - arguments < launch_->argument_bytes)
    return;  // a thread copies them when it begins
  if (is_pinned(address, size) || is_device_variable(address) || (is_read && is_constant(address))) return;
  {
    const OutsideKernel outside;  // functions of the standard library that the runtime calls may have hooks
    if (is_in_library(reinterpret_cast<std::uintptr_t>(pc))) return;
  }
  const Space space = owner_of_local(address) >= 0 ? Space::kLocal : Space::kGlobal;
  trap(DefectKind::kOutOfBounds, space, address, size, kind, pc);
}

/// The thread of the block that has a local variable at an address; -1 if there is none.
int BlockRunner::owner_of_local(std::uintptr_t address) const {
  const std::uintptr_t offset = address - reinterpret_cast<std::uintptr_t>(stacks_);
  return offset < std::size_t(thread_count_) * kStackStride ? int(offset / kStackStride) : -1;
}

/// An address in the shared memory of another block of the cluster.
void BlockRunner::access_remote(std::uintptr_t address, std::size_t size, AccessKind kind, const void* pc,
                                bool aligned, BlockRunner& owner) {
  const std::size_t offset = address - owner.shared_base_;
  const StaticVariable* const v = variable_at(offset);
  if (v == nullptr || offset - v->offset + size > v->bytes)
    trap(DefectKind::kOutOfBounds, Space::kCluster, address, size, kind, pc);
  if (aligned && address % size != 0) trap(DefectKind::kMisaligned, Space::kCluster, address, size, kind, pc);
  std::uint8_t* const state = &owner.shared_state_[offset / 4];
  if (kind == AccessKind::kWrite) {
    set_initialized(state, address, size);
  } else if (!all_initialized(state, address, size)) {
    found_uninitialized(Space::kCluster, address, size, pc);
  }
  if (kind != AccessKind::kRead && std::max(current_->cluster.waited, known_phases_) == 0) {
    const FindingKey key{.kind = DefectKind::kOutOfBounds,
                         .pc = reinterpret_cast<std::uintptr_t>(pc),
                         .access = kind,
                         .space = Space::kCluster,
                         .bytes = std::uint32_t(size)};
    found(key, [&](Example& e) {
      fill(e, current_->linear, Space::kCluster, address);
      e.note += ", which may not have started: no barrier of the cluster comes before this access";
    });
  }
  const InstructionKey key = InstructionKey::make(pc, size, kind, Space::kCluster);
  if (debugging_) [[unlikely]] {
    const OutsideKernel outside;
    find_races(key, address, 1u << lane(), actor_of(key, current_->linear / kWarpSize));
  }
  while (!log_.append(key, current_->loops, address)) suspend();
}

void BlockRunner::change_loop(const void* pc, const void* frame) {
  current_->loops.change_loop(reinterpret_cast<std::uintptr_t>(pc), reinterpret_cast<std::uintptr_t>(frame));
  iteration_ = current_->loops.iteration();
}

void BlockRunner::count_block(const void* pc) {
  const OutsideKernel outside;
  ++tally.blocks[reinterpret_cast<std::uintptr_t>(pc)];
}

bool BlockRunner::check_global(std::uintptr_t address, std::size_t size, AccessKind kind, const void* pc,
                               bool aligned) {
  if (arena_.find(address, size) == 0) {
    if (kind == AccessKind::kRead) {
      read_outside(Space::kGlobal, address, size, pc);
      arena_.poison(address, size);
      return false;
    }
    trap(DefectKind::kOutOfBounds, Space::kGlobal, address, size, kind, pc);
  }
  if (aligned && address % size != 0) trap(DefectKind::kMisaligned, Space::kGlobal, address, size, kind, pc);
  std::uint8_t* state = arena_.initialized(address);
  if (kind == AccessKind::kWrite || kind == AccessKind::kPublish) {
    set_initialized(state, address, size);
  } else if (!all_initialized(state, address, size) && !may_be_padding(state, size, of_object_)) {
    found_uninitialized(Space::kGlobal, address, size, pc);
  }
  return true;
}

/// A thread goes on after a read out of bounds with what is there: ones, unless it belongs to something else.
/// A loop that goes on for long with that has lost its way.
void BlockRunner::read_outside(Space space, std::uintptr_t address, std::size_t size, const void* pc) {
  constexpr int kMost = 1 << 12;
  if (current_->reads_outside < kMost && !may_follow(space, address)) {
    const FindingKey key{.kind = DefectKind::kOutOfBounds,
                         .pc = reinterpret_cast<std::uintptr_t>(pc),
                         .access = AccessKind::kRead,
                         .space = space,
                         .bytes = std::uint32_t(size)};
    found(key, [&](Example& e) { fill(e, current_->linear, space, address); });
  }
  if (++current_->reads_outside > kMost) stop();
}

/// Whether an address out of bounds may come from a value that the thread has read out of bounds: ones make
/// -1 of an index, or a very large one.
bool BlockRunner::may_follow(Space space, std::uintptr_t address) const {
  if (current_->reads_outside == 0) return false;
  if (space != Space::kGlobal || !arena_.contains(address)) return space == Space::kGlobal;
  constexpr std::uintptr_t kFar = std::uintptr_t(1) << 26;
  const std::uint32_t nearest = arena_.nearest(address);
  return nearest == 0 || address - arena_.allocation(nearest).end >= kFar;
}

bool BlockRunner::check_shared(std::uintptr_t address, std::size_t size, AccessKind kind, const void* pc,
                               bool aligned) {
  const std::size_t offset = address - shared_base_;
  const StaticVariable* const v = variable_at(offset);
  if (v == nullptr || offset - v->offset + size > v->bytes) [[unlikely]] {
    if (kind == AccessKind::kRead && address % size == 0) {
      read_outside(Space::kShared, address, size, pc);
      return false;
    }
    trap(DefectKind::kOutOfBounds, Space::kShared, address, size, kind, pc);
  }
  if (aligned && address % size != 0) trap(DefectKind::kMisaligned, Space::kShared, address, size, kind, pc);
  if (kind == AccessKind::kCopyIssue) return true;
  std::uint8_t* state = &shared_state_[offset / 4];
  if (kind == AccessKind::kWrite || kind == AccessKind::kCopyLand) {
    set_initialized(state, address, size);
  } else if (!of_object_ && !all_initialized(state, address, size)) {
    found_uninitialized(Space::kShared, address, size, pc);
  }
  return true;
}

BlockRunner::StaticVariable* BlockRunner::variable_at(std::size_t offset) {
  if (offset >= shared_bytes_) return nullptr;
  StaticVariable& usual = variables_[variable_of_word_[offset / 4]];  // unless two share the word
  if (offset - usual.offset < usual.bytes) return &usual;
  for (StaticVariable& v : variables_) {
    if (offset >= v.offset && offset < v.offset + v.bytes) return &v;
  }
  return nullptr;
}

std::string BlockRunner::place_of(Space space, std::uintptr_t address) const {
  if (const int owner = owner_of_local(address); owner >= 0)
    return "in the local memory of thread " + triple(block_dim_.at(std::uint64_t(owner)));
  if (space == Space::kGlobal) return arena_.place_of(address);
  const std::size_t offset = address - shared_base_;
  if (offset >= shared_bytes_) {
    return arena_.contains(address) ? arena_.place_of(address) + ", in global memory"
                                    : "in the host's memory, not in shared memory";
  }
  const StaticVariable* best = nullptr;
  std::size_t best_distance = ~std::size_t(0);
  for (const StaticVariable& v : variables_) {
    if (v.name.empty() || v.is_index) continue;
    const std::size_t end = v.offset + v.bytes;
    const std::size_t distance = offset >= end ? offset - end + 1 : offset < v.offset ? v.offset - offset : 0;
    if (distance < best_distance) {
      best = &v;
      best_distance = distance;
    }
  }
  if (best == nullptr) return "byte " + std::to_string(offset);
  return place_in(best->name, shared_base_ + best->offset, shared_base_ + best->offset + best->bytes,
                  address);
}

void BlockRunner::fill(Example& e, int thread, Space space, std::uintptr_t address) const {
  e.rival_block = linear_;
  e.thread = thread;
  e.grid = grid_dim_;
  e.block_dim = block_dim_;
  e.note.clear();
  if (space == Space::kCluster) {
    const BlockRunner& owner = *cluster_->owner_of(address);
    e.note = " in " + owner.block_name();
    address = in_own_memory(address, owner);
    space = Space::kShared;
  }
  e.address = address;
  e.place = place_of(space, address);
  e.shared = space == Space::kGlobal ? SharedByte() : shared_byte(address);
  e.parameters = launch_->parameters;
}

SharedByte BlockRunner::shared_byte(std::uintptr_t address) const {
  SharedByte byte;
  const std::size_t offset = address - shared_base_;
  for (const StaticVariable& v : variables_) {
    if (offset - v.offset >= v.bytes) continue;
    byte.variable = v.name;
    byte.offset = offset - v.offset;
    byte.bytes = v.bytes;
  }
  for (const DeclaredObject& object : declared_) {
    if (!object.contains(address)) continue;
    byte.object = object;
    byte.offset_in_object = address - object.begin;
  }
  return byte;
}

/// Reports an access that cannot be made, and ends the thread instead. The block is abandoned as soon as the
/// other lanes have had their turn, so that all of them are counted.
void BlockRunner::trap(DefectKind kind, Space space, std::uintptr_t address, std::size_t size,
                       AccessKind access, const void* pc) {
  const FindingKey key{.kind = kind,
                       .pc = reinterpret_cast<std::uintptr_t>(pc),
                       .access = access,
                       .space = space,
                       .bytes = std::uint32_t(size)};
  if (!may_follow(space, address)) found(key, [&](Example& e) { fill(e, current_->linear, space, address); });
  stop();
}

void BlockRunner::index_out_of_bounds(const IndexedArray& array, std::int64_t index, const void* pc) {
  const FindingKey key{.kind = DefectKind::kOutOfBounds, .pc = reinterpret_cast<std::uintptr_t>(pc)};
  {
    const OutsideKernel outside;
    found(key, [&](Example& e) {
      fill(e, current_->linear, Space::kShared, shared_base_);
      e.index = index;
      e.detail = describe(array);
    });
  }
  stop();
}

void BlockRunner::read_unwritten_local(const void* pc, int thread) {
  const FindingKey key{.kind = DefectKind::kUninitializedRead,
                       .pc = reinterpret_cast<std::uintptr_t>(pc),
                       .space = Space::kLocal,
                       .bytes = 4};
  found(key, [&](Example& e) {
    fill(e, thread >= 0 ? thread : current_->linear, Space::kShared, shared_base_);
    e.shared = {};
    e.address = 0;
  });
}

void BlockRunner::stop() {
  trapped_ = true;
  current_->open_group.clear();
  current_->groups.clear();
  end_thread();
}

void BlockRunner::found_uninitialized(Space space, std::uintptr_t address, std::size_t size, const void* pc) {
  if (current_->reads_outside != 0) return;
  if (space == Space::kGlobal && follows_lost_block_) {
    ++tally.muted;
    return;
  }
  const FindingKey key{.kind = DefectKind::kUninitializedRead,
                       .pc = reinterpret_cast<std::uintptr_t>(pc),
                       .space = space,
                       .bytes = std::uint32_t(size)};
  found(key, [&](Example& e) { fill(e, current_->linear, space, address); });
}

}  // namespace gpusim
