/// @file
/// One thread block on one CPU thread: fibers, barriers, and the accounting of its accesses.
#pragma once

#include <boost/context/detail/fcontext.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gpusim/gpusim.hpp"
#include "gpusim/runtime/access.hpp"
#include "gpusim/runtime/arena.hpp"
#include "gpusim/runtime/bounds.hpp"
#include "gpusim/runtime/copy_clock.hpp"
#include "gpusim/runtime/cost.hpp"
#include "gpusim/runtime/debugging.hpp"
#include "gpusim/runtime/defects.hpp"
#include "gpusim/runtime/device.hpp"
#include "gpusim/runtime/loops.hpp"
#include "gpusim/runtime/pattern.hpp"
#include "gpusim/runtime/races.hpp"
#include "gpusim/runtime/sites.hpp"

// The built-in variables of a kernel. The kernel sees them as constants, through shim/device_functions.h.
extern __thread gpusim::device::Index threadIdx;
extern __thread gpusim::device::Index blockIdx;
extern __thread gpusim::device::Index blockDim;
extern __thread gpusim::device::Index gridDim;

namespace gpusim {

/// The counts and findings of one CPU thread.
struct Tally {
  std::vector<GlobalCounters> allocations;  ///< by index in the arena
  SharedCounters shared;
  OpCounters ops;
  Findings findings;
  std::map<std::uintptr_t, std::int64_t> early_waits;  ///< over-waited groups, by the wait
  std::vector<std::uintptr_t> suspects;  ///< words over which blocks may be in conflict (see GridRaces)
};

/// Runs the blocks given to it, one after the other. Belongs to one CPU thread.
class BlockRunner {
 public:
  BlockRunner();
  ~BlockRunner();

  /// @param number  unique among the blocks of all launches; `linear` is its index in this grid
  void run(const device::Launch& launch, std::uint64_t linear, std::uint32_t number);

  /// Before the first block of a launch.
  void begin_launch(const device::Launch& launch);
  /// After the last one: the static shared memory that its blocks have touched.
  std::size_t static_shared_bytes() const;

  Tally tally;

  // The following functions are called from inside a fiber, through the hooks and gpusim::device.

  /// Checks a read, write or atomic operation that is about to happen. Returns if it is allowed; otherwise the thread ends.
  template <AccessKind kKind, std::size_t kSize>
  [[gnu::always_inline]] void access(const void* pointer, const void* pc) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    if (address - shared_base_ < shared_bytes_) {
      const InstructionKey key = InstructionKey::make(pc, kSize, kKind, Space::kShared);
      if (passes_shared<kKind, kSize>(address) && log_.follow(key, iteration_, address)) [[likely]]
        return;
    } else if (address - arena_base_ < arena_bytes_) {
      const InstructionKey key = InstructionKey::make(pc, kSize, kKind, Space::kGlobal);
      if (passes_global<kKind, kSize>(address) && log_.follow(key, iteration_, address)) [[likely]]
        return;
    } else {
      return;  // a local variable
    }
    on_access(pointer, kSize, kKind, pc);
  }

  /// The same for any size and kind. @param aligned  the address must be a multiple of the size
  void on_access(const void* pointer, std::size_t size, AccessKind kind, const void* pc, bool aligned = true);

  /// A basic block begins. @param frame  see LoopTracker
  void on_block(const void* pc, const void* frame) {
    LoopTracker& loops = current_->loops;
    if (loops.goes_on(reinterpret_cast<std::uintptr_t>(pc), reinterpret_cast<std::uintptr_t>(frame)))
        [[likely]] {
      iteration_ = loops.iteration();
    } else {
      change_loop(pc, frame);
    }
  }
  void change_loop(const void* pc, const void* frame);

  /// An array, wherever it is, has no element with this index. Ends the thread.
  [[noreturn]] void index_out_of_bounds(const IndexedArray& array, std::int64_t index, const void* pc);

  bool is_shared(const void* pointer) const {
    return reinterpret_cast<std::uintptr_t>(pointer) - shared_base_ < shared_bytes_;
  }
  int lane() const { return current_->linear % kWarpSize; }
  std::uint32_t active_lanes() const { return lanes_in_turn_; }

  int sync_threads(int value, const void* pc);
  void warp_rendezvous(unsigned mask, device::WarpOp op, void* operand, void (*resolve)(void* const*),
                       const void* pc);
  /// A shuffle has read the value of a lane that its mask names, but that was not there.
  void read_from_absent(unsigned mask, int source, const void* pc);
  /// A lane's share of an ldmatrix: the address must be in shared memory.
  void read_matrix_row(const void* row, const void* pc);
  void copy_async(void* shared, const void* global, std::size_t bytes, std::size_t source_bytes,
                  const void* pc);
  void copy_commit(const void* pc);
  void copy_wait(int pending, const void* pc);
  /// Ends the thread if the emulated device does not have an instruction.
  /// @param since  the first compute capability that has it: 80 for 8.0
  void require(int since, const char* instruction, const void* pc) {
    if (compute_capability_ < since) [[unlikely]]
      lacks(since, instruction, pc);
  }

 private:
  enum class State : std::uint8_t { kReady, kWarpSync, kBlockSync, kDone };

  struct AsyncCopy {
    void* to;
    const void* from;
    std::size_t bytes, source_bytes;
    const void* pc;
  };

  struct Thread {
    boost::context::detail::fcontext_t context = nullptr;
    Dim3 index;
    int linear = 0;
    State state = State::kDone;
    const void* sync_pc = nullptr;
    unsigned mask = 0;  ///< kBlockSync: 0
    // kWarpSync
    device::WarpOp op = device::WarpOp::kSync;
    void* operand = nullptr;
    void (*resolve)(void* const*) = nullptr;
    // kBlockSync
    int value = 0;
    LoopTracker loops;
    // kDone: the latest access since the last synchronisation, whose return address is sync_pc
    int last_access = -1;
    const LoopTracker* left_at = nullptr;  ///< its place, if others of the block may have waited
    std::vector<AsyncCopy> open_group;
    std::deque<std::vector<AsyncCopy>> groups;
    std::uint32_t landed_groups = 0;
    CopyClock copies;  // as far as the log has been processed
  };

  struct Warp {
    std::uint32_t live = 0;
    WarpClock clock;
    const void* barrier_pc = nullptr;  ///< of the last __syncthreads(), if no access has followed it
    std::vector<bool> used_groups;  ///< by number: somebody has read what one of the lanes has copied in it
  };

  /// Who has started the latest asynchronous copy to a word.
  struct CopyOrigin {
    std::uint16_t thread = 0;
    std::uint32_t group = 0;
  };

  struct StaticVariable {
    std::size_t offset = 0, bytes = 0;  ///< in the TLS block; bytes: how many the launch may use
    std::string name;
    bool dynamic = false;
    bool touched = false;
    bool is_index = false;  ///< threadIdx and the like: not shared memory, but next to it
  };

  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kStack = 64 * 1024;
  static constexpr std::size_t kStackStride = kStack + kPage;  // a guard page below each stack
  /// After this many accesses without any synchronisation in the block, a lane is assumed to run forever.
  static constexpr std::int64_t kLongPatience = 1 << 25;

  // block.cpp
  void clear_shared();
  void start_threads();

  // block_schedule.cpp
  bool run_warp(int warp);
  void resolve_warp(int warp);
  void keep_places(int warp);
  bool release_barrier();
  void abandon();
  static void fiber_main(boost::context::detail::transfer_t from);
  void turn_to(Thread& thread);
  void resume(Thread& thread);
  void suspend();
  [[noreturn]] void end_thread();
  void announce_in(Thread& thread, const FindingKey& key, const Example& example);

  // block_divergence.cpp
  void report_divergence();
  bool went_past(const Thread& returned, const Thread& waiting) const;
  Thread& most_awaited(int begin, int end, State state);
  Whereabouts whereabouts(const Thread& thread, const Thread& waiting) const;
  std::vector<Group> groups(int begin, int end, const Thread& waiting) const;
  std::string block_name() const;
  void report_missing(int begin, int end, State state);
  void add_divergence(Thread* at, const void* pc, Example found, std::uintptr_t rival_pc = 0);

  // block_counts.cpp
  void process(const WarpAccess& access, int warp);
  void count_global(const WarpAccess& access, const Pattern& pattern);
  void count_shared(const WarpAccess& access, const Pattern& pattern);
  Actor actor_of(InstructionKey key, int warp);
  void find_races(InstructionKey key, std::uintptr_t address, std::uint32_t lanes, const Actor& actor);
  void found_race(InstructionKey key, std::uintptr_t address, const Actor& actor, int lane,
                  const Rival& rival);
  void record_use(std::uintptr_t offset, std::size_t bytes, int lane, const Actor& actor);

  /// The state of a word of shared memory, in a byte: a bit for each of its bytes that has been written, ...
  static constexpr std::uint8_t kWritten = 0x0f;
  static constexpr std::uint8_t kUsable = 0x10;  ///< all of one variable, which the launch may use
  static constexpr std::uint8_t kLast = 0x20;    ///< the last word of that variable

  /// The states of all words that an aligned access of this size touches, as one number.
  template <std::size_t kSize>
  using States = std::conditional_t<kSize == 16, std::uint32_t,
                                    std::conditional_t<kSize == 8, std::uint16_t, std::uint8_t>>;

  /// A fast check that accepts most valid accesses. False: a closer look is needed.
  template <AccessKind kKind, std::size_t kSize>
  bool passes_shared(std::uintptr_t address) {
    if (address % kSize != 0) return false;
    constexpr auto kEach = States<kSize>(0x01010101u);
    constexpr auto kAllUsable = States<kSize>(kEach * kUsable);
    constexpr auto kRunsOut =
        States<kSize>(States<kSize>(kEach * kLast) >> 8);  // after any word but the last
    std::uint8_t* at = &shared_state_[(address - shared_base_) / 4];
    States<kSize> states;
    std::memcpy(&states, at, sizeof states);
    auto written = States<kSize>(kEach * kWritten);
    if constexpr (kSize < 4) written = States<kSize>(((1u << kSize) - 1) << address % 4);
    if constexpr (kKind == AccessKind::kWrite) {
      if ((states & (kAllUsable | kRunsOut)) != kAllUsable) return false;
      states = States<kSize>(states | written);
      std::memcpy(at, &states, sizeof states);
      return true;
    }
    return (states & (kAllUsable | kRunsOut | written)) == (kAllUsable | written);
  }

  template <AccessKind kKind, std::size_t kSize>
  bool passes_global(std::uintptr_t address) const {
    if (address % kSize != 0 || arena_.find(address, kSize) == 0) return false;
    auto written = States<kSize>(States<kSize>(0x01010101u) * kWritten);
    if constexpr (kSize < 4) written = States<kSize>(((1u << kSize) - 1) << address % 4);
    States<kSize> states;
    std::memcpy(&states, arena_.initialized(address), sizeof states);
    if (kKind == AccessKind::kWrite && kSize >= 4)
      std::memcpy(arena_.initialized(address), &written, sizeof written);
    return (states & written) == written || (kKind == AccessKind::kWrite && kSize >= 4);
  }

  // block_access.cpp
  void check_global(std::uintptr_t address, std::size_t size, AccessKind kind, const void* pc, bool aligned);
  void check_shared(std::uintptr_t address, std::size_t size, AccessKind kind, const void* pc, bool aligned);
  [[noreturn]] void trap(DefectKind kind, Space space, std::uintptr_t address, std::size_t size,
                         AccessKind access, const void* pc);
  /// Ends the thread; its block is abandoned.
  [[noreturn]] void stop();
  void found_uninitialized(Space space, std::uintptr_t address, std::size_t size, const void* pc);
  /// Adds a finding. `complete` fills in its example, if no lower block has done that.
  template <class Complete>
  void found(const FindingKey& key, Complete&& complete);
  void fill(Example& example, int thread, Space space, std::uintptr_t address) const;
  std::string place_of(Space space, std::uintptr_t address) const;
  StaticVariable* variable_at(std::size_t offset);

  // block_calls.cpp
  [[noreturn]] void lacks(int since, const char* instruction, const void* pc);

  // block_copies.cpp
  void land(std::vector<AsyncCopy>& group);
  void note(AccessKind kind, std::uintptr_t value, const void* pc);
  void process_note(const WarpAccess& access, int warp);
  void process_note(int thread, AccessKind kind, std::uint32_t value, const void* pc);
  void remember_origin(std::uintptr_t address, std::size_t bytes, std::uint32_t lanes, int warp);
  void use_copy(std::size_t offset, int warp);
  void explain_copy(Example& example, InstructionKey instruction, std::uintptr_t address,
                    const Rival& rival) const;

  Arena& arena_;
  const std::uintptr_t arena_base_;
  const std::size_t arena_bytes_;
  const int compute_capability_;
  const bool debugging_ = is_debugging();
  Announcer announcer_;

  // The block that runs.
  std::uint64_t linear_ = 0;
  std::uint32_t number_ = 0;
  Dim3 block_dim_, grid_dim_;
  int thread_count_ = 0, warp_count_ = 0, live_ = 0;
  std::uint32_t epoch_ = 0, block_epoch_ = 0;
  bool trapped_ = false;
  int idle_rounds_ = 0;  ///< full logs since the last synchronisation
  std::uintptr_t last_access_pc_ = 0;
  const device::Launch* launch_ = nullptr;

  std::array<Thread, kMaxThreads> threads_;
  std::array<Warp, kMaxWarps> warps_;
  Thread* current_ = nullptr;
  boost::context::detail::fcontext_t scheduler_ = nullptr;
  std::uint32_t lanes_in_turn_ =
      0;                         ///< of the current warp: those that continue from its last synchronisation
  std::uint64_t iteration_ = 0;  ///< of current_, by its LoopTracker
  AccessLog log_{!debugging_};
  PatternCache patterns_;

  // Shared memory: the TLS block of this CPU thread.
  std::uintptr_t shared_base_ = 0;
  std::size_t shared_bytes_ = 0;
  std::vector<StaticVariable> variables_;        ///< [0] is "none"
  std::vector<std::uint16_t> variable_of_word_;  ///< by word of the TLS block
  std::vector<std::uint8_t> shared_state_;       ///< by word of the TLS block: kWritten | kUsable | kLast
  std::vector<CopyOrigin> copy_origins_;         ///< by word of the TLS block
  RaceShadow shared_shadow_;
  GlobalShadow global_shadow_;

  SiteNumbers sites_;

  std::byte* stacks_ = nullptr;
  // For AddressSanitizer, which must be notified of every change of stack.
  void* scheduler_fake_stack_ = nullptr;
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_stack_size_ = 0;
};

/// The runner of this CPU thread while the code of a kernel runs, otherwise nullptr: functions of
/// the standard library that the runtime calls may be the copies that were compiled with a kernel, hooks and all.
extern constinit thread_local BlockRunner* current_runner;

/// While this object lives, hooks do nothing: the runtime is at work, and not the code of the kernel.
class OutsideKernel {
 public:
  OutsideKernel() : runner_(std::exchange(current_runner, nullptr)) {}
  ~OutsideKernel() { current_runner = runner_; }
  OutsideKernel(const OutsideKernel&) = delete;

 private:
  BlockRunner* runner_;
};

template <class Complete>
void BlockRunner::found(const FindingKey& key, Complete&& complete) {
  const OutsideKernel outside;
  Example* e = tally.findings.add(key, linear_);
  if (e == nullptr) return;
  complete(*e);
  if (debugging_) announcer_.announce(key, *e);
}

/// Where dynamic shared memory lives, registered by the objects of dynamic_shared.hpp.
void register_dynamic_shared(void* (*address)());

}  // namespace gpusim
