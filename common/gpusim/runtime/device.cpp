#include "gpusim/runtime/device.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "gpusim/runtime/block.hpp"
#include "gpusim/runtime/cluster.hpp"
#include "gpusim/runtime/debugging.hpp"
#include "gpusim/runtime/device_members.hpp"
#include "gpusim/runtime/ending.hpp"
#include "gpusim/runtime/host_memory.hpp"
#include "gpusim/runtime/kernel_table.hpp"
#include "gpusim/runtime/local_reads.hpp"
#include "gpusim/runtime/matrix.hpp"
#include "gpusim/runtime/published.hpp"
#include "gpusim/runtime/resident_grid.hpp"
#include "gpusim/runtime/session.hpp"
#include "gpusim/runtime/skipped_barrier.hpp"
#include "gpusim/runtime/streams.hpp"
#include "gpusim/runtime/symbols.hpp"
#include "gpusim/runtime/watchdog.hpp"

namespace gpusim {
namespace {

int worker_count() {
  if (is_debugging()) return 1;
  if (const char* text = std::getenv("GPUSIM_THREADS")) {
    if (const int n = std::atoi(text); n > 0) return n;
  }
  return int(std::max(1u, std::thread::hardware_concurrency()));
}

/// Memory that is reserved costs nothing until it is used; then there may be none.
class Memory {
 public:
  /// Looks from time to time. Call it from any CPU thread.
  bool is_short() {
    using std::chrono::steady_clock;
    constexpr std::int64_t kPeriod = std::chrono::nanoseconds(std::chrono::milliseconds(100)).count();
    constexpr std::int64_t kLeast = 128 * 1024;  // KiB
    const std::int64_t now = steady_clock::now().time_since_epoch().count();
    std::int64_t next = next_;
    if (now < next || !next_.compare_exchange_strong(next, now + kPeriod)) return false;
    std::FILE* const file = std::fopen("/proc/meminfo", "r");
    if (file == nullptr) return false;
    char line[128];
    long long available = -1;
    while (available < 0 && std::fgets(line, sizeof line, file) != nullptr)
      if (std::sscanf(line, "MemAvailable: %lld", &available) != 1) available = -1;
    std::fclose(file);
    return available >= 0 && available < kLeast;
  }

 private:
  std::atomic<std::int64_t> next_{0};
};

/// CPU threads that wait for launches. Each keeps its BlockRunner, with its stacks and shadow memory.
class Pool {
 public:
  static Pool& instance() {
    static Pool pool;
    return pool;
  }

  Pool() {
    handle_invalid_operations();
    const std::size_t count = std::size_t(worker_count());
    Progress::instance().begin(count + kMostExtra);
    for (std::size_t i = 0; i < count; ++i) threads_.emplace_back([this, i] { work(i); });
  }

  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

  /// A block waits for something that one may write which has not begun: lets the next one begin, on a CPU
  /// thread of its own. @return  whether there is one
  bool start_another_block() {
    const std::lock_guard lock(mutex_);
    if (launch_ == nullptr || is_debugging() || launch_->cooperative || launch_->cluster.x != 0 ||
        next_block_ >= blocks_ || extra_.size() >= kMostExtra)
      return false;
    ++busy_;
    const std::size_t number = threads_.size() + extra_.size();
    extra_.emplace_back([this, number] { work(number, true); });
    return true;
  }

  std::size_t run(device::Launch launch) {
    const std::lock_guard one_at_a_time(launches_);  // several threads of the host may launch
    const device::Index c = launch.cluster;
    const std::uint64_t blocks =
        std::uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z / (c.x == 0 ? 1 : c.x * c.y * c.z);
    std::unique_lock lock(mutex_);
    if (std::uint64_t(next_number_) + blocks > 0xffffffffu) {
      Arena::instance().grid_races().forget_all();
      Arena::instance().grid_order().forget_all();
      Arena::instance().publishers().forget_all();
      unfinished_from_.clear();
      next_number_ = 1;
    }
    std::uint32_t& unfinished_from = unfinished_from_[launch.stream];
    if (launch.overlaps) launch.unfinished_from = unfinished_from;
    Arena::instance().grid_races().begin(next_number_);
    Arena::instance().grid_order().begin(next_number_);
    Progress::instance().begin_launch();
    launch_ = &launch;
    blocks_ = launch.cooperative ? 1 : blocks;  // by one CPU thread
    parts_ = 1;
    next_block_ = 0;
    static_bytes_ = 0;
    busy_ = int(threads_.size());
    ++generation_;
    wake_.notify_all();
    done_.wait(lock, [this] { return busy_ == 0; });
    std::vector<std::thread> extra = std::move(extra_);
    extra_.clear();
    lock.unlock();
    for (std::thread& thread : extra) thread.join();
    lock.lock();
    if (!launch.cooperative) Session::instance().settle_grid_races(launch, next_number_);
    next_number_ += (parts_ - 1) * std::uint32_t(blocks);
    if (record::Recorder* recorder = record::Recorder::instance()) recorder->end_launch(launch, next_number_);
    const std::uint64_t ranks = std::uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z;
    if (launch.unfinished_from == 0 || Arena::instance().grid_order().has_waited(ranks))
      unfinished_from = next_number_;
    next_number_ += std::uint32_t(blocks);
    launch_ = nullptr;
    return static_bytes_;
  }

 private:
  /// The next block of the launch. Until it is known, no other thread may take those below it for ended.
  std::uint64_t take_block(std::size_t thread) {
    if (memory_.is_short()) {
      std::fprintf(
          stderr,
          "gpusim: error: the program needs more memory than this machine has: choose a smaller size\n");
      end_process(2);
    }
    Progress& progress = Progress::instance();
    progress.reach(thread, next_number_ + std::uint32_t(std::min<std::uint64_t>(next_block_, blocks_)));
    Watchdog::count_block();
    const std::uint64_t block = Watchdog::is_time_up() ? blocks_ : next_block_.fetch_add(1);
    if (block < blocks_) {
      progress.reach(thread, next_number_ + std::uint32_t(block));
    } else {
      progress.end(thread);
    }
    return block;
  }

  /// @param for_one_launch  the one that runs
  void work(std::size_t thread, bool for_one_launch = false) {
    const HostRuntime runtime;
    give_signals_a_stack();
    std::unique_ptr<BlockRunner> runner;
    std::unique_ptr<Cluster> cluster;
    std::uint64_t seen = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stop_ || for_one_launch || generation_ != seen; });
      if (stop_) return;
      seen = generation_;
      const device::Launch& launch = *launch_;
      lock.unlock();
      std::uint64_t block = take_block(thread);
      std::size_t static_bytes = 0;
      const auto absorb = [&](BlockRunner& by) {
        static_bytes = std::max(static_bytes, by.static_shared_bytes());
        by.tally.shared.bytes_per_block = std::int64_t(launch.dynamic_shared_bytes + static_bytes);
        Session::instance().absorb(by.tally);
      };
      if (block < blocks_) {
        if (!runner && !launch.cooperative) runner = std::make_unique<BlockRunner>();
        if (launch.cooperative) {
          if (!grid_) grid_ = std::make_unique<ResidentGrid>();
          parts_ = grid_->run(launch, next_number_);
          static_bytes = grid_->static_shared_bytes();
          take_block(thread);
        } else if (launch.cluster.x == 0) {
          runner->begin_launch(launch);
          for (; block < blocks_; block = take_block(thread)) {
            Progress::instance().begin_block();
            runner->run(launch, block, next_number_ + std::uint32_t(block));
            Progress::instance().end_block();
          }
          absorb(*runner);
        } else {
          if (!cluster) cluster = std::make_unique<Cluster>(*runner);
          cluster->begin_launch(launch);
          for (; block < blocks_; block = take_block(thread)) {
            cluster->run(block, next_number_ + std::uint32_t(block));
          }
          for (BlockRunner* by : cluster->blocks()) absorb(*by);
        }
      }
      lock.lock();
      static_bytes_ = std::max(static_bytes_, static_bytes);
      if (--busy_ == 0) done_.notify_one();
      if (for_one_launch) return;
    }
  }

  static constexpr std::size_t kMostExtra = 512;

  std::mutex launches_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::thread> extra_;  ///< for this launch
  Memory memory_;
  std::vector<std::thread> threads_;
  bool stop_ = false;
  int busy_ = 0;
  std::uint64_t generation_ = 0;
  std::uint32_t next_number_ = 1;
  /// By stream: the blocks from this number on may not have ended when its next kernel begins.
  std::map<const void*, std::uint32_t> unfinished_from_;
  const device::Launch* launch_ = nullptr;
  std::uint64_t blocks_ = 0;  ///< or clusters
  std::uint32_t parts_ = 1;   ///< of a cooperative launch, between its barriers
  std::unique_ptr<ResidentGrid> grid_;
  std::size_t static_bytes_ = 0;  ///< of static shared variables that a block of this launch has used
  std::atomic<std::uint64_t> next_block_{0};
};

}  // namespace

bool start_another_block() { return Pool::instance().start_another_block(); }

namespace device {
namespace {

#define GPUSIM_CALLER __builtin_return_address(0)

const bool kBarrierIsNamed = SkippedBarrier::instance().is_named();

struct ShuffleOperand {
  std::uint64_t value;
  int source;
  std::uint64_t result;
  bool absent;  ///< the source
};
void resolve_shuffle(void* const* lanes) {
  for (int i = 0; i < kWarpSize; ++i) {
    if (lanes[i] == nullptr) continue;
    auto* to = static_cast<ShuffleOperand*>(lanes[i]);
    const auto* from = static_cast<const ShuffleOperand*>(lanes[to->source & (kWarpSize - 1)]);
    to->absent = from == nullptr;
    to->result = from != nullptr ? from->value : ~std::uint64_t(0);
  }
}

struct BallotOperand {
  bool vote;
  unsigned result;
};
void resolve_ballot(void* const* lanes) {
  unsigned votes = 0;
  for (int i = 0; i < kWarpSize; ++i) {
    if (lanes[i] != nullptr) votes |= unsigned(static_cast<BallotOperand*>(lanes[i])->vote) << i;
  }
  for (int i = 0; i < kWarpSize; ++i) {
    if (lanes[i] != nullptr) static_cast<BallotOperand*>(lanes[i])->result = votes;
  }
}

struct MatchOperand {
  std::uint64_t value;
  unsigned result;
};
void resolve_match(void* const* lanes) {
  for (int i = 0; i < kWarpSize; ++i) {
    auto* const operand = static_cast<MatchOperand*>(lanes[i]);
    if (operand == nullptr) continue;
    operand->result = 0;
    for (int j = 0; j < kWarpSize; ++j) {
      const auto* const other = static_cast<const MatchOperand*>(lanes[j]);
      operand->result |= unsigned(other != nullptr && other->value == operand->value) << j;
    }
  }
}

struct ReduceOperand {
  std::int64_t value;
  Reduction how;
};
std::int64_t combine(std::int64_t a, std::int64_t b, Reduction how) {
  switch (how) {
    case Reduction::kAdd: return a + b;
    case Reduction::kMin: return std::min(a, b);
    case Reduction::kMax: return std::max(a, b);
    case Reduction::kAnd: return a & b;
    case Reduction::kOr: return a | b;
    case Reduction::kXor: return a ^ b;
  }
  return 0;
}
void resolve_reduce(void* const* lanes) {
  ReduceOperand* first = nullptr;
  for (int i = 0; i < kWarpSize; ++i) {
    auto* operand = static_cast<ReduceOperand*>(lanes[i]);
    if (operand == nullptr) continue;
    if (first == nullptr) {
      first = operand;
    } else {
      first->value = combine(first->value, operand->value, first->how);
    }
  }
  for (int i = 0; i < kWarpSize; ++i) {
    if (lanes[i] != nullptr) static_cast<ReduceOperand*>(lanes[i])->value = first->value;
  }
}

}  // namespace

int lane() { return current_runner->lane(); }
unsigned active_lanes() {
  unsigned mask = 0;
  current_runner->warp_rendezvous(1u << lane(), WarpOp::kActive, &mask, nullptr, GPUSIM_CALLER);
  return mask;
}
bool is_shared(const void* address) { return current_runner->is_shared(address); }
void depend_on_kernel_before() {
  current_runner->require(90, "griddepcontrol.wait", GPUSIM_CALLER);
  current_runner->note_dependency(true, GPUSIM_CALLER);
}
void let_next_kernel_begin() {
  current_runner->require(90, "griddepcontrol.launch_dependents", GPUSIM_CALLER);
  current_runner->note_dependency(false, GPUSIM_CALLER);
}
void thread_fence() { current_runner->thread_fence(GPUSIM_CALLER); }
void trap() { current_runner->trap_by_kernel(GPUSIM_CALLER); }

void declare_members(const void* object, std::size_t bytes, MemberAt member_at) {
  current_runner->declare_members({reinterpret_cast<std::uintptr_t>(object), bytes, member_at});
}

namespace {

/// Whether the barrier that is called here is the one to skip.
bool is_skipped(const void* pc) {
  if (!kBarrierIsNamed) [[likely]]
    return false;
  const OutsideKernel outside;
  return SkippedBarrier::instance().is_at(pc);
}

}  // namespace

int sync_threads(int value) {
  if (is_skipped(GPUSIM_CALLER)) return value;
  return current_runner->sync_threads(value, GPUSIM_CALLER);
}

void warp_rendezvous(unsigned mask, WarpOp op, void* operand, void (*resolve)(void* const*)) {
  current_runner->warp_rendezvous(mask, op, operand, resolve, GPUSIM_CALLER);
}

std::uint64_t shuffle(unsigned mask, std::uint64_t value, int source) {
  ShuffleOperand operand{value, source, 0, false};
  current_runner->warp_rendezvous(mask, WarpOp::kShuffle, &operand, &resolve_shuffle, GPUSIM_CALLER);
  if (operand.absent) [[unlikely]]
    current_runner->read_from_absent(mask, source & (kWarpSize - 1), GPUSIM_CALLER);
  return operand.result;
}

unsigned match(unsigned mask, std::uint64_t value) {
  MatchOperand operand{value, 0};
  current_runner->warp_rendezvous(mask, WarpOp::kVote, &operand, &resolve_match, GPUSIM_CALLER);
  return operand.result;
}

unsigned ballot(unsigned mask, bool vote) {
  BallotOperand operand{vote, 0};
  current_runner->warp_rendezvous(mask, WarpOp::kVote, &operand, &resolve_ballot, GPUSIM_CALLER);
  return operand.result;
}

void load_matrices(const void* row, int matrices, bool transposed, std::uint32_t* registers) {
  if (current_runner->lane() < 8 * matrices) current_runner->read_matrix_row(row, GPUSIM_CALLER);
  MatrixOperand operand{row, matrices, transposed, registers};
  current_runner->warp_rendezvous(~0u, WarpOp::kMatrixLoad, &operand, &resolve_load_matrices, GPUSIM_CALLER);
}

std::uint32_t transpose_matrix(std::uint32_t pair) {
  TransposeOperand operand{pair};
  current_runner->warp_rendezvous(~0u, WarpOp::kTranspose, &operand, &resolve_transpose, GPUSIM_CALLER);
  return operand.pair;
}

void mma_m16n8k16(MmaType type, float* d, const std::uint32_t* a, const std::uint32_t* b, const float* c,
                  int since) {
  current_runner->require(since, "mma", GPUSIM_CALLER);
  if (is_any_unwritten(a, 4) || is_any_unwritten(b, 2) || is_any_unwritten(c, 4)) [[unlikely]]
    current_runner->read_unwritten_local(GPUSIM_CALLER);
  MmaOperand operand{type, d, a, b, c};
  current_runner->warp_rendezvous(~0u, WarpOp::kMma, &operand, &resolve_mma, GPUSIM_CALLER);
}

std::int64_t warp_reduce(unsigned mask, std::int64_t value, Reduction how) {
  ReduceOperand operand{value, how};
  current_runner->warp_rendezvous(mask, WarpOp::kShuffle, &operand, &resolve_reduce, GPUSIM_CALLER);
  return operand.value;
}

namespace {

/// An exchange has changed a word: the thread may have taken a lock with it, which is 0 while nobody has it,
/// or given one up.
template <class T>
void note_lock(const T* word, T before, T after) {
  if (sizeof(T) == 4 && (before == 0 || after == 0)) current_runner->note_lock(word, before == 0);
}

template <class T>
T update(T* address, T operand, T (*op)(T, T), const void* pc, bool acq_rel = false) {
  T old, after;
  bool changes = false;
  const auto carry_out = [&] {
    old = __atomic_load_n(address, __ATOMIC_RELAXED);
    do {
      after = op(old, operand);
    } while (!__atomic_compare_exchange_n(address, &old, after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    changes = after != old;
    return changes;
  };
  if (current_runner == nullptr) [[unlikely]] {  // the host executes the functor of an algorithm
    carry_out();
    return old;
  }
  current_runner->access<AccessKind::kAtomic, sizeof(T)>(address, pc);
  if (acq_rel || current_runner->releases()) [[unlikely]] {
    current_runner->arrive_at_counter(address, acq_rel, carry_out, pc);
  } else {
    carry_out();
    current_runner->note_news(address, pc);
  }
  if (changes) {
    current_runner->note_change();
    const auto is_exchange = [&] {
      const OutsideKernel outside;  // op has hooks
      return op(T(1), operand) == operand && op(T(~T(0)), operand) == operand;
    };
    if (after == operand && (old == 0 || after == 0) && is_exchange()) note_lock(address, old, operand);
  }
  return old;
}

template <class T>
T compare_and_swap(T* address, T expected, T desired, const void* pc) {
  bool changes = false;
  const auto carry_out = [&] {
    changes =
        __atomic_compare_exchange_n(address, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return changes;
  };
  if (current_runner == nullptr) [[unlikely]] {
    carry_out();
    return expected;
  }
  current_runner->access<AccessKind::kAtomic, sizeof(T)>(address, pc);
  if (current_runner->releases()) [[unlikely]] {
    current_runner->arrive_at_counter(address, false, carry_out, pc);
  } else {
    carry_out();
    current_runner->note_news(address, pc);
  }
  if (changes) {
    current_runner->note_change();
    note_lock(address, expected, desired);
  }
  return expected;
}

}  // namespace

void note_system_scope(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (is_managed(at)) Streams::instance().share_with_host(at - Arena::instance().base());
}

std::uint16_t atomic_update(std::uint16_t* address, std::uint16_t operand,
                            std::uint16_t (*op)(std::uint16_t, std::uint16_t)) {
  return update(address, operand, op, GPUSIM_CALLER);
}
std::uint32_t atomic_update(std::uint32_t* address, std::uint32_t operand,
                            std::uint32_t (*op)(std::uint32_t, std::uint32_t)) {
  return update(address, operand, op, GPUSIM_CALLER);
}
std::uint64_t atomic_update(std::uint64_t* address, std::uint64_t operand,
                            std::uint64_t (*op)(std::uint64_t, std::uint64_t)) {
  return update(address, operand, op, GPUSIM_CALLER);
}
std::uint32_t atomic_acq_rel(std::uint32_t* address, std::uint32_t operand,
                             std::uint32_t (*op)(std::uint32_t, std::uint32_t)) {
  return update(address, operand, op, GPUSIM_CALLER, true);
}
void atomic_add_vector(float* address, float* values, int count) {
  current_runner->require(90, "atomicAdd of a vector", GPUSIM_CALLER);
  if (count == 2) {
    current_runner->access<AccessKind::kAtomic, 8>(address, GPUSIM_CALLER);
  } else {
    current_runner->access<AccessKind::kAtomic, 16>(address, GPUSIM_CALLER);
  }
  for (int i = 0; i < count; ++i) {
    values[i] = std::atomic_ref(address[i]).fetch_add(values[i], std::memory_order_relaxed);
  }
}
std::uint16_t atomic_cas(std::uint16_t* address, std::uint16_t expected, std::uint16_t desired) {
  return compare_and_swap(address, expected, desired, GPUSIM_CALLER);
}
std::uint32_t atomic_cas(std::uint32_t* address, std::uint32_t expected, std::uint32_t desired) {
  return compare_and_swap(address, expected, desired, GPUSIM_CALLER);
}
std::uint64_t atomic_cas(std::uint64_t* address, std::uint64_t expected, std::uint64_t desired) {
  return compare_and_swap(address, expected, desired, GPUSIM_CALLER);
}

void copy_async(void* shared, const void* global, std::size_t bytes, std::size_t source_bytes) {
  current_runner->require(80, "cp.async", GPUSIM_CALLER);
  current_runner->copy_async(shared, global, bytes, source_bytes, GPUSIM_CALLER);
}
void publish(std::uint32_t* to, std::uint32_t bits) { current_runner->publish(to, bits, GPUSIM_CALLER); }
void copy_published_async(void* shared, const void* global) {
  current_runner->require(80, "cp.async", GPUSIM_CALLER);
  current_runner->copy_published_async(shared, global, GPUSIM_CALLER);
}
std::uint32_t await_published(const std::uint32_t* from) {
  return current_runner->await_published(from, GPUSIM_CALLER);
}
void await_turn(const int* counter, int turn) { current_runner->await_turn(counter, turn, GPUSIM_CALLER); }
void pass_turn(int* counter, int turn) { current_runner->pass_turn(counter, turn, GPUSIM_CALLER); }
void copy_commit() { current_runner->copy_commit(GPUSIM_CALLER); }
void copy_wait(int pending) { current_runner->copy_wait(pending, GPUSIM_CALLER); }

int cluster_rank() { return current_runner->cluster_rank(GPUSIM_CALLER); }
void cluster_arrive(bool relaxed) { current_runner->cluster_arrive(relaxed, GPUSIM_CALLER); }
void cluster_wait() {
  if (!is_skipped(GPUSIM_CALLER)) current_runner->cluster_wait(GPUSIM_CALLER);
}
void* map_shared_rank(const void* shared, int rank) {
  return current_runner->map_shared_rank(shared, rank, GPUSIM_CALLER);
}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (current_runner == nullptr) {
    if (bytes != 0) check_on_host(from, AccessKind::kRead, GPUSIM_CALLER);
    if (bytes != 0) check_on_host(to, AccessKind::kWrite, GPUSIM_CALLER);
    std::memcpy(to, from, bytes);
    return;
  }
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto* source = static_cast<const std::byte*>(from) + i;
    auto* target = static_cast<std::byte*>(to) + i;
    current_runner->access<AccessKind::kRead, 1>(source, GPUSIM_CALLER);
    current_runner->access<AccessKind::kWrite, 1>(target, GPUSIM_CALLER);
    *target = *source;
  }
}

void fill_bytes(void* to, int value, std::size_t bytes) {
  if (current_runner == nullptr) {
    if (bytes != 0) check_on_host(to, AccessKind::kWrite, GPUSIM_CALLER);
    std::memset(to, value, bytes);
    return;
  }
  for (std::size_t i = 0; i < bytes; ++i) {
    auto* target = static_cast<std::byte*>(to) + i;
    current_runner->access<AccessKind::kWrite, 1>(target, GPUSIM_CALLER);
    *target = std::byte(value);
  }
}

std::size_t run(const Launch& launch) {
  if (tls_layout().variables.empty()) {
    throw std::runtime_error(
        "gpusim: the executable is stripped of the symbols that identify shared variables");
  }
  Session& session = Session::instance();
  Pool& pool = Pool::instance();
  session.count_launch(Streams::instance().is_beside_transfer());
  if (record::Recorder* recorder = record::Recorder::instance()) {
    recorder->write_at_exit();
    recorder->begin_launch();
  }
  KernelTable table;
  Watchdog::begin(launch.kernel, std::uint64_t(launch.grid.x) * launch.grid.y * launch.grid.z);
  Launch checked = launch;
  checked.finds_races = !table.is_repetition(launch);
  const std::size_t static_bytes = pool.run(checked);
  Watchdog::end();
  table.end(checked, static_bytes);
  if (Watchdog::is_time_up()) _exit(2);  // with a report
  if (static_bytes > kMostStaticShared) {
    const auto entry = reinterpret_cast<std::uintptr_t>(launch.kernel) + 1;
    const std::vector<std::string> names = functions_around({entry})[entry];
    Session::instance().add(
        DefectKind::kUnsupported,
        "Too much shared memory in kernel " + (names.empty() ? "?" : names.back()) + ": it has " +
            std::to_string(static_bytes) + " bytes in variables of fixed size\n    ptxas allows " +
            std::to_string(kMostStaticShared) +
            " of them, whatever cudaFuncSetAttribute() says: for more, declare extern __shared__");
  }
  return static_bytes;
}

}  // namespace device
}  // namespace gpusim
