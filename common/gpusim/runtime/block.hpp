/// @file
/// One thread block on one CPU thread: fibers, barriers, and what its accesses amount to.
#pragma once

#include <boost/context/detail/fcontext.hpp>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "gpusim/gpusim.hpp"
#include "gpusim/runtime/access.hpp"
#include "gpusim/runtime/arena.hpp"
#include "gpusim/runtime/cost.hpp"
#include "gpusim/runtime/defects.hpp"
#include "gpusim/runtime/device.hpp"
#include "gpusim/runtime/loops.hpp"
#include "gpusim/runtime/races.hpp"

namespace gpusim {

/// What one CPU thread has counted and found.
struct Tally {
  std::vector<GlobalCounters> allocations;  ///< by index in the arena
  SharedCounters shared;
  OpCounters ops;
  Findings findings;
};

/// Runs the blocks that are given to it, one after the other. Belongs to one CPU thread.
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

  // From here on: called from inside a fiber, through the hooks and gpusim::device.

  /// A read or write of `size` bytes that is about to happen. Returns if it may; else the thread ends here.
  void on_access(const void* pointer, std::size_t size, AccessKind kind, const void* pc, bool aligned = true);

  /// A basic block begins.
  void on_block(const void* pc, const void* frame) {
    current_->loops.on_block(reinterpret_cast<std::uintptr_t>(pc), reinterpret_cast<std::uintptr_t>(frame));
  }

  int lane() const { return current_->linear % kWarpSize; }
  std::uint32_t live_lanes() const { return warps_[current_->linear / kWarpSize].live; }

  int sync_threads(int value, const void* pc);
  void warp_rendezvous(unsigned mask, device::WarpOp op, void* operand, void (*resolve)(void* const*),
                       const void* pc);
  void copy_async(void* shared, const void* global, std::size_t bytes, std::size_t source_bytes,
                  const void* pc);
  void copy_commit();
  void copy_wait(int pending);

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
    // kWarpSync
    unsigned mask = 0;
    device::WarpOp op = device::WarpOp::kSync;
    void* operand = nullptr;
    void (*resolve)(void* const*) = nullptr;
    // kBlockSync
    int value = 0;
    LoopTracker loops;
    std::vector<AsyncCopy> open_group;
    std::deque<std::vector<AsyncCopy>> groups;
  };

  struct Warp {
    std::uint32_t live = 0;
    WarpClock clock;
  };

  struct StaticVariable {
    std::size_t offset = 0, bytes = 0;  ///< in the TLS block; bytes: how far the launch may go
    std::string name;
    bool dynamic = false;
    bool touched = false;
  };

  static void fiber_main(boost::context::detail::transfer_t from);
  void resume(Thread& thread);
  void suspend();
  [[noreturn]] void end_thread();

  void start_threads();
  bool run_warp(int warp);
  void resolve_warp(int warp);
  bool release_barrier();
  void report_divergence();
  void abandon();
  void clear_shared();

  void process_log(int warp);
  void process_global(const WarpAccess& access, const LaneAddresses& addresses, int warp);
  void process_shared(const WarpAccess& access, const LaneAddresses& addresses, int warp);

  void check_global(std::uintptr_t address, std::size_t size, AccessKind kind, const void* pc, bool aligned);
  void check_shared(std::uintptr_t address, std::size_t size, AccessKind kind, const void* pc, bool aligned);
  [[noreturn]] void trap(DefectKind kind, Space space, std::uintptr_t address, std::size_t size,
                         AccessKind access, const void* pc);
  void found_uninitialized(Space space, std::uintptr_t address, std::size_t size, const void* pc);
  void fill(Example& example, int thread, Space space, std::uintptr_t address) const;
  std::string place_of(Space space, std::uintptr_t address) const;
  void write_down(const void* pc, std::size_t size, AccessKind kind, Space space, std::uintptr_t address);
  void land(std::vector<AsyncCopy>& group);
  std::uint16_t site_of(std::uintptr_t pc);
  StaticVariable* variable_at(std::size_t offset);

  Arena& arena_;
  std::uintptr_t arena_base_ = 0;

  // The block that runs.
  std::uint64_t linear_ = 0;
  std::uint32_t number_ = 0;
  Dim3 block_dim_, grid_dim_;
  int thread_count_ = 0, warp_count_ = 0, live_ = 0;
  std::uint32_t epoch_ = 0;
  bool trapped_ = false;
  int idle_rounds_ = 0;              ///< full logs since anything was synchronised
  std::uintptr_t last_access_pc_ = 0;
  void (*body_)(const void*) = nullptr;
  const void* arguments_ = nullptr;

  std::array<Thread, kMaxThreads> threads_;
  std::array<Warp, kMaxWarps> warps_;
  Thread* current_ = nullptr;
  boost::context::detail::fcontext_t scheduler_ = nullptr;
  AccessLog log_;

  // Shared memory: the TLS block of this CPU thread.
  std::uintptr_t shared_base_ = 0;
  std::size_t shared_bytes_ = 0;
  std::vector<StaticVariable> variables_;        ///< [0] is "none"
  std::vector<std::uint16_t> variable_of_word_;  ///< by word of the TLS block
  std::vector<std::uint8_t> shared_init_;        ///< by word: bit b is set when byte b has been written
  std::unique_ptr<SharedShadow> shadow_;

  std::unordered_map<std::uintptr_t, std::uint16_t> sites_;
  std::uintptr_t last_site_pc_ = 0;
  std::uint16_t last_site_ = 0;

  std::byte* stacks_ = nullptr;
  // For AddressSanitizer, which must be told of every change of stack.
  void* scheduler_fake_stack_ = nullptr;
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_stack_size_ = 0;
};

/// The block that this CPU thread runs; nullptr on all threads that run none.
extern thread_local BlockRunner* current_runner;

/// Where dynamic shared memory lives, registered by the objects of dynamic_shared.hpp.
void register_dynamic_shared(void* (*address)());

/// Return address of a site number (see Rival::site).
std::uintptr_t pc_of_site(std::uint16_t site);

}  // namespace gpusim
