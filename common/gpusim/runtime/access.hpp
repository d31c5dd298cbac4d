/// @file
/// The basic types of the runtime: an access, its origin, and the log that combines the accesses of the lanes
/// of a warp into warp instructions.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "gpusim/runtime/loops.hpp"

namespace gpusim {

inline constexpr int kWarpSize = 32;
inline constexpr int kMaxThreads = 1024;
inline constexpr int kMaxWarps = kMaxThreads / kWarpSize;

/// kCluster is the shared memory of another block of the cluster. kGlobal is any memory that is not one of
/// the others.
enum class Space : std::uint8_t { kGlobal, kShared, kCluster, kLocal };

/// kCopyIssue and kCopyLand are the two ends of an asynchronous copy into shared memory: between them the
/// destination may change at any moment.
///
/// kCopyCommit and kCopyWait access nothing. They stand in the log to say when a lane commits a group of
/// copies and when it waits, and have a number instead of an address: how many groups it has committed, and
/// how many the wait covers. The number of a kOperation says which of BlockRunner::operations_ it is. A
/// kFence is a __threadfence(), and the number of a kArrival is that of BlockRunner::arrived_.
enum class AccessKind : std::uint8_t {
  kRead,
  kWrite,
  kAtomic,
  kPublish,        ///< a write that blocks with higher numbers wait for
  kReadPublished,  ///< a read of what a block may have published by then
  kInTurn,         ///< a change by the copy engine in the turn of its block
  kCopyIssue,
  kCopyLand,
  kCopyCommit,
  kCopyWait,
  kOperation,
  kFence,
  kArrival,
  kDependency,  ///< griddepcontrol: 1 for .wait, 0 for .launch_dependents
  kAsyncRead    ///< by an asynchronous operation; not in the log
};

using LaneAddresses = std::array<std::uintptr_t, kWarpSize>;

/// Everything that the lanes of a warp instruction have in common, in one comparable word: the return
/// address of the hook (48 bits), the width (8), the kind (4), the space (4).
struct InstructionKey {
  std::uint64_t bits = 0;

  static InstructionKey make(const void* pc, std::size_t size, AccessKind kind, Space space) {
    return {reinterpret_cast<std::uint64_t>(pc) | std::uint64_t(size) << 48 | std::uint64_t(kind) << 56 |
            std::uint64_t(space) << 60};
  }
  std::uintptr_t pc() const { return bits & ((std::uint64_t(1) << 48) - 1); }
  std::size_t size() const { return (bits >> 48) & 0xff; }
  AccessKind kind() const { return AccessKind((bits >> 56) & 0xf); }
  Space space() const { return Space(bits >> 60); }
  bool operator==(const InstructionKey&) const = default;
};

/// The array that a lane of a warp instruction has accessed, where others need no closer look: an allocation
/// or a shared variable.
struct Surroundings {
  std::uintptr_t begin = 0;
  std::uintptr_t last = 0;    ///< the distance from there of the last place for an access of this size
  std::uintptr_t states = 0;  ///< see AccessLog::follow(): that of an address is at `states + address / 4`
};

/// One warp instruction: which lanes took part, and each one's address.
struct alignas(64) WarpAccess {
  /// Of the instruction in this iteration of the loops around it (see id_of) without the space; 0 if the
  /// surroundings are not known. This and what follows up to `addresses` is one line of the cache.
  std::uint64_t expected = 0;
  Surroundings around;
  std::uint64_t id = 0;  ///< with the space; 0 is none
  InstructionKey key;
  std::uint32_t lanes = 0;
  // Only where lanes have taken different paths (see AccessLog::start_slots):
  std::uint16_t slot = 0;
  std::int16_t next_same = -1;  ///< the next execution of the same instruction
  LaneAddresses addresses;
  /// Of a store: what each lane has replaced, as a digest(): what the lane before it, of those that store to
  /// this address, has stored there.
  std::array<std::uint32_t, kWarpSize> replaced;
};

/// What is at an address, in 4 bytes: values of up to 4 bytes are that themselves.
template <std::size_t kSize>
std::uint32_t digest(std::uintptr_t address) {
  const auto* const at = reinterpret_cast<const void*>(address);
  if constexpr (kSize < 4) {
    std::uint32_t value = 0;
    __builtin_memcpy(&value, at, kSize);
    return value;
  } else {
    std::array<std::uint32_t, kSize / 4> words;
    __builtin_memcpy(words.data(), at, kSize);
    std::uint32_t value = words[0];
    for (std::size_t i = 1; i < words.size(); ++i) value = std::rotl(value, 5) * 0x9e3779b1u + words[i];
    return value;
  }
}
inline std::uint32_t digest(std::uintptr_t address, std::size_t size) {
  return size == 4    ? digest<4>(address)
         : size == 8  ? digest<8>(address)
         : size == 16 ? digest<16>(address)
         : size == 2  ? digest<2>(address)
                      : digest<1>(address);
}

/// The accesses of one warp since its last synchronisation.
///
/// Lanes run one after the other here, but side by side on a GPU. The n-th execution of an instruction by
/// one lane, in one iteration of the loops around it, is taken to be the same warp instruction as the n-th
/// execution by another lane in the same iteration. The first lane records the sequence; as long as the next
/// lanes follow it step by step, which they nearly always do, one comparison per access is enough. A lane
/// that takes a different path is matched through `slots_`.
///
/// Between two synchronisations a lane may make any number of accesses, so the log is a window that moves
/// over them. The first lane that fills it (the pacer) stops, and so does every other lane when it reaches
/// the pacer's position or is already past it. Accesses past that position (of lanes that left a loop
/// earlier, for example) stay in the log when the window moves on. No lane is behind the pacer, which goes
/// first in the next window.
class AccessLog {
 public:
  /// The size of the window, which is small enough to stay in the first-level cache.
  static constexpr int kWindow = 128;
  /// A number that is higher than that of each access.
  static constexpr int kEnd = 0x7fffffff;

  /// @param follows  false: every access goes through append(), with the same result
  explicit AccessLog(bool follows = true)
      : follows_(follows),
        accesses_(std::make_unique<WarpAccess[]>(kCapacity + 1)),
        places_(std::make_unique<LoopTracker[]>(kCapacity)) {
    clear();
  }

  /// Gives a lane its turn, once in each window.
  void enter(int lane);

  /// @param iteration  LoopTracker::iteration(), a hash
  static std::uint64_t id_of(InstructionKey key, std::uint64_t iteration) { return key.bits ^ iteration; }

  /// Records an aligned access of the current lane if the lanes before it did the same at this point, in the
  /// same array, and if it reads nothing that has not been written. False: it needs a closer look.
  ///
  /// A byte per word, its state, has a bit for each of the word's bytes that has been written.
  template <AccessKind kKind, std::size_t kSize>
  [[gnu::always_inline]] bool follow(const void* pc, std::uint64_t iteration, std::uintptr_t address) {
    WarpAccess& next = *cursor_;
    if (next.expected != id_of(InstructionKey::make(pc, kSize, kKind, Space()), iteration)) return false;
    if (address - next.around.begin > next.around.last || address % kSize != 0) return false;
    auto* const at = reinterpret_cast<std::uint8_t*>(next.around.states + address / 4);
    States<kSize> states;
    __builtin_memcpy(&states, at, sizeof states);
    auto written = States<kSize>(0x0f0f0f0fu);
    if constexpr (kSize < 4) written = States<kSize>(((1u << kSize) - 1) << address % 4);
    if ((states & written) != written) {
      if (kKind != AccessKind::kWrite || kSize < 4) return false;  // two blocks may own the halves of a word
      __builtin_memcpy(at, &written, sizeof written);
    }
    if constexpr (kKind == AccessKind::kWrite) next.replaced[lane_] = digest<kSize>(address);
    next.addresses[lane_] = address;
    next.lanes |= bit_;
    ++cursor_;
    return true;
  }

  /// Records it in any case. False: the lane has to wait for the next window.
  /// @param place  where the lane is; its iteration() is that of the access
  bool append(InstructionKey key, const LoopTracker& place, std::uintptr_t address);
  /// The access that has been recorded last, if no other lane has made it yet: what is around it is for
  /// those.
  WarpAccess* newest() {
    WarpAccess* const latest = cursor_ - 1;
    return cursor_ != nowhere() && latest->lanes == bit_ ? latest : nullptr;
  }
  /// Those that follow the first lane at this access stay in the array.
  static void keep_to(WarpAccess& access, const Surroundings& around, std::uint64_t iteration) {
    access.around = around;
    const InstructionKey key = access.key;
    access.expected =
        id_of(InstructionKey::make(reinterpret_cast<const void*>(key.pc()), key.size(), key.kind(), Space()),
              iteration);
  }

  /// The current lane's latest access of this turn, until the next window; -1 if there is none.
  int latest() const { return cursor_ != nowhere() ? int(cursor_ - &accesses_[0]) - 1 : latest_; }
  std::uintptr_t pc(int access) const { return accesses_[access].key.pc(); }
  /// The number of an access that is being processed, as latest() counts.
  int number_of(const WarpAccess& access) const { return int(&access - &accesses_[0]); }
  const LoopTracker& place(int access) const { return places_[access]; }

  /// Whether every access has been passed to `process`.
  bool empty() const { return count_ == 0; }

  /// The lane to begin the next window with.
  int first_lane() const { return first_lane_; }

  /// Passes the warp instructions of this window to `process`, except those that more lanes may still join,
  /// and starts the next window. Call it when every lane has had its turn.
  template <class Process>
  void advance(Process&& process) {
    first_lane_ = pacer_ >= 0 ? pacer_ : 0;
    const bool some_stay = pacer_ >= 0 && slots_in_use_ && find_those_ahead();
    for (int i = 0; i < count_; ++i) {
      if (!some_stay || !stays_[i]) process(accesses_[i]);
    }
    next_window(some_stay);
  }

  /// The same for all of them: the warp has to make room for another one.
  template <class Process>
  void finish(Process&& process) {
    for (int i = 0; i < count_; ++i) process(accesses_[i]);
    clear();
  }

  void clear() {
    first_lane_ = 0;
    next_window(false);
  }

 private:
  static constexpr int kCapacity = 4 * kWindow;  // of which the pacer always finds kWindow free
  static constexpr int kSlots = 2 * kCapacity;   // a power of two: the table is never more than half full

  /// The states of all words that an aligned access of this size touches, as one number.
  template <std::size_t kSize>
  using States = std::conditional_t<kSize == 16, std::uint32_t,
                                    std::conditional_t<kSize == 8, std::uint16_t, std::uint8_t>>;

  /// An instruction in the log, with its executions as a list through next_same.
  struct Slot {
    std::uint64_t id = 0;
    bool used = false;
    std::int16_t first = -1, last = -1;
    std::array<std::int16_t, kWarpSize> latest;  ///< per lane: its latest execution, or -1
  };

  WarpAccess* nowhere() const { return &accesses_[kCapacity]; }  // an entry that equals no instruction
  bool may_add(InstructionKey key, const LoopTracker& place, const Slot* slot);
  void pace(InstructionKey key, const LoopTracker& place);
  bool is_before_pacer(InstructionKey key, const LoopTracker& place) const;
  int add(InstructionKey key, const LoopTracker& place);
  void join(WarpAccess& access, std::uintptr_t address);
  /// No instruction equals it.
  static void void_entry(WarpAccess& access) { access.id = access.expected = 0; }
  void leave_path();
  std::uint16_t slot_of(std::uint64_t id);
  void link(int i);
  void start_slots();
  bool find_those_ahead();
  void next_window(bool some_stay);

  const bool follows_;
  std::unique_ptr<WarpAccess[]> accesses_;  ///< the entry at count_ has no id, so that no cursor passes it
  std::unique_ptr<LoopTracker[]> places_;   ///< where each of them is
  int count_ = 0;
  int kept_ = 0;  ///< how many of them are from the window before

  int lane_ = 0;
  int latest_ = -1;  ///< its latest access, if it has left the path
  std::uint32_t bit_ = 1;
  WarpAccess* cursor_ =
      nullptr;  ///< the lane has made exactly the accesses before it; nowhere() if it left them

  int first_lane_ = 0;
  int pacer_ = -1;
  InstructionKey pacer_stands_before_;  ///< the access that it has to wait with
  LoopTracker pacer_place_;

  bool slots_in_use_ = false;
  std::vector<Slot> slots_;
  std::vector<std::uint16_t> used_slots_;
  std::array<bool, kCapacity> stays_;
};

}  // namespace gpusim
