/// @file
/// Schedules the threads of a block: each is a fiber, and they take turns from one synchronisation to the
/// next.
#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "gpusim/runtime/block.hpp"
#include "gpusim/runtime/fiber_sanitizer.hpp"
#include "gpusim/runtime/published.hpp"

namespace gpusim {

constinit thread_local BlockRunner* current_runner = nullptr;

namespace {

using boost::context::detail::jump_fcontext;
using boost::context::detail::ontop_fcontext;
using boost::context::detail::transfer_t;

/// After this many accesses without any synchronisation in the block, a lane is assumed to run forever if
/// other threads wait for it. See kLongPatience.
constexpr std::int64_t kPatience = 1 << 22;
/// After this many accesses by a lane, the other warps get a turn: it may be waiting for something that they
/// write.
constexpr std::int64_t kTurn = 1 << 16;
/// Lanes in __activemask() wait this many windows of the others' accesses: these may be waiting for them.
constexpr int kRoundsOfOthers = 64;
/// After this many windows without any synchronisation, the log is looked at: the lanes may only wait.
constexpr int kRoundsToLook = 16;

}  // namespace

void BlockRunner::run(const device::Launch&, std::uint64_t linear, std::uint32_t number) {
  begin_block(linear, number);
  while (live_ > 0) {
    const bool progress = run_warps();
    if (trapped_) return abandon();
    if (live_ > 0 && !progress && !end_tries()) {
      report_divergence();
      return abandon();
    }
  }
  finish_block();
  if (trapped_) abandon();
}

/// When all threads have ended.
void BlockRunner::finish_block() {
  end_waiting();
  set_arrivals();
  trapped_ = report_missing_warps();
  if (!trapped_ && has_clocks_) finish_copies();
  if (record_ != nullptr) end_record(trapped_);
}

/// Lets each warp run once, and then opens the block's barrier if it can. @return  whether there was anything
///                                                                                 to run
bool BlockRunner::run_warps() {
  bool progress = false;
  for (int w = 0; w < warp_count_; ++w) {
    progress |= run_warp(w);
    if (trapped_) return true;
  }
  return (live_ > 0 && release_barrier()) || progress;
}

/// Runs a warp until each of its lanes has ended or waits for another warp, but no longer than one turn.
/// False: there was nothing to run.
bool BlockRunner::run_warp(int warp) {
  const int first = warp * kWarpSize;
  const int last = std::min(first + kWarpSize, thread_count_);
  bool looks = false;
  const auto process_one = [&](const WarpAccess& access) {
    if (looks) [[unlikely]]
      waiting_loop_.look_at(access);
    process(access, warp);
  };
  if (warps_[warp].is_blocked) resolve_warp(warp);
  for (int round = 0;; ++round) {
    pulse_.beat();
    if ((has_clocks_ || waits_ > 0) && log_.empty()) {
      operations_.clear();
      if (waits_ > 0) settle_waits(warp);
      if (trapped_) return true;
    }
    lanes_in_turn_ = 0;
    for (int i = first; i < last; ++i) {
      if (threads_[i].state == State::kReady) lanes_in_turn_ |= 1u << (i - first);
    }
    if (lanes_in_turn_ == 0 && release_active(warp)) continue;
    if (lanes_in_turn_ == 0) {
      if (record_ != nullptr) [[unlikely]]
        record_waits(warp);
      return round > 0;
    }
    const int first_lane = log_.first_lane();
    first_lane_in_turn_ = first_lane;
    lanes_to_come_ = std::rotr(lanes_in_turn_, first_lane);
    warp_in_turn_ = &threads_[first];
    while (Thread* const thread = next_in_turn()) resume(*thread);
    if (live_ > 0 || cluster_ != nullptr) keep_places(warp);
    looks = idle_rounds_ >= kRoundsToLook && cluster_ == nullptr;
    log_.advance(process_one);
    if (record_ != nullptr) settle_defects_before(AccessLog::kEnd, warp);
    if (record_ != nullptr && log_.empty()) [[unlikely]]
      flush_defects(warp);
    if (trapped_) return true;
    resolve_warp(warp);
    if (round % kRoundsOfOthers == kRoundsOfOthers - 1) release_active(warp);
    if (looks) [[unlikely]] {
      const bool only_reads = !std::exchange(has_changed_, false) && !waiting_loop_.has_others;
      if (!goes_on_waiting(only_reads)) {
        report_divergence();
        end_waiting();
        trapped_ = true;
        return true;
      }
      if (waiting_loop_.is_told) {  // the other warps may have something to do
        log_.finish(process_one);
        yields_ = true;
        return true;
      }
    }
    const std::int64_t idle = std::int64_t(++idle_rounds_) * AccessLog::kWindow;
    if (idle > kPatience) {
      const bool awaited =
          std::any_of(threads_.begin(), threads_.begin() + thread_count_,
                      [](const Thread& t) { return t.state != State::kReady && t.state != State::kDone; });
      if (awaited || idle > kLongPatience) {
        report_divergence();
        trapped_ = true;
        return true;
      }
    }
    if (idle > kTurn && idle % kTurn == 0) {
      log_.finish(process_one);
      yields_ = true;
      return true;
    }
  }
}

/// The lanes of a warp have filled a window. @param only_reads  of a few words
/// @return  false if the block will wait forever: all blocks wait, and nothing has changed for long
bool BlockRunner::goes_on_waiting(bool only_reads) {
  using std::chrono::steady_clock;
  const int rounds_to_tell = waiting_loop_.is_plain ? 512 : 64;
  constexpr int kRoundsToPause = 64;
  constexpr auto kPause = std::chrono::microseconds(50);
  constexpr auto kPatienceOfAll = std::chrono::seconds(3);
  WaitingLoop& loop = waiting_loop_;
  Progress& progress = Progress::instance();
  loop.has_others = loop.is_plain = false;
  loop.count = 0;
  if (!only_reads) {
    end_waiting();
    return true;
  }
  if (!loop.is_told) {
    if (++loop.rounds < rounds_to_tell) return true;
    if (progress.running() <= 1 && !start_another_block()) return true;  // there is nobody to wait for
    loop.is_told = true;
    loop.is_plain_wait = rounds_to_tell > 64;
    loop.changes = progress.changes();
    loop.since = steady_clock::now();
    progress.begin_wait();
  }
  idle_rounds_ = kRoundsToLook;  // it is not this block that does not go on
  if (loop.is_plain_wait && ++loop.rounds % kRoundsToPause != 0) return true;
  const bool is_new = progress.changes() != loop.changes;
  const bool is_alone = !progress.is_any_active() && !is_new;
  if ((is_alone && start_another_block()) || progress.is_any_active() || is_new) {
    loop.changes = progress.changes();
    loop.since = steady_clock::now();
  } else if (progress.is_deadlocked() || steady_clock::now() - loop.since > kPatienceOfAll) {
    progress.give_up();
    return false;
  }
  std::this_thread::sleep_for(kPause);
  return true;
}

void BlockRunner::end_waiting() {
  if (waiting_loop_.is_told) Progress::instance().end_wait();
  waiting_loop_.is_told = waiting_loop_.has_others = false;
  waiting_loop_.rounds = waiting_loop_.count = 0;
}

/// Remembers where lanes that have returned in this turn have made their latest access (see went_past).
void BlockRunner::keep_places(int warp) {
  Thread* lanes = &threads_[warp * kWarpSize];
  const Thread* latest = nullptr;  // usually, all of them return from the same place
  for (std::uint32_t rest = lanes_in_turn_ & ~warps_[warp].live; rest != 0; rest &= rest - 1) {
    Thread& t = lanes[std::countr_zero(rest)];
    t.left_at = nullptr;
    if (t.last_access < 0) continue;
    if (latest == nullptr || latest->last_access != t.last_access) {
      latest = &t;
      t.loops = log_.place(t.last_access);
    }
    t.left_at = &latest->loops;
    t.sync_pc = reinterpret_cast<const void*>(log_.pc(t.last_access));
  }
}

/// The lanes at __activemask() that have the least of the program behind them go on. The others may come
/// together with these in a later iteration. @return  whether there are any
bool BlockRunner::release_active(int warp) {
  if (active_waits_ == 0) return false;
  Thread* lanes = &threads_[warp * kWarpSize];
  const auto is_active = [](const Thread& t) {
    return t.state == State::kWarpSync && t.op == device::WarpOp::kActive;
  };
  const Thread* first = nullptr;
  for (std::uint32_t rest = warps_[warp].live; rest != 0; rest &= rest - 1) {
    const Thread& t = lanes[std::countr_zero(rest)];
    if (is_active(t) && (first == nullptr || t.loops < first->loops)) first = &t;
  }
  if (first == nullptr) return false;
  std::uint32_t together = 0;
  for (std::uint32_t rest = warps_[warp].live; rest != 0; rest &= rest - 1) {
    const Thread& t = lanes[std::countr_zero(rest)];
    if (is_active(t) && t.sync_pc == first->sync_pc && (t.loops <=> first->loops) == 0)
      together |= 1u << std::countr_zero(rest);
  }
  for (std::uint32_t rest = together; rest != 0; rest &= rest - 1) {
    Thread& t = lanes[std::countr_zero(rest)];
    *static_cast<unsigned*>(t.operand) = together;
    t.state = State::kReady;
    --active_waits_;
  }
  if (record_ != nullptr) [[unlikely]] {
    record_->begin_batch();
    record_go_on(warp, together, record::BarrierKind::kWarp);
  }
  idle_rounds_ = 0;
  return true;
}

/// Completes every warp-wide operation for which all named lanes have arrived.
void BlockRunner::resolve_warp(int warp) {
  Thread* lanes = &threads_[warp * kWarpSize];
  Warp& w = warps_[warp];
  for (std::uint32_t rest = w.live; rest != 0; rest &= rest - 1) {
    const Thread& leader = lanes[std::countr_zero(rest)];
    if (leader.state != State::kWarpSync || leader.op == device::WarpOp::kActive) continue;
    const std::uint32_t needed = leader.mask & w.live;
    if ((needed & (1u << std::countr_zero(rest))) == 0)
      continue;  // names others but not itself, so it never completes
    const device::WarpOp op = leader.op;
    std::array<void*, kWarpSize> operands{};
    const bool needs_all = op >= device::WarpOp::kMatrixLoad;
    bool complete = !needs_all || needed == leader.mask;  // also those lanes that have ended
    for (std::uint32_t m = needed; m != 0; m &= m - 1) {
      const Thread& t = lanes[std::countr_zero(m)];
      complete &= t.state == State::kWarpSync && t.mask == leader.mask && t.op == leader.op;
      complete &= op == device::WarpOp::kSync || t.sync_pc == leader.sync_pc;
      operands[std::countr_zero(m)] = t.operand;
    }
    for (std::uint32_t m = leader.mask & ~w.live; m != 0 && complete; m &= m - 1)
      complete = !went_past(lanes[std::countr_zero(m)], leader);
    if (!complete) continue;
    if (op == device::WarpOp::kWarpgroupWait) {
      w.is_blocked = !wait_is_over(warp, static_cast<const WarpgroupOperand*>(leader.operand)->op);
      if (w.is_blocked) continue;
    }
    if (leader.resolve != nullptr) leader.resolve(operands.data());
    if (record_ != nullptr) [[unlikely]]
      record_warp_op(warp, leader, needed);
    for (std::uint32_t m = needed; m != 0; m &= m - 1) lanes[std::countr_zero(m)].state = State::kReady;
    switch (op) {
      case device::WarpOp::kSync:
        ++tally.ops.warp_barriers;
        w.clock.synchronize(needed, needed == w.live);
        if (has_clocks_) passed_warp_barrier(warp, needed, needed == w.live);
        break;
      case device::WarpOp::kActive: break;
      case device::WarpOp::kShuffle: ++tally.ops.shuffles; break;
      case device::WarpOp::kVote:
        ++tally.ops.votes;
        for (std::uint32_t m = needed; m != 0; m &= m - 1) count_step(lanes[std::countr_zero(m)]);
        if (!w.products.tiles.empty()) ++tally.ops.votes_beside_products;
        break;
      case device::WarpOp::kClusterArrive:
      case device::WarpOp::kClusterArriveRelaxed:
      case device::WarpOp::kClusterWait: note_cluster(op, needed, warp); break;
      case device::WarpOp::kMatrixLoad: break;  // counted as a read of shared memory
      case device::WarpOp::kMma:
        ++tally.ops.mma;
        ++tally.ops.mma_units;
        break;
      case device::WarpOp::kWarpgroup:
      case device::WarpOp::kWarpgroupWait:
        std::transform(operands.begin(), operands.end(), w.products.arrived.begin(),
                       [](void* operand) { return static_cast<WarpgroupOperand*>(operand); });
        w.products.has_arrived = true;
        break;
      case device::WarpOp::kElect: break;
      case device::WarpOp::kTranspose: ++tally.ops.transposes; break;
    }
    idle_rounds_ = 0;
  }
}

/// Opens the block's barrier if every live thread waits at it, at the same call, and none has returned
/// without it.
bool BlockRunner::release_barrier() {
  int sum = 0;
  const Thread* first = nullptr;
  for (int i = 0; i < thread_count_; ++i) {
    const Thread& t = threads_[i];
    if (t.state == State::kDone) continue;
    if (first == nullptr) first = &t;
    if (t.state != State::kBlockSync || t.sync_pc != first->sync_pc) return false;
    sum += t.value;
  }
  if (live_ < thread_count_ && std::any_of(threads_.begin(), threads_.begin() + thread_count_,
                                           [&](const Thread& t) { return went_past(t, *first); })) {
    return false;
  }
  for (int i = 0; i < thread_count_; ++i) {
    Thread& t = threads_[i];
    if (t.state == State::kDone) continue;
    t.state = State::kReady;
    t.value = sum;
    if (has_copies_) t.copies.covered_twice_before_barrier = t.copies.covered_twice;
    if (cluster_ != nullptr) known_phases_ = std::max(known_phases_, t.cluster.waited);
  }
  if (record_ != nullptr) [[unlikely]]
    record_block_barrier();
  for (int w = 0; w < warp_count_; ++w) {
    tally.ops.barriers += warps_[w].live != 0;
    warps_[w].barrier_pc = first != nullptr ? first->sync_pc : nullptr;
  }
  if (has_clocks_) passed_block_barrier();
  if (has_locks_) [[unlikely]]
    guards_.clear();
  ++epoch_;
  idle_rounds_ = 0;
  if (waiting_loop_.is_told) [[unlikely]]
    end_waiting();
  return true;
}

/// Abandons a block whose threads cannot all end. Their stacks are reused without unwinding.
void BlockRunner::abandon() {
  end_waiting();
  set_arrivals();
  tally.has_lost_block = true;
  if (record_ != nullptr) end_record(true);
  log_.clear();
  shared_shadow_.reset();
  if (has_clocks_) global_shadow_.reset();  // copies to it may be in flight
  for (int i = 0; i < thread_count_; ++i) {
    threads_[i].state = State::kDone;
    threads_[i].bulk = {};
  }
  live_ = 0;
  reset_products();
}

void BlockRunner::fiber_main(transfer_t from) {
  auto* self = static_cast<BlockRunner*>(from.data);
  sanitizer::arrive(nullptr, &self->scheduler_stack_, &self->scheduler_stack_size_);
  *self->leaving_ = from.fctx;
  self->launch_->body(self->launch_->arguments);
  self->end_thread();
}

BlockRunner::Thread* BlockRunner::next_in_turn() {
  if (lanes_to_come_ == 0) return nullptr;
  const int lane = (first_lane_in_turn_ + std::countr_zero(lanes_to_come_)) % kWarpSize;
  lanes_to_come_ &= lanes_to_come_ - 1;
  return &warp_in_turn_[lane];
}

/// Before a jump to the thread.
void BlockRunner::turn_to(Thread& thread) {
  current_ = &thread;
  own_stack_ = reinterpret_cast<std::uintptr_t>(stacks_) + std::size_t(thread.linear) * kStackStride;
  stack_top_ = own_stack_ + kStackStride - shift_of(thread.linear);
  ::threadIdx = {thread.index.x, thread.index.y, thread.index.z};
  sanitizer::leave(&scheduler_fake_stack_, stacks_ + std::size_t(thread.linear) * kStackStride + kPage,
                   kStack + kPage);
}

/// Lets a thread have its turn, and those of its warp after it.
void BlockRunner::resume(Thread& thread) {
  begin_turn(thread);
  in_fiber_ = true;
  leaving_ = &scheduler_;
  const transfer_t back = jump_fcontext(thread.context, this);
  in_fiber_ = false;
  current_runner = nullptr;
  sanitizer::arrive(scheduler_fake_stack_);
  *leaving_ = back.fctx;
}

void BlockRunner::end_thread() {
  note_depth();
  Thread& t = *current_;
  t.last_access = log_.latest();
  if (!t.groups.empty() || !t.open_group.empty()) {
    t.last_access = -1;  // copies that land are not where the thread is
    for (auto& group : t.groups) land(group);
    land(t.open_group);
    t.groups.clear();
  }
  t.state = State::kDone;
  Warp& w = warps_[t.linear / kWarpSize];
  w.live &= ~(1u << (t.linear % kWarpSize));
  --live_;
  if (w.live == 0 && !w.products.tiles.empty() && !trapped_) {
    const OutsideKernel outside;
    end_products(t.linear / kWarpSize);
  }
  sanitizer::leave(nullptr, scheduler_stack_, scheduler_stack_size_);
  leave();
  __builtin_unreachable();
}

/// Announces a finding on the stack of a thread that waits, and can then no longer run.
void BlockRunner::announce_in(Thread& thread, const FindingKey& key, const Example& example) {
  struct Call {
    BlockRunner& self;
    const FindingKey& key;
    const Example& example;
  } call{*this, key, example};
  turn_to(thread);
  ontop_fcontext(thread.context, &call, [](transfer_t from) {
    const Call& c = *static_cast<const Call*>(from.data);
    sanitizer::arrive(nullptr, &c.self.scheduler_stack_, &c.self.scheduler_stack_size_);
    c.self.announcer_.announce(c.key, c.example);
    sanitizer::leave(nullptr, c.self.scheduler_stack_, c.self.scheduler_stack_size_);
    return jump_fcontext(from.fctx, nullptr);
  });
  sanitizer::arrive(scheduler_fake_stack_);
}

}  // namespace gpusim
