/// @file
/// One thread block on one CPU thread: fibers, barriers, and the accounting of its accesses.
#pragma once

#include <boost/context/detail/fcontext.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpusim/gpusim.hpp"
#include "gpusim/runtime/access.hpp"
#include "gpusim/runtime/arena.hpp"
#include "gpusim/runtime/async_shadow.hpp"
#include "gpusim/runtime/async_shared.hpp"
#include "gpusim/runtime/bounds.hpp"
#include "gpusim/runtime/bulk_copy.hpp"
#include "gpusim/runtime/clocks.hpp"
#include "gpusim/runtime/cluster_order.hpp"
#include "gpusim/runtime/copy_clock.hpp"
#include "gpusim/runtime/cost.hpp"
#include "gpusim/runtime/debugging.hpp"
#include "gpusim/runtime/defects.hpp"
#include "gpusim/runtime/device.hpp"
#include "gpusim/runtime/event_trace.hpp"
#include "gpusim/runtime/fiber_sanitizer.hpp"
#include "gpusim/runtime/grid_order.hpp"
#include "gpusim/runtime/landed_boxes.hpp"
#include "gpusim/runtime/loops.hpp"
#include "gpusim/runtime/pattern.hpp"
#include "gpusim/runtime/products.hpp"
#include "gpusim/runtime/profile.hpp"
#include "gpusim/runtime/races.hpp"
#include "gpusim/runtime/recorder.hpp"
#include "gpusim/runtime/sites.hpp"
#include "gpusim/runtime/watchdog.hpp"

// The built-in variables of a kernel. The kernel sees them as constants, through shim/device_functions.h.
extern __thread gpusim::device::Index threadIdx;
extern __thread gpusim::device::Index blockIdx;
extern __thread gpusim::device::Index blockDim;
extern __thread gpusim::device::Index gridDim;

namespace gpusim {

class Cluster;
class ResidentGrid;

/// Whether the lanes of a warp do nothing but read the same few words again and again: until another block
/// changes them.
struct WaitingLoop {
  static constexpr int kMostWords = 8;
  std::array<std::uintptr_t, kMostWords> words;
  int count = 0;
  bool has_others = false;  ///< it does something else
  bool is_plain = false;    ///< it reads with ordinary loads, which seldom means that it waits
  int rounds = 0;           ///< for so many windows
  bool is_told = false;     ///< the other blocks know (see Progress)
  bool is_plain_wait = false;
  std::uint64_t changes = 0;
  std::chrono::steady_clock::time_point since;  ///< all blocks wait, without any change

  void look_at(const WarpAccess& access) {
    const AccessKind kind = access.key.kind();
    if (kind == AccessKind::kFence) return;
    if (kind != AccessKind::kRead && kind != AccessKind::kReadPublished && kind != AccessKind::kAtomic &&
        kind != AccessKind::kArrival) {
      has_others = true;
      return;
    }
    if (kind == AccessKind::kArrival) return;
    if (access.key.space() == Space::kShared) has_others = true;  // no other block changes it
    if (kind == AccessKind::kRead) is_plain = true;
    const std::uintptr_t word = access.addresses[std::size_t(std::countr_zero(access.lanes))];
    if (std::find(words.begin(), words.begin() + count, word) != words.begin() + count) return;
    if (count == kMostWords) {
      has_others = true;
    } else {
      words[std::size_t(count++)] = word;
    }
  }
};

/// The counts and findings of one CPU thread.
struct Tally {
  std::vector<GlobalCounters> allocations;  ///< by index in the arena
  SharedCounters shared;
  OpCounters ops;
  bool has_lost_block = false;  ///< a block was given up: what it should have written may be read later
  std::int64_t muted = 0;       ///< uninitialized reads that may follow from that
  BlockCounts blocks;           ///< if is_profiling()
  Findings findings;
  std::map<std::uintptr_t, std::int64_t> early_waits;  ///< over-waited groups, by the wait
  std::vector<std::uintptr_t> suspects;  ///< words over which blocks may be in conflict (see GridRaces)
  /// Blocks that have executed atomic operations in global memory, with the latest one.
  std::vector<std::pair<std::uint32_t, const void*>> atomics;
};

/// Runs the blocks given to it, one after the other. Belongs to one CPU thread.
class BlockRunner {
 public:
  BlockRunner();
  ~BlockRunner();

  /// @param number  unique among the blocks of all launches; `linear` is its index in this grid
  void run(const device::Launch& launch, std::uint64_t linear, std::uint32_t number);

  /// The same for a block of a cluster: start() it, then let it go_on() in turns with the others. See
  /// Cluster.
  /// @param rank  its number in the cluster; `number` is that of the cluster
  void start(Cluster& cluster, int rank, std::uint64_t linear, std::uint32_t number);
  /// Runs it until no thread can continue, or until others may have to act first. @return  whether any thread
  ///                                                                                       ran
  bool go_on();

  /// Before the first block of a launch.
  void begin_launch(const device::Launch& launch);
  /// After the last one: the static shared memory that its blocks have touched.
  std::size_t static_shared_bytes() const;

  Tally tally;

  // The following functions are called from inside a fiber, through the hooks and gpusim::device.

  /// Checks a read, write or atomic operation that is about to happen. Returns if it is allowed; otherwise
  /// the thread ends.
  template <AccessKind kKind, std::size_t kSize>
  [[gnu::always_inline]] void access(const void* pointer, const void* pc) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    if (log_.follow<kKind, kSize>(pc, iteration_, address)) [[likely]]
      return;
    if (is_own_local(address)) [[likely]] {
      if (register_time_ != 0) [[unlikely]]
        note_register(address, kSize, kKind, pc);
      return;
    }
    on_access(pointer, kSize, kKind, pc);
  }

  /// The same for any size and kind. @param aligned  the address must be a multiple of the size
  void on_access(const void* pointer, std::size_t size, AccessKind kind, const void* pc, bool aligned = true);
  /// The next access is a piece of an object that is copied as a whole.
  void begin_piece() { of_object_ = true; }

  /// A basic block begins. @param frame  see LoopTracker
  void on_block(const void* pc, const void* frame) {
    if (profiling_) [[unlikely]]
      count_block(pc);
    LoopTracker& loops = current_->loops;
    if (loops.goes_on(reinterpret_cast<std::uintptr_t>(pc), reinterpret_cast<std::uintptr_t>(frame)))
        [[likely]] {
      iteration_ = loops.iteration();
    } else {
      change_loop(pc, frame);
    }
  }
  void change_loop(const void* pc, const void* frame);
  void count_block(const void* pc);

  /// An operation has used a local variable that nothing has written.
  /// @param thread  which has it; -1: the one that runs
  void read_unwritten_local(const void* pc, int thread = -1);

  /// An array, wherever it is, has no element with this index. Ends the thread.
  [[noreturn]] void index_out_of_bounds(const IndexedArray& array, std::int64_t index, const void* pc);

  bool is_shared(const void* pointer) const {
    return reinterpret_cast<std::uintptr_t>(pointer) - shared_base_ < shared_bytes_;
  }
  /// Whether it is in a local variable of the thread that runs.
  bool is_own_local(std::uintptr_t address) const { return address - own_stack_ < kStackStride; }
  int lane() const { return current_->linear % kWarpSize; }

  /// An atomic operation has changed what is in memory: its thread does not only wait.
  void note_change() { has_changed_ = true; }
  int sync_threads(int value, const void* pc);
  void thread_fence(const void* pc);
  /// @param waits  for the kernel before; otherwise the next one may begin
  void note_dependency(bool waits, const void* pc);
  /// Whether an atomic operation of the thread that runs releases what its block has done: after a
  /// __threadfence(), of this thread or of all, and at most one __syncthreads() since.
  bool releases() const { return current_->fence_epoch != 0 && current_->fence_epoch + 1 >= epoch_; }
  /// Carries out such an atomic operation. See GridOrder.
  template <class Operation>
  void arrive_at_counter(const void* counter, bool acquires, Operation&& operation, const void* pc);
  /// A thread has read a word with an atomic operation, or is about to read it as volatile: it acquires what
  /// other blocks have released there. The thread that runs may have taken a lock, or given one up.
  void note_lock(const void* word, bool takes);
  void note_news(const void* word, const void* pc);
  /// A volatile access: atomic, but it does not change what it reads.
  template <AccessKind kKind, std::size_t kSize>
  void volatile_access(const void* pointer, const void* pc) {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    if (address - shared_base_ < shared_bytes_ || is_own_local(address))
      return access<kKind, kSize>(pointer, pc);
    on_volatile_access(pointer, kSize, kKind, pc);
  }
  void on_volatile_access(const void* pointer, std::size_t size, AccessKind kind, const void* pc);
  [[noreturn]] void trap_by_kernel(const void* pc);
  /// The code of the thread that runs has caused a signal. @param divides  by zero
  [[noreturn]] void fault(int signal, bool divides, std::uintptr_t address, const void* pc);
  /// Ends the thread because its kernel makes no progress.
  [[noreturn]] void time_out(const void* pc);
  [[noreturn]] void fail_assertion(const char* condition, const void* pc);
  void warp_rendezvous(unsigned mask, device::WarpOp op, void* operand, void (*resolve)(void* const*),
                       const void* pc);
  /// A shuffle has read the value of a lane that takes no part in it: the mask does not name it, or it was
  /// not there.
  void read_from_absent(unsigned mask, int source, const void* pc);
  /// A lane's share of an ldmatrix: the address must be in shared memory.
  void read_matrix_row(const void* row, const void* pc);
  void copy_async(void* shared, const void* global, std::size_t bytes, std::size_t source_bytes,
                  const void* pc);
  /// See device::publish() and what follows it.
  void publish(std::uint32_t* to, std::uint32_t bits, const void* pc);
  void copy_published_async(void* shared, const void* global, const void* pc);
  std::uint32_t await_published(const std::uint32_t* from, const void* pc);
  void await_turn(const int* counter, int turn, const void* pc);
  void pass_turn(int* counter, int turn, const void* pc);
  void copy_commit(const void* pc);
  void copy_wait(int pending, const void* pc);
  void declare_members(const DeclaredObject& object);
  /// See device_groups.hpp.
  void sync_grid(const void* pc);
  bool is_cooperative() const { return launch_->cooperative; }
  bool has_cluster() const { return cluster_ != nullptr; }
  device::Index cluster_dim() const { return has_cluster() ? launch_->cluster : device::Index{1, 1, 1}; }
  int rank_of_shared(const void* address) const;
  int cluster_rank(const void* pc);
  void cluster_arrive(bool relaxed, const void* pc);
  void cluster_wait(const void* pc);
  void* map_shared_rank(const void* shared, int rank, const void* pc);
  /// At an mbarrier of any block of the cluster.
  void arrive_in_cluster(const void* barrier, bool relaxed, const void* pc);
  /// A copy that is_in_cluster().
  void start_copy_in_cluster(BulkCopy&& copy, const void* pc);

  // Compute capability 9.0: see device_hopper.hpp.
  std::uint32_t shared_address(const void* pointer);
  void* shared_pointer(std::uint32_t address) const;
  /// See device_ptx.hpp.
  void* pointer_of_window(std::uint32_t address);
  std::uint32_t window_address(const void* pointer);
  std::uint64_t number_in_grid() const { return linear_; }
  std::uint32_t dynamic_shared_bytes() const { return std::uint32_t(launch_->dynamic_shared_bytes); }
  void mbarrier_expect(const void* barrier, int bytes, const void* pc);
  int mbarrier_parity(const void* barrier);
  bool mbarrier_try_wait(const void* barrier, int parity, bool of_cluster, const void* pc);
  void let_waits_cover_registers() { waits_cover_registers_ = true; }
  const std::uint32_t* copy_of_operand(const std::uint32_t* const* registers);
  [[noreturn]] void refuse(const char* why, const void* pc);
  void mbarrier_init(const void* barrier, int arrivals, const void* pc);
  void mbarrier_arrive(const void* barrier, int bytes, const void* pc);
  /// @param of_cluster  acquires what other blocks have released, not only what its own has
  void mbarrier_wait(const void* barrier, int parity, bool of_cluster, const void* pc);
  /// A wait that returns at once. @return  whether the phase is complete, as at the end of a wait
  bool mbarrier_test_wait(const void* barrier, int parity, const void* pc);
  void fence(Operation::Kind kind, const void* pc);
  void start_copy(BulkCopy&& copy, const void* pc);
  void bulk_commit(const void* pc);
  /// Ends the thread if these bytes are not a map of a tensor with `rank` dimensions.
  void check_map(const TensorMap& map, const void* address, int rank, const void* pc);
  void bulk_wait(int pending, bool read_only, const void* pc);
  void barrier_sync(int id, int threads, const void* pc);
  void barrier_arrive(int id, int threads, const void* pc);

  // For operations of the asynchronous proxy: see async_shared.hpp.

  /// A sequence of operations of this block.
  std::uint16_t new_sequence(Sequence sequence);
  /// An operation that `thread` issues reads these bytes of shared memory (whole words) until it is finished.
  /// Checks that they are in a variable, that they have been written, and not by a copy that the thread has
  /// not waited for, that barriers order the writes before the operation, and that the writers have executed
  /// fence_proxy_async(). From now on, writes by whoever does not know that the operation is finished are
  /// races with it.
  ///
  /// @return false if the bytes are not in one variable: the block is abandoned
  bool async_read(int thread, Completion operation, std::uintptr_t address, std::size_t bytes,
                  const void* pc);
  /// A thread has waited for an operation of a sequence, and all before it.
  void learn(int thread, Completion operation);
  /// Adds to GPUSIM_TRACE: see TraceEvent.
  void trace_event(const char* name, int thread, const void* pc, std::int64_t phase = -1) {
    if (event_trace_ != nullptr) [[unlikely]]
      add_event(name, thread, pc, {}, phase);
  }
  void trace_event(const char* name, int thread, const void* pc, const Mbarrier& barrier) {
    if (event_trace_ != nullptr) [[unlikely]]
      add_event(name, thread, pc, {name_of(barrier.address, pc)}, barrier.phase);
  }
  /// Reports a mistake in the use of the instructions of compute capability 9.0; the block is abandoned.
  void fail(int thread, DefectKind kind, const void* pc, std::vector<Piece> message);
  /// The same, and the block goes on.
  void complain(int thread, DefectKind kind, const void* pc, std::vector<Piece> message);
  /// An operation of a warpgroup: see WarpgroupOp.
  void warpgroup_op(WarpgroupOperand& operand);
  /// @param argument  its number among those of the wait; -1: no wait names them
  void wgmma_finished(const float* registers, int count, int argument, const void* pc);
  /// Ends the thread if the emulated device does not have an instruction.
  /// @param since  the first compute capability that has it: 80 for 8.0
  void require(int since, const char* instruction, const void* pc) {
    if (compute_capability_ < since) [[unlikely]]
      lacks(since, instruction, pc);
  }
  /// The same for an instruction that later devices do not have.
  void require_no_later(int only, const char* instruction, const void* pc) {
    if (compute_capability_ > only) [[unlikely]]
      lacks(only, instruction, pc);
  }

 private:
  friend class Cluster;
  friend class ResidentGrid;

  enum class State : std::uint8_t {
    kReady,
    kWarpSync,
    kBlockSync,
    kClusterSync,
    kGridSync,
    kMbarrier,
    kNamedBarrier,
    kDone
  };

  struct AsyncCopy {
    void* to;
    const void* from;
    std::size_t bytes, source_bytes;
    const void* pc;
  };

  struct Thread {
    // What every turn needs, in two lines of the cache.
    alignas(64) boost::context::detail::fcontext_t context = nullptr;
    Dim3 index;
    int linear = 0;
    const void* sync_pc = nullptr;
    // kWarpSync
    void* operand = nullptr;
    void (*resolve)(void* const*) = nullptr;
    unsigned mask = 0;  ///< kBlockSync, kClusterSync, kGridSync: 0
    device::WarpOp op = device::WarpOp::kSync;
    State state = State::kDone;
    bool arrived = false;     ///< kMbarrier, kNamedBarrier: the scheduler has seen this thread there
    bool of_cluster = false;  ///< kMbarrier: the scope of the wait
    bool only_tests = false;  ///< kMbarrier: it goes on even if the phase is not complete
    bool tries = false;       ///< kMbarrier: it goes on if no thread can do anything else
    bool passed = false;      ///< kMbarrier: the phase was complete
    int value = 0;            ///< kBlockSync; kMbarrier: the parity; kNamedBarrier: the number
    alignas(64) LoopTracker loops;

    std::uintptr_t barrier = 0;          ///< kMbarrier
    int party = 0;                       ///< kNamedBarrier: the threads that have to come
    std::uintptr_t volatile_read = 0;    ///< of global memory, the latest
    std::uint64_t volatile_read_at = 0;  ///< in this basic block and iteration
    std::vector<std::uintptr_t> locks;   ///< that it has taken since the last __syncthreads()
    int steps = -1;                      ///< as steps_before_arrivals has it; -1: no wait for products yet
    int arrivals = 0;                    ///< at mbarriers
    int reads_outside = 0;               ///< that it has made: what it does with their values is not reported
    std::uint32_t fence_epoch = 0;       ///< in which it has executed its latest __threadfence()
    const void* fence_pc = nullptr;  ///< of its latest __threadfence(), as far as the log has been processed
    // kDone: the latest access since the last synchronisation, whose return address is sync_pc
    int last_access = -1;
    const LoopTracker* left_at = nullptr;  ///< its place, if others of the block may have waited
    std::vector<AsyncCopy> open_group;
    std::deque<std::vector<AsyncCopy>> groups;
    std::uint32_t landed_groups = 0;
    CopyClock copies;  // as far as the log has been processed
    ClusterClock cluster;
    BulkGroups bulk;
    std::vector<LastWait> last_waits;         ///< by mbarrier
    LastWait last_wait;                       ///< of these
    LastWait repeated_wait;                   ///< the latest that repeats another one
    std::vector<std::uint32_t> proxy_fences;  ///< ticks: a store before the tick is fenced
  };

  // An odd number of lines, so that those of many threads find room in a cache.
  static_assert(sizeof(Thread) / 64 % 2 == 1);

  struct Warp {
    std::uint32_t live = 0;
    WarpClock clock;
    const void* barrier_pc = nullptr;  ///< of the last __syncthreads(), if no access has followed it
    std::vector<bool> used_groups;  ///< by number: somebody has read what one of the lanes has copied in it
    bool has_learned =
        false;  ///< some lanes may know more of other warps than others since the last __syncwarp()
    bool is_blocked = false;  ///< its lanes are there, but their wait is not over
    int registers = 0;        ///< of each thread: see setmaxnreg
    WarpProducts products;
  };

  /// A use of registers by a product in flight.
  struct InFlight {
    const char* array =
        nullptr;            ///< what the report calls them, as with_lines() has it; nullptr: no such product
    std::size_t index = 0;  ///< of the register
    bool of_a = false;
    std::uint32_t group = 0;
    const void* pc = nullptr;       ///< of the product
    const void* left_by = nullptr;  ///< see AccumulatorTile
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
  /// The stacks of 16 threads begin at different places in a page, so that they do not share lines of a
  /// cache.
  static constexpr std::size_t kShift = kPage / 16;
  static constexpr std::size_t kStackStride = kPage + kStack + kPage;  // a guard page below each stack
  static std::size_t shift_of(int thread) { return std::size_t(thread % 16) * kShift; }
  /// How much of it a kernel is likely to use.
  static constexpr std::size_t kLikelyStack = 8 * 1024;
  /// After this many accesses without any synchronisation in the block, a lane is assumed to run forever.
  static constexpr std::int64_t kLongPatience = 1 << 25;

  // block.cpp
  void begin_block(std::uint64_t linear, std::uint32_t number);
  void clear_shared();
  void start_threads();

  // block_schedule.cpp
  bool run_warps();
  void finish_block();
  bool run_warp(int warp);
  void resolve_warp(int warp);
  bool goes_on_waiting(bool only_reads);
  void end_waiting();
  bool release_active(int warp);
  void keep_places(int warp);
  bool release_barrier();
  void abandon();
  static void fiber_main(boost::context::detail::transfer_t from);
  void turn_to(Thread& thread);
  void resume(Thread& thread);
  Thread* next_in_turn();
  [[gnu::always_inline]] inline void begin_turn(Thread& thread);
  /// To the next lane of the warp that has a turn, or to the scheduler. @return  from whom, when the thread
  ///                                                                         has its next turn
  [[gnu::always_inline]] inline boost::context::detail::transfer_t leave();
  [[gnu::always_inline]] inline void suspend();
  [[noreturn]] void end_thread();
  void announce_in(Thread& thread, const FindingKey& key, const Example& example);

  // block_divergence.cpp
  void report_divergence();
  bool went_past(const Thread& returned, const Thread& waiting) const;
  Thread& most_awaited(int begin, int end, State state);
  Whereabouts whereabouts(const Thread& thread, const Thread& waiting) const;
  std::vector<Group> groups(int begin, int end, const Thread& waiting) const;
  std::string block_name() const;
  std::vector<Piece> what_it_does(const Thread& thread, bool many) const;
  std::vector<Piece> where_threads_are(const std::string& of_block) const;
  void report_deadlock(Thread& waiting);
  Thread* divided_warp();
  void report_missing(int begin, int end, State state);
  void add_divergence(Thread* at, const void* pc, Example found, std::uintptr_t rival_pc = 0);
  void add_finding(Thread* at, const FindingKey& key, Example found);

  // block_async.cpp: what follows from operations of the asynchronous proxy
  void start_clocks();
  void start_own_clocks(int blocks, int rank);
  void post(Operation&& operation, const void* pc);
  void process_operations(const WarpAccess& access, int warp);
  bool process_operation(Operation& operation, int thread, const void* pc);
  void count_operation(Operation::Kind kind, std::int64_t lanes, int warp);
  static void count_step(Thread& t) { t.steps += t.steps >= 0; }
  void passed_warp_barrier(int warp, std::uint32_t lanes, bool everyone);
  void passed_block_barrier();
  void pass_grid_barrier(std::uint32_t number);
  void release(int thread, Clock& clock, bool relaxed = false);
  void acquire(int thread, const Clock& clock);
  std::uint32_t known(int thread, int other) const;
  bool is_fenced(int reader, int writer, std::uint32_t tick) const;
  void note_store(std::uintptr_t address, std::size_t bytes, int thread, const Actor& actor);
  void check_async_readers(std::uintptr_t address, std::size_t bytes, int lane, const Actor& actor,
                           InstructionKey key);
  void explain_async(Example& example, InstructionKey instruction, std::uintptr_t address,
                     const Rival& rival) const;
  void explain_load(Example& example, InstructionKey instruction, std::uintptr_t address,
                    const Mbarrier& barrier, std::uint16_t sequence) const;
  void found_async_race(InstructionKey key, std::uintptr_t address, const Actor& actor, int lane,
                        const AsyncShadow::Read& read);
  void found_missing_fence(InstructionKey key, std::uintptr_t address, int thread,
                           const AsyncShadow::Write& write);
  Piece name_of(std::uintptr_t address, const void* pc) const;
  static std::string phase_name(std::uint32_t phase);
  LastWait last_wait_for(int thread, const Mbarrier& barrier) const;
  std::vector<Piece> returned_at_once(const LastWait& wait) const;
  std::vector<Piece> read_too_early(int thread, const Mbarrier& barrier, std::uint32_t phase) const;

  void add_event(const char* name, int thread, const void* pc, std::vector<Piece> barrier,
                 std::int64_t phase);

  // block_barriers.cpp
  void settle_waits(int warp);
  void come_to_mbarrier(const void* barrier, int parity, bool of_cluster, bool only_tests, bool tries,
                        const void* pc);
  bool end_tries();
  void settle_mbarrier(Thread& thread);
  void check_mbarrier(std::uintptr_t address, const void* pc);
  void check_named_barrier(int id, int threads, const void* pc);
  [[noreturn]] void misuse(const void* pc, std::vector<Piece> message);
  Mbarrier* find_mbarrier(std::uintptr_t address);
  void init_mbarrier(const Operation& operation, int thread, const void* pc);
  bool arrive(Mbarrier& barrier, const Operation& operation, BlockRunner& by, int thread, const void* pc);
  std::vector<Piece> with_repeated_wait(int thread, std::vector<Piece>&& message) const;
  bool try_complete(Mbarrier& barrier);
  void check_bytes(Mbarrier& barrier, const BulkCopy* next = nullptr);
  static std::string boxes_of(const BulkCopy& copy);
  void next_phase(Mbarrier& barrier);
  bool come_to(int id, int threads, int thread, const void* pc);
  void use_mbarrier(AccessKind kind, std::uintptr_t address, int thread, const void* pc);

  // block_bulk.cpp
  void check_copy(BulkCopy& copy, const void* pc);
  void check_run(const BulkCopy& copy, std::uintptr_t global, std::size_t bytes, const void* pc);
  void begin_load(const std::shared_ptr<BulkCopy>& copy, Mbarrier& barrier, int thread, const void* pc);
  void land_load(BulkCopy& copy);
  void begin_store(const BulkCopy& copy, int thread, const void* pc);
  void end_stores(const Operation& operation, int thread, const void* pc);
  void end_store(const BulkCopy& copy, const Actor& actor);
  void use_global_async(InstructionKey key, std::uintptr_t address, std::size_t bytes, int lane,
                        const Actor& actor, Completion completion, bool in_turn);
  void count_copy(const BulkCopy& copy);
  void finish_copies();

  // block_counts.cpp
  void process(const WarpAccess& access, int warp);
  bool process_special(const WarpAccess& access, int warp);
  void process_fence(InstructionKey key, std::uint32_t lanes, int warp);
  void count_global(const WarpAccess& access, const Pattern& pattern);
  void count_shared(const WarpAccess& access, const Pattern& pattern);
  Actor actor_of(InstructionKey key, int warp);
  std::uint32_t first_block() const;  ///< the number of the launch's first one
  void compare_stores(const WarpAccess& access, std::uint32_t lanes, int warp);
  bool is_of_same_instruction(std::uintptr_t address, const Actor& actor, const Rival& rival) const;
  /// Asynchronous copies need the state of every word.
  bool finds_races() const {
    return !debugging_ && (launch_->finds_races || has_copies_ || has_clocks_ || cluster_ != nullptr);
  }
  void find_races(InstructionKey key, std::uintptr_t address, std::uint32_t lanes, const Actor& actor);
  bool use_sequence(const WarpAccess& access, const Pattern& pattern, const Actor& actor);
  void use_global(InstructionKey key, std::uintptr_t address, std::size_t size, std::uint32_t lanes,
                  const Actor& actor);
  void found_race(InstructionKey key, std::uintptr_t address, const Actor& actor, int lane,
                  const Rival& rival);
  void record_use(std::uintptr_t offset, std::size_t bytes, int lane, const Actor& actor);

  // block_order.cpp
  void note_arrival(Arrival&& arrival);
  void set_arrivals();
  void guard_words(const WarpAccess& access, int warp);
  bool is_guarded(std::uintptr_t address) const;
  void take_news(std::uintptr_t word, int thread, const void* pc);
  void process_arrivals(const WarpAccess& access, int warp);
  void process_arrival(Arrival&& arrival, int thread);
  std::size_t latest_arrival(const Actor& actor, int lane) const;
  void process_dependency(bool waits, int thread);
  bool comes_after(const Actor& actor, int lane, const Moment& moment) const;
  void check_unfinished(std::uintptr_t offset, Use use, int lane, const Actor& actor);

  /// The state of a word all of whose bytes have been written.
  static constexpr std::uint8_t kWritten = 0x0f;

  /// Remembers how much of its stack the thread uses.
  void note_depth() {
    const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    used_stack_ = std::max(used_stack_, stack_top_ - here);
  }

  // block_access.cpp
  Surroundings surroundings(Space space, std::uintptr_t address, std::size_t size);
  /// Both return false if there is nothing to be counted: the thread reads out of bounds.
  bool check_global(std::uintptr_t address, std::size_t size, AccessKind kind, const void* pc, bool aligned);
  bool check_shared(std::uintptr_t address, std::size_t size, AccessKind kind, const void* pc, bool aligned);
  bool may_follow(Space space, std::uintptr_t address) const;
  void read_outside(Space space, std::uintptr_t address, std::size_t size, const void* pc);
  void access_local(std::uintptr_t address, std::size_t size, AccessKind kind, const void* pc);
  void access_elsewhere(std::uintptr_t address, std::size_t size, AccessKind kind, const void* pc,
                        bool aligned);
  int owner_of_local(std::uintptr_t address) const;
  void check_awaited(const void* word, const void* pc);
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
  SharedByte shared_byte(std::uintptr_t address) const;
  StaticVariable* variable_at(std::size_t offset);

  // block_calls.cpp
  [[noreturn]] void lacks(int since, const char* instruction, const void* pc);

  // block_cluster.cpp
  void require_cluster(const char* instruction, const void* pc);
  [[noreturn]] void misuse_cluster(const std::string& how, const void* pc);
  void note_cluster(device::WarpOp op, std::uint32_t lanes, int warp);
  void access_remote(std::uintptr_t address, std::size_t size, AccessKind kind, const void* pc, bool aligned,
                     BlockRunner& owner);
  void count_remote(const WarpAccess& access);
  void find_remote_races(InstructionKey key, std::uintptr_t address, std::uint32_t lanes, const Actor& actor);
  void find_cluster_races(InstructionKey key, std::uintptr_t address, std::uint32_t lanes, const Actor& actor,
                          BlockRunner& owner);
  void found_cluster_race(InstructionKey key, std::uintptr_t address, int thread, const ClusterUse& rival);
  void found_ended(const RemoteUse& use, const BlockRunner& owner);
  std::uintptr_t in_own_memory(std::uintptr_t address, const BlockRunner& owner) const;

  // block_remote.cpp: mbarriers of other blocks of the cluster, and copies to these
  BlockRunner& check_in_cluster(std::uintptr_t address, std::size_t bytes, AccessKind kind, const void* pc);
  void check_own_mbarrier(std::uintptr_t address, const char* instead, const void* pc);
  bool process_in_cluster(Operation& operation, int thread, const void* pc);
  bool sees_initialisation(const Mbarrier& barrier, const BlockRunner& owner, int thread) const;
  void found_early_use(const Mbarrier& barrier, const BlockRunner& owner, int thread, const void* pc);
  void begin_copy_in_cluster(const std::shared_ptr<BulkCopy>& copy, Mbarrier& barrier, BlockRunner& owner,
                             int thread, const void* pc);
  void found_overwriting(const BulkCopy& copy, std::uintptr_t address, const BlockRunner& owner,
                         const Rival& rival);
  void add_remote_use(BlockRunner& owner, const RemoteUse& use);
  void find_unread_sources();
  BlockRunner& issuer_of(const BulkCopy& copy);
  Piece name_for(const BlockRunner& reader, std::uintptr_t address, const void* pc) const;
  std::string of_block_for(const BlockRunner& reader) const;

  // block_products.cpp
  /// @param places  return addresses: the first is that of the defect. In the text, {0}, {1} and {2} stand
  ///   for their lines.
  template <class Words>
  void product_defect(std::uint8_t rule, int thread, const Places& places, Words&& words);
  bool wait_is_over(int warp, const WarpgroupOp& wait) const;
  void process_warpgroup_op(int warp);
  void compare_operands(const WarpgroupOp& one, int thread, const WarpgroupOp& other, int other_thread);
  PendingOp& reach(int warp, const WarpgroupOp& op);
  void issue_product(int warp, PendingOp& pending);
  void complete_ops(int warpgroup);
  void find_chunks(int thread, const WarpgroupOp& op, bool is_a, int mn, std::vector<std::uintptr_t>& chunks);
  void begin_reads(int warp, PendingOp& pending);
  void compute_product(const PendingOp& pending);
  bool report_missing_warps();
  void reset_products();

  // block_accumulators.cpp
  void note_register(std::uintptr_t address, std::size_t size, AccessKind kind, const void* pc);
  void found_early_use(std::uintptr_t address, RegisterUse use, AccessKind kind, const void* pc);
  void found_first_use(std::uintptr_t address);
  void use_finished(FinishedTile& tile);
  InFlight product_of(int thread, std::uintptr_t address) const;
  std::string why_in_flight(const InFlight& product, int thread) const;
  void check_fence(int thread, const void* registers, int index, bool of_a, const WarpgroupOp& op);
  std::shared_ptr<AccumulatorTile> take_accumulators(int warp, const WarpgroupOp& op);
  void take_operand_registers(int warp, PendingOp& pending);
  void finish_products(int warp, std::uint32_t covered, const void* pc);
  void end_products(int warp);

  // block_tiles.cpp
  std::optional<BoxChunk> landed_chunk(std::uintptr_t address) const;
  void check_tile(int thread, const WarpgroupOp& op, bool is_a, const std::vector<std::uintptr_t>& chunks);
  void check_columns(int thread, const WarpgroupOp& op, bool is_a, const std::vector<std::uintptr_t>& chunks);
  OperandPlace place_of_operand(const std::vector<std::uintptr_t>& chunks, bool mn_major) const;
  void check_factors(int thread, const PendingOp& pending, AccumulatorTile& tile);

  // block_registers.cpp
  void reset_registers();
  bool has_registers(int warp, int registers) const;
  void set_registers(int warp, const WarpgroupOp& op);
  bool report_missing_registers();
  void register_defect(std::uint8_t rule, Thread* thread, const void* pc, const std::string& text);

  // block_copies.cpp
  void land(std::vector<AsyncCopy>& group);
  void note(AccessKind kind, std::uintptr_t value, const void* pc);
  void process_note(const WarpAccess& access, int warp);
  void process_note(int thread, AccessKind kind, std::uint32_t value, const void* pc);
  void remember_origin(std::uintptr_t address, std::size_t bytes, std::uint32_t lanes, int warp);
  void use_copy(std::size_t offset, int warp);
  void explain_copy(Example& example, InstructionKey instruction, std::uintptr_t address,
                    const Rival& rival) const;

  // block_record.cpp
  void begin_record();
  void end_record(bool abandoned);
  void record_members(const DeclaredObject& object);
  std::uint32_t record_event(record::Event event, int thread, const void* pc);
  std::uint32_t record_event_of_lanes(record::Event event, const void* pc);
  void record_access(const WarpAccess& access, const Pattern& pattern, int warp);
  void link_value(const WarpAccess& access, std::uint32_t event, int warp);
  void record_op(int warp, record::Op op, std::uint32_t lanes, const void* pc,
                 std::uint32_t array = record::kNone, std::uint32_t number = record::kNone);
  void record_warp_op(int warp, const Thread& leader, std::uint32_t lanes);
  void record_waits(int warp);
  void record_wait(const Thread& thread, record::BarrierKind kind, std::uint64_t id,
                   std::uint32_t phase = record::kNone);
  void record_warp_wait(const Thread& thread);
  std::uint32_t record_barrier(record::BarrierKind kind, std::uint64_t id, int thread, const void* pc);
  void record_go_on(int warp, std::uint32_t lanes, record::BarrierKind kind);
  void record_complete(std::uint32_t number);
  void record_block_barrier();
  void record_arrival(std::uint32_t number, std::uint32_t phase, int thread, const void* pc,
                      std::uint32_t bytes = record::kNone);
  std::uint32_t record_mbarrier(const Mbarrier& barrier);
  void record_mbarrier_wait(const Thread& thread, const Mbarrier& barrier);
  void record_named_barrier(int id, const std::vector<int>& waiting);
  void record_copy_note(const WarpAccess& access, int warp);
  void record_cluster_arrival(int warp, std::uint32_t lanes);
  std::uint32_t cluster_arrival() const;
  void record_cluster_barrier(std::optional<std::uint32_t> arrival);
  void record_copy(const BulkCopy& copy, const Mbarrier* barrier, int thread, const void* pc);
  void record_landing(const BulkCopy& copy, const Mbarrier& barrier);
  void record_bulk_wait(const Operation& operation, int thread, const void* pc);
  void record_operation(const Operation& operation, int thread, const void* pc);
  record::Operand operand_of(std::uint64_t descriptor, bool mn_major) const;
  void record_product(int warp, const WarpgroupOp& op);
  void record_warpgroup_op(int warp, const WarpgroupOp& op);
  void record_product_wait(int warp, std::uint32_t covered, const void* pc);
  void record_defect(const FindingKey& key, const Example& example, bool in_kernel);
  void tell_defect(std::uint32_t number, std::uint32_t event);
  void settle_defects(const WarpAccess& access, std::uint32_t event, std::uint32_t lanes, int warp);
  void settle_defects_before(int access, int warp);
  void flush_defects(int warp);
  std::uint32_t record_failed_access(const FindingKey& key, const Example& example, bool by_thread = true);

  Arena& arena_;
  const std::uintptr_t arena_base_;
  const std::size_t arena_bytes_;
  const int compute_capability_;
  const bool debugging_ = is_debugging(), profiling_ = is_profiling();
  bool of_object_ = false;  ///< see begin_piece()
  Announcer announcer_;

  // The block that runs.
  std::uint64_t linear_ = 0;
  std::uint32_t number_ = 0;
  int fruitless_tries_ = 0;             ///< rounds in which the block went on only because tries were in vain
  bool waits_cover_registers_ = false;  ///< waits for products name no registers: those of inline PTX
  std::vector<std::array<std::uint32_t, 4>> operand_copies_;  ///< by thread: see copy_of_operand()
  Dim3 block_dim_, grid_dim_;
  int thread_count_ = 0, warp_count_ = 0, live_ = 0;
  std::uint32_t epoch_ = 0, block_epoch_ = 0;
  bool trapped_ = false;
  bool follows_lost_block_ = false;  ///< a block of an earlier launch was given up
  Pulse& pulse_ = Pulse::make();
  bool in_fiber_ = false;    ///< a thread runs
  bool has_copies_ = false;  ///< a thread has begun a cp.async
  int active_waits_ = 0;     ///< threads at __activemask()
  bool yields_ = false;  ///< a warp has had a long turn: it may be waiting for something that others write
  WaitingLoop waiting_loop_;
  bool has_changed_ = false;  ///< since the accesses in the log have been looked at
  int idle_rounds_ = 0;       ///< full logs since the last synchronisation
  std::uintptr_t last_access_pc_ = 0;
  record::BlockRecord* record_ = nullptr;  ///< of this block, if it is recorded
  const device::Launch* launch_ = nullptr;

  std::array<Thread, kMaxThreads> threads_;
  std::array<Warp, kMaxWarps> warps_;
  Thread* current_ = nullptr;
  boost::context::detail::fcontext_t scheduler_ = nullptr;
  /// Where whoever goes on remembers the context of who has jumped to it.
  boost::context::detail::fcontext_t* leaving_ = nullptr;
  Thread* warp_in_turn_ = nullptr;
  std::uint32_t lanes_to_come_ = 0;  ///< of lanes_in_turn_, rotated so that the first one comes first
  std::uint32_t lanes_in_turn_ =
      0;                         ///< of the current warp: those that continue from its last synchronisation
  std::uint64_t iteration_ = 0;  ///< of current_, by its LoopTracker
  std::uint32_t register_time_ = 0;  ///< of current_: see RegisterUses; 0 before its first wgmma_fence()
  AccessLog log_{!debugging_};
  /// For a debugger: by address, in which iteration of the loops around it the latest store has been made.
  std::unordered_map<std::uintptr_t, std::uint64_t> latest_stores_;
  int first_lane_in_turn_ = 0;  ///< of the lanes whose accesses are in the log
  PatternCache patterns_;

  // Shared memory: the TLS block of this CPU thread.
  std::uintptr_t shared_base_ = 0;
  std::size_t shared_bytes_ = 0;
  std::vector<StaticVariable> variables_;        ///< [0] is "none"
  std::vector<DeclaredObject> declared_;         ///< by this block
  std::vector<std::uint16_t> variable_of_word_;  ///< by word of the TLS block
  std::vector<std::uint8_t> shared_state_;       ///< by word of the TLS block: see AccessLog::follow()
  Reserved<CopyOrigin> copy_origins_;            ///< by word of the TLS block
  RaceShadow shared_shadow_;

  // If the block is in a cluster.
  Cluster* cluster_ = nullptr;
  int rank_ = 0;
  std::uint32_t known_phases_ =
      0;  ///< all threads know that these have been completed, since a __syncthreads()
  std::vector<std::uint32_t>
      released_;  ///< by phase: its arrivals release what the block did before this epoch
  std::vector<std::unique_ptr<RaceShadow>>
      remote_shadows_;                             ///< by rank: of this block's accesses to others' memory
  std::unique_ptr<ClusterShadow> cluster_shadow_;  ///< of the accesses of all blocks to this one's memory
  std::vector<RemoteUse> remote_uses_;             ///< of this one's memory
  std::vector<SourceUse> source_uses_;             ///< of this one's memory, by its own copies
  GlobalShadow global_shadow_;
  std::vector<Arrival> arrived_;   ///< in the log
  std::vector<Arrival> arrivals_;  ///< of this block
  /// By word, since the last __syncthreads(): the locks that all threads have taken which have used it.
  std::unordered_map<std::uintptr_t, std::vector<std::uintptr_t>> guards_;
  bool has_locks_ = false;  ///< a thread of this block has taken one and given it up
  std::unordered_map<std::uintptr_t, std::uint64_t>
      seen_releases_;                 ///< by word: the latest that it has acquired
  std::vector<Moment> dependencies_;  ///< its waits for the kernel before

  // Asynchronous operations. Most kernels have none, and then all this stays empty.
  bool has_clocks_ = false;            ///< this block does have some
  bool expects_clocks_ = false;        ///< an earlier block of this kernel did
  const void* expects_for_ = nullptr;  ///< the kernel
  int waits_ = 0;                      ///< threads in states kMbarrier and kNamedBarrier
  ThreadClocks clocks_;
  EventTrace* const event_trace_ = EventTrace::instance();
  std::uint64_t events_ = 0;  ///< in this block
  /// What has been told of the warps at this step, once for all lanes: name, instruction, warp, place of the
  /// barrier.
  std::set<std::tuple<std::string_view, const void*, int, std::size_t>> told_;
  AsyncShadow async_shadow_;
  std::vector<Operation> operations_;  ///< in the log
  const Mbarrier* loading_ = nullptr;  ///< of the load that begins
  std::vector<Mbarrier> mbarriers_;
  std::unordered_map<std::uintptr_t, std::size_t> mbarrier_at_;
  std::array<NamedBarrier, 16> named_barriers_;
  std::vector<Sequence> sequences_;  ///< by number, from ThreadClocks::kFirstSequence on
  /// A variable in the window of shared_address().
  struct Windowed {
    std::uint32_t window;
    std::uintptr_t begin;
    std::size_t bytes;
  };
  std::vector<Windowed> window_;  ///< in order

  // Products of warpgroups.
  std::array<Warpgroup, kMaxWarps / kWarpgroupWarps> warpgroups_;
  RegisterUses register_uses_;
  LandedBoxes landed_boxes_;
  OperandPanel product_a_, product_b_;
  Exponents a_exponents_, b_exponents_;
  int launch_registers_ = 0;  ///< of each thread
  int free_registers_ = 0;    ///< that the block's warps have given back

  SiteNumbers sites_;

  std::byte* stacks_ = nullptr;
  std::uintptr_t own_stack_ = 0, stack_top_ = 0;  ///< of current_
  std::size_t used_stack_ = 0;  ///< by threads of this kernel, at most; 0 before its first block
  // For AddressSanitizer, which must be notified of every change of stack.
  void* scheduler_fake_stack_ = nullptr;
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_stack_size_ = 0;
};

/// The runner of this CPU thread while the code of a kernel runs, otherwise nullptr: functions of
/// the standard library that the runtime calls may be the copies that were compiled with a kernel, hooks and
/// all.
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

// Inline, because a processor does not foresee where functions return to in which a thread has waited.

void BlockRunner::begin_turn(Thread& thread) {
  iteration_ = thread.loops.iteration();
  register_time_ = warps_[thread.linear / kWarpSize].products.time;
  log_.enter(thread.linear % kWarpSize);
  turn_to(thread);
  current_runner = this;
}

boost::context::detail::transfer_t BlockRunner::leave() {
  leaving_ = &current_->context;
  Thread* const next = sanitizer::kIsOn ? nullptr : next_in_turn();
  if (next == nullptr) return boost::context::detail::jump_fcontext(scheduler_, this);
  begin_turn(*next);
  return boost::context::detail::jump_fcontext(next->context, this);
}

void BlockRunner::suspend() {
  note_depth();
  void* fake_stack = nullptr;
  sanitizer::leave(&fake_stack, scheduler_stack_, scheduler_stack_size_);
  const auto back = leave();
  sanitizer::arrive(fake_stack, &scheduler_stack_, &scheduler_stack_size_);
  *leaving_ = back.fctx;
}

inline int BlockRunner::sync_threads(int value, const void* pc) {
  current_->state = State::kBlockSync;
  current_->sync_pc = pc;
  current_->mask = 0;
  current_->value = value;
  suspend();
  return current_->value;
}

inline void BlockRunner::warp_rendezvous(unsigned mask, device::WarpOp op, void* operand,
                                         void (*resolve)(void* const*), const void* pc) {
  Thread& t = *current_;
  t.state = State::kWarpSync;
  t.sync_pc = pc;
  t.mask = mask;
  t.op = op;
  t.operand = operand;
  t.resolve = resolve;
  if (op == device::WarpOp::kActive) ++active_waits_;
  suspend();
}

template <class Complete>
void BlockRunner::found(const FindingKey& key, Complete&& complete) {
  const bool in_kernel = current_runner != nullptr;
  const OutsideKernel outside;
  Example* e = tally.findings.add(key, linear_);
  const bool is_recorded = record_ != nullptr && !record_->known_defects.contains(key);
  std::optional<Example> own;  // a lower block may have the same finding
  if (is_recorded && e == nullptr) [[unlikely]] {
    own.emplace().block = linear_;
    e = &*own;
  }
  if (e == nullptr) return;
  complete(*e);
  if (is_recorded) [[unlikely]]
    record_defect(key, *e, in_kernel);
  if (debugging_) announcer_.announce(key, *e);
}

template <class Operation>
void BlockRunner::arrive_at_counter(const void* counter, bool acquires, Operation&& operation,
                                    const void* pc) {
  if (is_shared(counter)) return static_cast<void>(operation());
  std::uint64_t position = 0;
  bool changes = false;
  {
    const OutsideKernel outside;
    position = arena_.grid_order().carry_out(counter, [&] { return changes = operation(); });
  }
  if (!changes && !acquires) return note_news(counter, pc);  // it only looks
  note_arrival({.counter = reinterpret_cast<std::uintptr_t>(counter) - arena_base_,
                .position = position,
                .pc = pc,
                .acquires = acquires});
}

template <class Words>
void BlockRunner::product_defect(std::uint8_t rule, int thread, const Places& places, Words&& words) {
  const FindingKey key{.kind = DefectKind::kWgmma,
                       .pc = reinterpret_cast<std::uintptr_t>(places[0]),
                       .rival_pc = reinterpret_cast<std::uintptr_t>(places[1]),
                       .space = Space::kShared,
                       .rule = rule};
  found(key, [&](Example& e) {
    fill(e, thread, Space::kShared, shared_base_);
    e.message = with_lines("Wgmma error detected. " + words(), places);
  });
}

/// See Pool in device.cpp.
bool start_another_block();

/// Where dynamic shared memory lives, registered by the objects of dynamic_shared.hpp.
void register_dynamic_shared(void* (*address)());

}  // namespace gpusim
