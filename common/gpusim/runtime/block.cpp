#include "gpusim/runtime/block.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <sstream>
#include <utility>

#include "gpusim/runtime/fiber_sanitizer.hpp"
#include "gpusim/runtime/symbols.hpp"
#include "gpusim/runtime/trace.hpp"

// The built-in variables of a kernel (shim/device_functions.h), where they are constants.
__thread gpusim::device::Index threadIdx;
__thread gpusim::device::Index blockIdx;
__thread gpusim::device::Index blockDim;
__thread gpusim::device::Index gridDim;

namespace gpusim {

constinit thread_local BlockRunner* current_runner = nullptr;
std::vector<TraceEntry>* trace = nullptr;

namespace {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kStack = 64 * 1024;
constexpr std::size_t kStackStride = kStack + kPage;  // a guard page below each stack

/// Accesses by a lane without any synchronisation in the block, after which it is taken to run for ever: if
/// threads wait for it, and if none does.
constexpr std::int64_t kPatience = 1 << 22;
constexpr std::int64_t kLongPatience = 1 << 25;
/// Accesses by a lane after which the other warps get a turn: it may be waiting for something that they write.
constexpr std::int64_t kTurn = 1 << 16;

/// The code of a kernel has called the runtime, which has more to do than a few comparisons.
class OutsideKernel {
 public:
  OutsideKernel() : runner_(std::exchange(current_runner, nullptr)) {}
  ~OutsideKernel() { current_runner = runner_; }
  OutsideKernel(const OutsideKernel&) = delete;

 private:
  BlockRunner* runner_;
};

std::vector<void* (*)()>& dynamic_shared_storage() {
  static std::vector<void* (*)()> storage;
  return storage;
}

/// Small numbers for return addresses, the same on all CPU threads.
struct Sites {
  std::mutex mutex;
  std::unordered_map<std::uintptr_t, std::uint16_t> number;
  std::vector<std::uintptr_t> pc{0};
};
Sites& sites() {
  static Sites instance;
  return instance;
}

/// Calls f(state, bits) for each word that the bytes lie in, with the bits that stand for them.
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

void set_initialized(std::uint8_t* state, std::uintptr_t address, std::size_t size) {
  for_each_word(state, address, size, [](std::uint8_t& s, std::uint8_t bits) {
    // Two blocks may own the halves of a word.
    std::atomic_ref<std::uint8_t>(s).fetch_or(bits, std::memory_order_relaxed);
  });
}

device::Index to_index(const Dim3& d) { return {d.x, d.y, d.z}; }

}  // namespace

void register_dynamic_shared(void* (*address)()) { dynamic_shared_storage().push_back(address); }

std::uintptr_t pc_of_site(std::uint16_t site) {
  const std::lock_guard lock(sites().mutex);
  return sites().pc[site];
}

// ---------------------------------------------------------------------------------------------------------
// Set-up

BlockRunner::BlockRunner()
    : arena_(Arena::instance()),
      arena_base_(arena_.base()),
      arena_bytes_(arena_.size()),
      shared_base_(tls_block()),
      shared_bytes_(tls_layout().bytes),
      shared_shadow_(shared_bytes_ / 4 + 4),
      global_shadow_(arena_bytes_) {
  void* stacks = mmap(nullptr, kMaxThreads * kStackStride, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stacks == MAP_FAILED) throw std::bad_alloc();
  stacks_ = static_cast<std::byte*>(stacks);

  const TlsLayout& layout = tls_layout();
  variables_.push_back({});
  for (const TlsVariable& v : layout.variables)
    variables_.push_back({.offset = v.offset, .bytes = v.bytes, .name = v.name});
  for (auto* address : dynamic_shared_storage()) {
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(address()) - shared_base_;
    for (StaticVariable& v : variables_) {
      if (v.bytes != 0 && v.offset == offset) v.dynamic = true;
    }
  }
  for (const void* index : {static_cast<const void*>(&::threadIdx), static_cast<const void*>(&::blockIdx),
                            static_cast<const void*>(&::blockDim), static_cast<const void*>(&::gridDim)}) {
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(index) - shared_base_;
    if (StaticVariable* v = variable_at(offset)) v->is_index = true;
  }
  variable_of_word_.resize(shared_bytes_ / 4 + 1);
  for (std::size_t id = 1; id < variables_.size(); ++id) {
    const StaticVariable& v = variables_[id];
    for (std::size_t b = v.offset; b < v.offset + v.bytes; b += 4 - b % 4)
      variable_of_word_[b / 4] = std::uint16_t(id);
  }
  shared_state_.resize(shared_bytes_ / 4 + 4);
}

BlockRunner::~BlockRunner() { munmap(stacks_, kMaxThreads * kStackStride); }

void BlockRunner::begin_launch(const device::Launch& launch) {
  tally.allocations.resize(arena_.allocation_count());
  grid_dim_ = {launch.grid.x, launch.grid.y, launch.grid.z};
  block_dim_ = {launch.block.x, launch.block.y, launch.block.z};
  ::blockDim = to_index(block_dim_);
  ::gridDim = to_index(grid_dim_);
  body_ = launch.body;
  arguments_ = launch.arguments;
  thread_count_ = int(block_dim_.volume());
  warp_count_ = (thread_count_ + kWarpSize - 1) / kWarpSize;
  for (StaticVariable& v : variables_) {
    v.touched = v.dynamic;
    if (v.dynamic) v.bytes = launch.dynamic_shared_bytes;
  }
  std::fill(shared_state_.begin(), shared_state_.end(), std::uint8_t(0));
  for (const StaticVariable& v : variables_) {
    const std::size_t begin = (v.offset + 3) / 4;
    const std::size_t end = (v.offset + v.bytes) / 4;
    if (begin >= end) continue;
    std::fill(&shared_state_[begin], &shared_state_[end], kUsable);
    shared_state_[end - 1] |= kLast;
  }
}

std::size_t BlockRunner::static_shared_bytes() const {
  std::size_t bytes = 0;
  for (const StaticVariable& v : variables_) bytes += v.touched && !v.dynamic ? v.bytes : 0;
  return bytes;
}

void BlockRunner::clear_shared() {
  for (const StaticVariable& v : variables_) {
    if (!v.touched || v.bytes == 0) continue;
    std::memset(reinterpret_cast<void*>(shared_base_ + v.offset), 0xff, v.bytes);
    for (std::size_t word = v.offset / 4; word < (v.offset + v.bytes + 3) / 4; ++word) {
      shared_state_[word] &= std::uint8_t(~kWritten);
    }
  }
}

void BlockRunner::start_threads() {
  Dim3 index{0, 0, 0};
  for (int i = 0; i < thread_count_; ++i) {
    Thread& t = threads_[i];
    std::byte* bottom = stacks_ + std::size_t(i) * kStackStride + kPage;
    if (t.context == nullptr) mprotect(bottom - kPage, kPage, PROT_NONE);
    sanitizer::renew(bottom, kStack);
    t.context = make_fcontext(bottom + kStack, kStack, &BlockRunner::fiber_main);
    t.index = index;
    t.linear = i;
    t.state = State::kReady;
    t.loops.reset();
    t.open_group.clear();
    t.groups.clear();
    if (++index.x == block_dim_.x) {
      index.x = 0;
      if (++index.y == block_dim_.y) {
        index.y = 0;
        ++index.z;
      }
    }
  }
  for (int w = 0; w < warp_count_; ++w) {
    const int lanes = std::min(kWarpSize, thread_count_ - w * kWarpSize);
    warps_[w].live = lanes == kWarpSize ? ~0u : (1u << lanes) - 1;
    warps_[w].clock = {};
  }
  live_ = thread_count_;
}

// ---------------------------------------------------------------------------------------------------------
// Scheduling

void BlockRunner::run(const device::Launch&, std::uint64_t linear, std::uint32_t number) {
  linear_ = linear;
  number_ = number;
  ::blockIdx = to_index(grid_dim_.at(linear));
  block_epoch_ = ++epoch_;
  trapped_ = false;
  idle_rounds_ = 0;
  clear_shared();
  global_shadow_.next_block();
  start_threads();
  while (live_ > 0) {
    bool progress = false;
    for (int w = 0; w < warp_count_; ++w) {
      progress |= run_warp(w);
      if (trapped_) return abandon();
    }
    if (live_ > 0 && !release_barrier() && !progress) {
      report_divergence();
      return abandon();
    }
  }
}

/// Runs a warp until each of its lanes is done or waits for another warp, or for a turn if it does not come to
/// that. False: there was nothing to run.
bool BlockRunner::run_warp(int warp) {
  const int first = warp * kWarpSize;
  const int last = std::min(first + kWarpSize, thread_count_);
  const auto process_one = [&](const WarpAccess& access) { process(access, warp); };
  for (int round = 0;; ++round) {
    lanes_in_turn_ = 0;
    for (int i = first; i < last; ++i) {
      if (threads_[i].state == State::kReady) lanes_in_turn_ |= 1u << (i - first);
    }
    if (lanes_in_turn_ == 0) return round > 0;
    const int first_lane = log_.first_lane();
    for (std::uint32_t rest = std::rotr(lanes_in_turn_, first_lane); rest != 0; rest &= rest - 1) {
      resume(threads_[first + (first_lane + std::countr_zero(rest)) % kWarpSize]);
    }
    log_.advance(process_one);
    if (trapped_) return true;
    resolve_warp(warp);
    const std::int64_t idle = std::int64_t(++idle_rounds_) * AccessLog::kWindow;
    if (idle > kPatience) {
      const bool awaited = std::any_of(
          threads_.begin(), threads_.begin() + thread_count_,
          [](const Thread& t) { return t.state == State::kBlockSync || t.state == State::kWarpSync; });
      if (awaited || idle > kLongPatience) {
        report_divergence();
        trapped_ = true;
        return true;
      }
    }
    if (idle > kTurn && idle % kTurn == 0) {
      log_.finish(process_one);
      return true;
    }
  }
}

/// Completes every warp-wide operation for which all named lanes have arrived.
void BlockRunner::resolve_warp(int warp) {
  Thread* lanes = &threads_[warp * kWarpSize];
  Warp& w = warps_[warp];
  for (std::uint32_t rest = w.live; rest != 0; rest &= rest - 1) {
    const Thread& leader = lanes[std::countr_zero(rest)];
    if (leader.state != State::kWarpSync) continue;
    const std::uint32_t needed = leader.mask & w.live;
    if ((needed & (1u << std::countr_zero(rest))) == 0)
      continue;  // names others but not itself: never completes
    const device::WarpOp op = leader.op;
    std::array<void*, kWarpSize> operands{};
    const bool needs_all = op >= device::WarpOp::kMatrixLoad;
    bool complete = !needs_all || needed == leader.mask;  // also those lanes that have ended
    for (std::uint32_t m = needed; m != 0; m &= m - 1) {
      const Thread& t = lanes[std::countr_zero(m)];
      complete &= t.state == State::kWarpSync && t.mask == leader.mask && t.op == leader.op;
      complete &= !needs_all || t.sync_pc == leader.sync_pc;
      operands[std::countr_zero(m)] = t.operand;
    }
    if (!complete) continue;
    if (leader.resolve != nullptr) leader.resolve(operands.data());
    for (std::uint32_t m = needed; m != 0; m &= m - 1) lanes[std::countr_zero(m)].state = State::kReady;
    switch (op) {
      case device::WarpOp::kSync:
        ++tally.ops.warp_barriers;
        w.clock.synchronize(needed, needed == w.live);
        break;
      case device::WarpOp::kShuffle: ++tally.ops.shuffles; break;
      case device::WarpOp::kVote: ++tally.ops.votes; break;
      case device::WarpOp::kMatrixLoad: break;  // counted as the read of shared memory that it is
      case device::WarpOp::kMma: ++tally.ops.mma; break;
    }
    idle_rounds_ = 0;
  }
}

/// Opens the block's barrier if every live thread waits at it, at the same call.
bool BlockRunner::release_barrier() {
  int sum = 0;
  const void* pc = nullptr;
  for (int i = 0; i < thread_count_; ++i) {
    const Thread& t = threads_[i];
    if (t.state == State::kDone) continue;
    if (t.state != State::kBlockSync || (pc != nullptr && t.sync_pc != pc)) return false;
    pc = t.sync_pc;
    sum += t.value;
  }
  for (int i = 0; i < thread_count_; ++i) {
    Thread& t = threads_[i];
    if (t.state == State::kDone) continue;
    t.state = State::kReady;
    t.value = sum;
  }
  for (int w = 0; w < warp_count_; ++w) tally.ops.barriers += warps_[w].live != 0;
  ++epoch_;
  idle_rounds_ = 0;
  return true;
}

/// Nobody can go on. Says who waits where, for the barrier that most threads have reached.
void BlockRunner::report_divergence() {
  std::map<const void*, int> waiting;  // by call site
  const Thread* running = nullptr;
  const Thread* unnamed = nullptr;  // by its own mask
  for (int i = 0; i < thread_count_; ++i) {
    const Thread& t = threads_[i];
    if (t.state == State::kBlockSync || t.state == State::kWarpSync) ++waiting[t.sync_pc];
    if (t.state == State::kReady && running == nullptr) running = &t;
    if (t.state == State::kWarpSync && (t.mask >> i % kWarpSize & 1) == 0 && unnamed == nullptr) unnamed = &t;
  }
  const auto mask_text = [](unsigned mask) {
    std::array<char, 16> text;
    std::snprintf(text.data(), text.size(), "0x%08x", mask);
    return std::string(text.data());
  };
  FindingKey key{.kind = DefectKind::kBarrierDivergence};
  std::ostringstream text;
  const auto block = grid_dim_.at(linear_);
  const auto in_block = "block (" + std::to_string(block.x) + "," + std::to_string(block.y) + "," +
                        std::to_string(block.z) + ")";
  if (waiting.empty()) {
    key.pc = last_access_pc_;
    text << "Thread(s) in " << in_block << " do not end: after " << kLongPatience
         << " memory accesses without a barrier they have";
  } else if (unnamed != nullptr) {
    key.pc = reinterpret_cast<std::uintptr_t>(unnamed->sync_pc);
    const Dim3& t = unnamed->index;
    text << "Mask " << mask_text(unnamed->mask) << " in " << in_block << " does not name thread (" << t.x
         << "," << t.y << "," << t.z << "), which has";
  } else {
    const auto most = std::max_element(waiting.begin(), waiting.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    key.pc = reinterpret_cast<std::uintptr_t>(most->first);
    const Thread* sample = nullptr;
    for (int i = 0; i < thread_count_ && sample == nullptr; ++i) {
      const State s = threads_[i].state;
      if ((s == State::kBlockSync || s == State::kWarpSync) && threads_[i].sync_pc == most->first) {
        sample = &threads_[i];
      }
    }
    const bool warp_wide = sample->state == State::kWarpSync;
    for (const auto& [pc, count] : waiting) {
      if (pc != most->first) key.rival_pc = reinterpret_cast<std::uintptr_t>(pc);
    }
    if (warp_wide) {
      const int warp = sample->linear / kWarpSize;
      int arrived = 0;
      for (int i = warp * kWarpSize; i < std::min((warp + 1) * kWarpSize, thread_count_); ++i) {
        arrived += threads_[i].state == State::kWarpSync && threads_[i].sync_pc == most->first;
      }
      text << "Divergent thread(s) in warp " << warp << " of " << in_block << ": " << arrived << " of "
           << std::popcount(sample->mask) << " threads named in mask " << mask_text(sample->mask);
    } else {
      text << "Divergent thread(s) in " << in_block << ": " << most->second << " of " << thread_count_
           << " threads";
    }
    if (running != nullptr) text << " (the others keep running)";
  }
  if (Example* e = tally.findings.add(key, linear_)) {
    e->grid = grid_dim_;
    e->block_dim = block_dim_;
    e->detail = text.str();
  }
}

/// Gives up a block whose threads cannot all end. Their stacks are used again; nothing on them is unwound.
void BlockRunner::abandon() {
  log_.clear();
  shared_shadow_.reset();
  for (int i = 0; i < thread_count_; ++i) threads_[i].state = State::kDone;
  live_ = 0;
}

void BlockRunner::fiber_main(transfer_t from) {
  auto* self = static_cast<BlockRunner*>(from.data);
  sanitizer::arrive(nullptr, &self->scheduler_stack_, &self->scheduler_stack_size_);
  self->scheduler_ = from.fctx;
  self->body_(self->arguments_);
  self->end_thread();
}

void BlockRunner::resume(Thread& thread) {
  current_ = &thread;
  ::threadIdx = to_index(thread.index);
  iteration_ = thread.loops.iteration();
  log_.enter(thread.linear % kWarpSize);
  sanitizer::leave(&scheduler_fake_stack_, stacks_ + std::size_t(thread.linear) * kStackStride + kPage,
                   kStack);
  current_runner = this;
  const transfer_t back = jump_fcontext(thread.context, this);
  current_runner = nullptr;
  sanitizer::arrive(scheduler_fake_stack_);
  thread.context = back.fctx;
}

void BlockRunner::suspend() {
  void* fake_stack = nullptr;
  sanitizer::leave(&fake_stack, scheduler_stack_, scheduler_stack_size_);
  const transfer_t back = jump_fcontext(scheduler_, nullptr);
  sanitizer::arrive(fake_stack, &scheduler_stack_, &scheduler_stack_size_);
  scheduler_ = back.fctx;
}

void BlockRunner::end_thread() {
  Thread& t = *current_;
  for (auto& group : t.groups) land(group);
  land(t.open_group);
  t.groups.clear();
  t.state = State::kDone;
  warps_[t.linear / kWarpSize].live &= ~(1u << (t.linear % kWarpSize));
  --live_;
  sanitizer::leave(nullptr, scheduler_stack_, scheduler_stack_size_);
  jump_fcontext(scheduler_, nullptr);
  __builtin_unreachable();
}

// ---------------------------------------------------------------------------------------------------------
// Called from inside a fiber

int BlockRunner::sync_threads(int value, const void* pc) {
  current_->state = State::kBlockSync;
  current_->sync_pc = pc;
  current_->value = value;
  suspend();
  return current_->value;
}

void BlockRunner::warp_rendezvous(unsigned mask, device::WarpOp op, void* operand,
                                  void (*resolve)(void* const*), const void* pc) {
  Thread& t = *current_;
  t.state = State::kWarpSync;
  t.sync_pc = pc;
  t.mask = mask;
  t.op = op;
  t.operand = operand;
  t.resolve = resolve;
  suspend();
}

void BlockRunner::read_matrix_row(const void* row, const void* pc) {
  constexpr std::size_t kRow = 16;
  if (!is_shared(row)) {
    trap(DefectKind::kOutOfBounds, Space::kShared, reinterpret_cast<std::uintptr_t>(row), kRow,
         AccessKind::kRead, pc);
  }
  access<AccessKind::kRead, kRow>(row, pc);
}

void BlockRunner::on_access(const void* pointer, std::size_t size, AccessKind kind, const void* pc,
                            bool aligned) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  Space space = Space::kGlobal;
  if (address - shared_base_ < shared_bytes_) {
    if (variables_[variable_of_word_[(address - shared_base_) / 4]].is_index) return;  // clang's hooks see it
    space = Space::kShared;
    check_shared(address, size, kind, pc, aligned);
  } else if (address - arena_base_ < arena_bytes_) {
    check_global(address, size, kind, pc, aligned);
  } else {
    return;
  }
  const InstructionKey key = InstructionKey::make(pc, size, kind, space);
  while (!log_.append(key, current_->loops, address)) suspend();
}

void BlockRunner::change_loop(const void* pc, const void* frame) {
  current_->loops.change_loop(reinterpret_cast<std::uintptr_t>(pc), reinterpret_cast<std::uintptr_t>(frame));
  iteration_ = current_->loops.iteration();
}

void BlockRunner::check_global(std::uintptr_t address, std::size_t size, AccessKind kind, const void* pc,
                               bool aligned) {
  if (arena_.find(address, size) == 0)
    trap(DefectKind::kOutOfBounds, Space::kGlobal, address, size, kind, pc);
  if (aligned && address % size != 0) trap(DefectKind::kMisaligned, Space::kGlobal, address, size, kind, pc);
  std::uint8_t* state = arena_.initialized(address);
  if (kind == AccessKind::kWrite) {
    set_initialized(state, address, size);
  } else if (!all_initialized(state, address, size)) {
    found_uninitialized(Space::kGlobal, address, size, pc);
  }
}

void BlockRunner::check_shared(std::uintptr_t address, std::size_t size, AccessKind kind, const void* pc,
                               bool aligned) {
  const std::size_t offset = address - shared_base_;
  const StaticVariable* v = &variables_[variable_of_word_[offset / 4]];
  if (offset - v->offset >= v->bytes || offset - v->offset + size > v->bytes) [[unlikely]] {
    v = variable_at(offset);  // two small variables in one word
    if (v == nullptr || offset - v->offset + size > v->bytes) {
      trap(DefectKind::kOutOfBounds, Space::kShared, address, size, kind, pc);
    }
  }
  if (aligned && address % size != 0) trap(DefectKind::kMisaligned, Space::kShared, address, size, kind, pc);
  if (kind == AccessKind::kCopyIssue) return;
  std::uint8_t* state = &shared_state_[offset / 4];
  if (kind == AccessKind::kWrite || kind == AccessKind::kCopyLand) {
    set_initialized(state, address, size);
  } else if (!all_initialized(state, address, size)) {
    found_uninitialized(Space::kShared, address, size, pc);
  }
}

BlockRunner::StaticVariable* BlockRunner::variable_at(std::size_t offset) {
  for (StaticVariable& v : variables_) {
    if (offset >= v.offset && offset < v.offset + v.bytes) return &v;
  }
  return nullptr;
}

std::string BlockRunner::place_of(Space space, std::uintptr_t address) const {
  if (space == Space::kGlobal) return arena_.place_of(address);
  const std::size_t offset = address - shared_base_;
  const StaticVariable* best = nullptr;
  std::size_t best_distance = ~std::size_t(0);
  for (const StaticVariable& v : variables_) {
    if (v.name.empty()) continue;
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
  e.address = address;
  e.place = place_of(space, address);
}

/// Reports an access that cannot be made, and ends the thread in its stead. The block is given up as soon as
/// the other lanes have had their turn, so that all of them are counted.
void BlockRunner::trap(DefectKind kind, Space space, std::uintptr_t address, std::size_t size,
                       AccessKind access, const void* pc) {
  const FindingKey key{.kind = kind,
                       .pc = reinterpret_cast<std::uintptr_t>(pc),
                       .access = access,
                       .space = space,
                       .bytes = std::uint8_t(size)};
  {
    const OutsideKernel outside;
    if (Example* e = tally.findings.add(key, linear_)) fill(*e, current_->linear, space, address);
  }
  trapped_ = true;
  current_->open_group.clear();
  current_->groups.clear();
  end_thread();
}

void BlockRunner::found_uninitialized(Space space, std::uintptr_t address, std::size_t size, const void* pc) {
  const OutsideKernel outside;
  const FindingKey key{.kind = DefectKind::kUninitializedRead,
                       .pc = reinterpret_cast<std::uintptr_t>(pc),
                       .space = space,
                       .bytes = std::uint8_t(size)};
  if (Example* e = tally.findings.add(key, linear_)) fill(*e, current_->linear, space, address);
}

void BlockRunner::copy_async(void* shared, const void* global, std::size_t bytes, std::size_t source_bytes,
                             const void* pc) {
  if (source_bytes != 0) on_access(global, source_bytes, AccessKind::kRead, pc, source_bytes == bytes);
  on_access(shared, bytes, AccessKind::kCopyIssue, pc);
  current_->open_group.push_back({shared, global, bytes, source_bytes, pc});
}

void BlockRunner::copy_commit() {
  current_->groups.push_back(std::move(current_->open_group));
  current_->open_group.clear();
}

void BlockRunner::copy_wait(int pending) {
  Thread& t = *current_;
  while (t.groups.size() > std::size_t(std::max(pending, 0))) {
    land(t.groups.front());
    t.groups.pop_front();
  }
}

void BlockRunner::land(std::vector<AsyncCopy>& group) {
  for (const AsyncCopy& c : group) {
    on_access(c.to, c.bytes, AccessKind::kCopyLand, c.pc);
    const OutsideKernel outside;
    std::memcpy(c.to, c.from, c.source_bytes);
    std::memset(static_cast<std::byte*>(c.to) + c.source_bytes, 0, c.bytes - c.source_bytes);
  }
  group.clear();
}

// ---------------------------------------------------------------------------------------------------------
// From accesses to counts and races

std::uint16_t BlockRunner::site_of(std::uintptr_t pc) {
  KnownSite& known = known_sites_[pc % known_sites_.size()];
  if (known.pc == pc) [[likely]]
    return known.number;
  auto [it, is_new] = sites_.try_emplace(pc, std::uint16_t(0));
  if (is_new) {
    Sites& all = sites();
    const std::lock_guard lock(all.mutex);
    auto [number, unseen] = all.number.try_emplace(pc, std::uint16_t(0));
    if (unseen && all.pc.size() < 0xffff) {
      number->second = std::uint16_t(all.pc.size());
      all.pc.push_back(pc);
    }
    it->second = number->second;
  }
  known = {pc, it->second};
  return known.number;
}

void BlockRunner::process(const WarpAccess& access, int warp) {
  const InstructionKey& key = access.key;
  if (trace != nullptr) [[unlikely]] {
    trace->push_back({key.space(), key.kind(), key.size(), access.lanes,
                      access.addresses[std::countr_zero(access.lanes)]});
  }
  if (key.space() == Space::kGlobal) {
    process_global(access, warp);
  } else {
    process_shared(access, warp);
  }
  last_access_pc_ = key.pc();
}

void BlockRunner::count_global(const WarpAccess& access, const Pattern& pattern) {
  const LaneAddresses& addresses = access.addresses;
  const AccessKind kind = access.key.kind();
  const auto add = [&](std::uint32_t allocation, const GlobalCost& cost) {
    GlobalCounters& c = tally.allocations[allocation];
    if (kind != AccessKind::kWrite) c.read_bytes += cost.bytes;
    if (kind != AccessKind::kRead) c.write_bytes += cost.bytes;
    if (kind == AccessKind::kRead) {
      c.read_sectors += cost.sectors;
      ++c.read_requests;
    } else if (kind == AccessKind::kWrite) {
      c.write_sectors += cost.sectors;
      ++c.write_requests;
    } else {
      c.atomic_sectors += cost.sectors;
      ++c.atomic_requests;
    }
  };
  for (std::uint32_t rest = access.lanes; rest != 0;) {
    const std::uintptr_t first = addresses[std::countr_zero(rest)];
    const std::uint32_t id = arena_.find(first, 1);
    const Allocation& a = arena_.allocation(id);
    if (rest == access.lanes && first - a.begin >= pattern.below && a.end - first > pattern.above) {
      return add(id, pattern.global);
    }
    std::uint32_t lanes = 0;  // those whose addresses are in this allocation
    for (std::uint32_t m = rest; m != 0; m &= m - 1) {
      const int lane = std::countr_zero(m);
      lanes |= std::uint32_t(addresses[lane] - a.begin < a.end - a.begin) << lane;
    }
    rest &= ~lanes;
    add(id, global_cost(addresses, lanes, access.key.size()));
  }
}

void BlockRunner::process_global(const WarpAccess& access, int warp) {
  const Pattern& pattern = patterns_.of(access);
  count_global(access, pattern);
  const std::size_t size = access.key.size();
  const AccessKind kind = access.key.kind();
  const Actor actor(warp, site_of(access.key.pc()), kind, block_epoch_, epoch_, warps_[warp].clock);
  const Use use = kind == AccessKind::kRead    ? Use::kRead
                  : kind == AccessKind::kWrite ? Use::kWrite
                                               : Use::kAtomic;
  for (int g = 0; g < pattern.group_count; ++g) {
    const std::uint32_t lanes = pattern.groups[g];
    const std::uintptr_t address = access.addresses[std::countr_zero(lanes)];
    const std::uintptr_t begin = address - arena_base_;
    for (std::uintptr_t at = begin; at < begin + size;) {  // once, unless it reaches into the next page
      const std::size_t offset = at % GlobalShadow::kPageBytes;
      const std::size_t bytes = std::min(begin + size - at, GlobalShadow::kPageBytes - offset);
      global_shadow_.page(at).access(
          offset, bytes, lanes, actor,
          [&](int lane, const Rival& rival) { found_race(access.key, address, warp, lane, rival); },
          [&](std::size_t word, std::size_t part, int lane) {
            const User user = User::make(number_, warp * kWarpSize + lane, actor.site);
            arena_.grid_races().record(at - offset + word, part, use, user, tally.suspects);
          });
      at += bytes;
    }
  }
}

void BlockRunner::process_shared(const WarpAccess& access, int warp) {
  const Pattern& pattern = patterns_.of(access);
  const std::size_t size = access.key.size();
  const AccessKind kind = access.key.kind();
  const std::uintptr_t first = access.addresses[std::countr_zero(access.lanes)];
  variables_[variable_of_word_[(first - shared_base_) / 4]].touched = true;
  if (kind == AccessKind::kRead || kind == AccessKind::kAtomic) {
    tally.shared.load_wavefronts += pattern.shared.wavefronts;
    tally.shared.load_wavefronts_ideal += pattern.shared.ideal;
  } else if (kind == AccessKind::kWrite || kind == AccessKind::kCopyIssue) {
    tally.shared.store_wavefronts += pattern.shared.wavefronts;
    tally.shared.store_wavefronts_ideal += pattern.shared.ideal;
  }
  const Actor actor(warp, site_of(access.key.pc()), kind, block_epoch_, epoch_, warps_[warp].clock);
  for (int g = 0; g < pattern.group_count; ++g) {
    const std::uint32_t lanes = pattern.groups[g];
    const std::uintptr_t address = access.addresses[std::countr_zero(lanes)];
    shared_shadow_.access(
        address - shared_base_, size, lanes, actor,
        [&](int lane, const Rival& rival) { found_race(access.key, address, warp, lane, rival); },
        [](std::size_t, std::size_t, int) {});
  }
}

void BlockRunner::found_race(InstructionKey instruction, std::uintptr_t address, int warp, int lane,
                             const Rival& rival) {
  const FindingKey key{.kind = DefectKind::kRace,
                       .pc = instruction.pc(),
                       .rival_pc = pc_of_site(rival.site),
                       .access = instruction.kind(),
                       .rival_access = rival.kind,
                       .space = instruction.space(),
                       .bytes = std::uint8_t(instruction.size())};
  if (Example* e = tally.findings.add(key, linear_)) {
    fill(*e, warp * kWarpSize + lane, instruction.space(), address);
    e->rival_thread = rival.thread;
  }
}

}  // namespace gpusim
