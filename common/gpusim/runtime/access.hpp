/// @file
/// The vocabulary of the runtime: what an access is, where it came from, and the log in which the accesses
/// of one warp are lined up into warp instructions.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace gpusim {

inline constexpr int kWarpSize = 32;
inline constexpr int kMaxThreads = 1024;
inline constexpr int kMaxWarps = kMaxThreads / kWarpSize;

enum class Space : std::uint8_t { kGlobal, kShared };

/// kCopyIssue and kCopyLand are the two ends of an asynchronous copy into shared memory: between them the
/// destination may change at any moment.
enum class AccessKind : std::uint8_t { kRead, kWrite, kAtomic, kCopyIssue, kCopyLand };

/// What the lanes of a warp instruction have in common.
struct InstructionKey {
  std::uint64_t bits = 0;       ///< return address of the hook (48 bits), width (8), kind (4), space (4)
  std::uint64_t iteration = 0;  ///< of the loops around it: LoopTracker

  static InstructionKey make(const void* pc, std::size_t size, AccessKind kind, Space space,
                             std::uint64_t iteration) {
    return {reinterpret_cast<std::uint64_t>(pc) | std::uint64_t(size) << 48 | std::uint64_t(kind) << 56 |
                std::uint64_t(space) << 60,
            iteration};
  }
  std::uintptr_t pc() const { return bits & ((std::uint64_t(1) << 48) - 1); }
  std::size_t size() const { return (bits >> 48) & 0xff; }
  AccessKind kind() const { return AccessKind((bits >> 56) & 0xf); }
  Space space() const { return Space(bits >> 60); }
  bool operator==(const InstructionKey&) const = default;
};

/// One warp instruction: which lanes took part, and each one's address.
struct WarpAccess {
  InstructionKey key;
  std::uint32_t lanes = 0;
  std::int32_t next_same = -1;  ///< the next execution of the same instruction, once `slots_` are in use
  std::uint16_t slot = 0;
};

/// The accesses of one warp since its last synchronisation.
///
/// Lanes run one after the other, but on a GPU they run side by side. The n-th execution of an instruction
/// by one lane, in one iteration of the loops around it, is taken to be the same warp instruction as the n-th
/// execution by another lane in the same iteration. The first lane
/// writes the sequence down; as long as the next lanes follow it step by step, which is nearly always, one
/// comparison per access is enough. A lane that takes another path is lined up through `slots_`.
class AccessLog {
 public:
  static constexpr int kCapacity = 512;

  AccessLog() : addresses_(std::make_unique<std::array<std::uintptr_t, kWarpSize>[]>(kCapacity)) {}

  /// A lane starts, or continues after the log was cleared.
  void enter(int lane) {
    cursor_ = 0;
    follows_ = true;
    lane_ = lane;
    bit_ = 1u << lane;
  }

  /// Writes an access of the current lane down. False: the log is full, clear it and try again.
  bool append(InstructionKey key, std::uintptr_t address) {
    if (follows_ && cursor_ < count_ && accesses_[cursor_].key == key) [[likely]] {
      put(cursor_++, address);
      return true;
    }
    return append_slow(key, address);
  }

  int count() const { return count_; }
  const WarpAccess& operator[](int i) const { return accesses_[i]; }
  const std::array<std::uintptr_t, kWarpSize>& addresses(int i) const { return addresses_[i]; }

  void clear() {
    if (slots_in_use_) forget_slots();
    count_ = 0;
    cursor_ = 0;
    follows_ = true;
  }

 private:
  static constexpr int kSlots = 2 * kCapacity;  // a power of two: the table is never more than half full

  /// An instruction seen since the log was cleared, with its executions as a list through next_same.
  struct Slot {
    InstructionKey key;
    bool used = false;
    std::int32_t first = -1, last = -1;
    std::array<std::int32_t, kWarpSize> latest;  ///< per lane: its latest execution, or -1
  };

  void put(int i, std::uintptr_t address) {
    addresses_[i][lane_] = address;
    accesses_[i].lanes |= bit_;
  }
  bool append_slow(InstructionKey key, std::uintptr_t address);
  std::uint16_t slot_of(InstructionKey key);
  void link(int i);
  void start_slots();
  void forget_slots();

  std::array<WarpAccess, kCapacity> accesses_;
  std::unique_ptr<std::array<std::uintptr_t, kWarpSize>[]> addresses_;
  int count_ = 0;
  int cursor_ = 0;
  bool follows_ = true;  ///< the current lane has made exactly the accesses [0, cursor_)
  int lane_ = 0;
  std::uint32_t bit_ = 1;

  bool slots_in_use_ = false;
  std::vector<Slot> slots_;
  std::vector<std::uint16_t> used_slots_;
};

}  // namespace gpusim
