/// @file
/// mbarriers and named barriers.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "gpusim/runtime/block.hpp"
#include "gpusim/runtime/cluster.hpp"

namespace gpusim {
namespace {

constexpr int kMostBytes = (1 << 20) - 1;

}  // namespace

// --- inside a fiber

void BlockRunner::mbarrier_init(const void* barrier, int arrivals, const void* pc) {
  require(90, "mbarrier", pc);
  const auto address = reinterpret_cast<std::uintptr_t>(barrier);
  check_mbarrier(address, pc);
  post({.kind = Operation::Kind::kInit, .barrier = address, .value = arrivals}, pc);
}

void BlockRunner::mbarrier_arrive(const void* barrier, int bytes, const void* pc) {
  require(90, "mbarrier", pc);
  const auto address = reinterpret_cast<std::uintptr_t>(barrier);
  check_own_mbarrier(address, bytes == 0 ? ": mbarrier_arrive_cluster() can arrive there" : "", pc);
  check_mbarrier(address, pc);
  if (bytes < 0 || bytes > kMostBytes) {
    misuse(pc, {name_of(address, pc), " cannot expect " + std::to_string(bytes) + " bytes: must be 0 to " +
                                          std::to_string(kMostBytes)});
  }
  post({.kind = Operation::Kind::kArrive, .barrier = address, .value = bytes}, pc);
}

void BlockRunner::mbarrier_wait(const void* barrier, int parity, bool of_cluster, const void* pc) {
  come_to_mbarrier(barrier, parity, of_cluster, false, false, pc);
}

bool BlockRunner::mbarrier_try_wait(const void* barrier, int parity, bool of_cluster, const void* pc) {
  come_to_mbarrier(barrier, parity, of_cluster, false, true, pc);
  return current_->passed;
}

/// No thread of the block can go on: those that only try to wait do. @return  false: there is none, or all of
/// them have tried in vain often enough
bool BlockRunner::end_tries() {
  constexpr int kMostTries = 256;
  if (fruitless_tries_ >= kMostTries) return false;
  bool any = false;
  for (int i = 0; i < thread_count_; ++i) {
    Thread& t = threads_[i];
    if (t.state != State::kMbarrier || !t.tries) continue;
    t.state = State::kReady;
    --waits_;
    any = true;
  }
  fruitless_tries_ += any;
  return any;
}

void BlockRunner::mbarrier_expect(const void* barrier, int bytes, const void* pc) {
  require(90, "mbarrier", pc);
  const auto address = reinterpret_cast<std::uintptr_t>(barrier);
  check_own_mbarrier(address, "", pc);
  check_mbarrier(address, pc);
  if (bytes < 0 || bytes > kMostBytes) {
    misuse(pc, {name_of(address, pc), " cannot expect " + std::to_string(bytes) + " bytes: must be 0 to " +
                                          std::to_string(kMostBytes)});
  }
  post({.kind = Operation::Kind::kExpect, .barrier = address, .value = bytes}, pc);
}

int BlockRunner::mbarrier_parity(const void* barrier) {
  const Mbarrier* const b = has_clocks_ ? find_mbarrier(reinterpret_cast<std::uintptr_t>(barrier)) : nullptr;
  return b == nullptr ? 0 : int(b->phase & 1);
}

bool BlockRunner::mbarrier_test_wait(const void* barrier, int parity, const void* pc) {
  come_to_mbarrier(barrier, parity, false, true, false, pc);
  return current_->passed;
}

void BlockRunner::come_to_mbarrier(const void* barrier, int parity, bool of_cluster, bool only_tests,
                                   bool tries, const void* pc) {
  require(90, "mbarrier", pc);
  const auto address = reinterpret_cast<std::uintptr_t>(barrier);
  check_own_mbarrier(address, ": a thread can wait only for those of its own block", pc);
  check_mbarrier(address, pc);
  if (parity != 0 && parity != 1)
    misuse(pc, {"a wait for parity " + std::to_string(parity) + " of ", name_of(address, pc),
                ": must be 0 or 1"});
  Thread& t = *current_;
  t.state = State::kMbarrier;
  t.sync_pc = pc;
  t.mask = 0;
  t.value = parity;
  t.arrived = false;
  t.of_cluster = of_cluster;
  t.only_tests = only_tests;
  t.tries = tries;
  t.passed = false;
  t.barrier = address;
  ++waits_;
  suspend();
}

void BlockRunner::barrier_sync(int id, int threads, const void* pc) {
  require(70, "barrier", pc);
  check_named_barrier(id, threads, pc);
  if (id == 0) {
    sync_threads(0, pc);
    return;
  }
  Thread& t = *current_;
  t.state = State::kNamedBarrier;
  t.sync_pc = pc;
  t.mask = 0;
  t.value = id;
  t.party = threads;
  t.arrived = false;
  ++waits_;
  suspend();
}

void BlockRunner::barrier_arrive(int id, int threads, const void* pc) {
  require(70, "barrier", pc);
  check_named_barrier(id, threads, pc);
  post({.kind = Operation::Kind::kNamedArrive, .barrier = std::uintptr_t(id), .value = threads}, pc);
}

void BlockRunner::check_mbarrier(std::uintptr_t address, const void* pc) {
  if (address - shared_base_ >= shared_bytes_)
    trap(DefectKind::kOutOfBounds, Space::kShared, address, 8, AccessKind::kAtomic, pc);
  check_shared(address, 8, AccessKind::kCopyIssue, pc, true);
  variables_[variable_of_word_[(address - shared_base_) / 4]].touched = true;
}

void BlockRunner::check_named_barrier(int id, int threads, const void* pc) {
  std::string what;
  if (id < 0 || id > 15) {
    what = "there is no barrier " + std::to_string(id) + ": must be 0 to 15";
  } else if (threads <= 0 || threads % kWarpSize != 0) {
    what = "barrier " + std::to_string(id) + " for " + std::to_string(threads) +
           " threads: must be a multiple of 32";
  } else if (threads > thread_count_) {
    what = "barrier " + std::to_string(id) + " for " + std::to_string(threads) + " threads: the block has " +
           std::to_string(thread_count_);
  } else if (id == 0 && threads != thread_count_) {
    what = "barrier 0 is __syncthreads(), for all " + std::to_string(thread_count_) +
           " threads of the block, not for " + std::to_string(threads);
  }
  if (!what.empty()) misuse(pc, {what});
}

/// Ends the thread that runs.
void BlockRunner::misuse(const void* pc, std::vector<Piece> message) {
  {
    const OutsideKernel outside;
    fail(current_->linear, DefectKind::kMisuse, pc, std::move(message));
  }
  stop();
}

// --- when the log is processed

Mbarrier* BlockRunner::find_mbarrier(std::uintptr_t address) {
  const auto at = mbarrier_at_.find(address);
  return at == mbarrier_at_.end() ? nullptr : &mbarriers_[at->second];
}

/// An operation on the object in shared memory, which competes only with others and with the initialisation.
void BlockRunner::use_mbarrier(AccessKind kind, std::uintptr_t address, int thread, const void* pc) {
  const InstructionKey key = InstructionKey::make(pc, 8, kind, Space::kShared);
  const Actor actor = actor_of(key, thread / kWarpSize);
  shared_shadow_.access(
      address - shared_base_, 8, 1u << thread % kWarpSize, actor,
      [&](int lane, const Rival& rival) { found_race(key, address, actor, lane, rival); },
      [](std::size_t, std::size_t, int) {}, [](std::size_t) {});
}

void BlockRunner::init_mbarrier(const Operation& operation, int thread, const void* pc) {
  constexpr int kMost = (1 << 20) - 1;
  const std::uintptr_t address = operation.barrier;
  if (operation.value < 1 || operation.value > kMost) {
    return fail(thread, DefectKind::kMisuse, pc,
                {name_of(address, pc), " is initialised for " + std::to_string(operation.value) +
                                           " arrivals: must be 1 to " + std::to_string(kMost)});
  }
  if (const Mbarrier* old = find_mbarrier(address)) {
    return fail(thread, DefectKind::kMisuse, pc,
                {name_of(address, pc), " is initialised a second time, after ", Piece::line(old->init_pc)});
  }
  use_mbarrier(AccessKind::kWrite, address, thread, pc);
  Mbarrier barrier;
  barrier.address = address;
  barrier.expected = barrier.missing = std::uint32_t(operation.value);
  barrier.sequence = new_sequence({Sequence::Kind::kLoad, int(mbarriers_.size())});
  barrier.initializer = thread;
  barrier.init_tick = warps_[thread / kWarpSize].clock.tick;
  barrier.init_pc = pc;
  mbarrier_at_[address] = mbarriers_.size();
  mbarriers_.push_back(std::move(barrier));
  if (record_ != nullptr) {
    record_op(thread / kWarpSize, record::Op::kBarrierInit, 1u << thread % kWarpSize, pc,
              record_mbarrier(mbarriers_.back()), std::uint32_t(operation.value));
  }
}

/// A thread arrives at an mbarrier of this block. @param by  its block
bool BlockRunner::arrive(Mbarrier& b, const Operation& operation, BlockRunner& by, int thread,
                         const void* pc) {
  const std::string expects = of_block_for(by) + " expects " + std::to_string(b.expected) +
                              (b.expected == 1 ? " arrival" : " arrivals") + " in a phase: ";
  if (b.missing == 0) {
    by.complain(thread, DefectKind::kMisuse, pc,
                by.with_repeated_wait(thread, {name_for(by, b.address, pc),
                                               expects + "this is one more, and " + phase_name(b.phase) +
                                                   ", is not complete until its bytes have landed"}));
    if (!try_complete(b)) {
      by.trapped_ = true;
      return false;
    }
  } else if (b.phase != 0 && !by.clocks_.knows(thread, b.sequence, b.phase - 1)) {
    by.complain(
        thread, DefectKind::kMisuse, pc,
        by.with_repeated_wait(thread, {name_for(by, b.address, pc),
                                       expects + "this may be one more in " + phase_name(b.phase - 1) +
                                           ", because the thread has not waited for that phase"}));
  }
  b.arrive_pc = pc;
  if (&by != this) {
    b.from_block = {pc, by.rank_};
  } else {
    trace_event(operation.value != 0 ? "expect" : "arrive", thread, pc, b);
  }
  if (record_ != nullptr && &by == this) {
    record_arrival(record_mbarrier(b), b.phase, thread, pc,
                   operation.value != 0 ? std::uint32_t(operation.value) : record::kNone);
  }
  if (operation.value != 0) b.expect_pc = pc;
  b.bytes += operation.value;
  by.release(thread, b.gathered, operation.relaxed);
  if (--b.missing == 0 && b.bytes == 0 && b.in_flight.empty()) {
    next_phase(b);
    if (b.expected == 1) by.learn(thread, {b.sequence, b.phase - 1});
  }
  return true;
}

/// The message, and a wait that may have let the thread arrive too early.
std::vector<Piece> BlockRunner::with_repeated_wait(int thread, std::vector<Piece>&& message) const {
  const LastWait& wait = threads_[thread].repeated_wait;
  if (wait.pc == nullptr) return std::move(message);
  message.push_back("\n    ");
  for (Piece& piece : returned_at_once(wait)) message.push_back(std::move(piece));
  return std::move(message);
}

/// After all arrivals of a phase: no more bytes may be in flight than have been announced.
/// @param next  a copy that begins
void BlockRunner::check_bytes(Mbarrier& b, const BulkCopy* next) {
  const std::int64_t in_flight = b.bytes_in_flight() + (next != nullptr ? std::int64_t(next->bytes) : 0);
  if (b.missing != 0 || b.bytes >= in_flight || b.has_excess) return;
  b.has_excess = true;
  const BulkCopy& last = next != nullptr ? *next : *b.in_flight.back();
  BlockRunner& by = issuer_of(last);
  std::vector<Piece> text{name_for(by, b.address, last.pc),
                          of_block_for(by) + " expects too few bytes: " + std::to_string(b.bytes) +
                              " are announced in " + phase_name(b.phase)};
  if (b.expect_pc != nullptr && b.bytes != 0) {
    text.push_back(" (");
    text.push_back(Piece::line(b.expect_pc));
    text.push_back(")");
  }
  text.push_back(", and copies deliver " + std::to_string(in_flight) + boxes_of(last) +
                 ": it can be complete before all of them have landed");
  by.complain(last.thread, DefectKind::kMisuse, last.pc, std::move(text));
}

/// ", in boxes of 64 x 128 x 1 elements of 2 bytes"; empty if the copy is of no box.
std::string BlockRunner::boxes_of(const BulkCopy& copy) {
  if (!copy.is_tensor()) return "";
  const TensorMap& map = copy.map;
  std::string text = ", in boxes of ";
  for (int d = 0; d < map.rank; ++d) text += (d == 0 ? "" : " x ") + std::to_string(map.count(d));
  return text + " elements of " + std::to_string(map.element_bytes) +
         (map.element_bytes == 1 ? " byte" : " bytes");
}

/// Completes the phase if nothing is missing but bytes in flight: they land now.
bool BlockRunner::try_complete(Mbarrier& b) {
  if (b.missing != 0) return false;
  if (b.bytes > b.bytes_in_flight()) return false;
  check_bytes(b);
  for (const auto& copy : b.in_flight) {
    if (!copy->is_in_cluster()) trace_event("land", copy->thread, copy->pc, b);
    if (record_ != nullptr) record_landing(*copy, b);
    land_load(*copy);
  }
  b.landed = std::move(b.in_flight);
  b.in_flight.clear();
  next_phase(b);
  return true;
}

void BlockRunner::next_phase(Mbarrier& b) {
  if (record_ != nullptr) record_complete(record_mbarrier(b));
  ++b.phase;
  b.missing = b.expected;
  b.bytes = 0;
  b.has_excess = false;
  b.gathered.resize(clocks_.stride());
  b.gathered[clocks_.component(b.sequence, clocks_.first())] = b.phase;
  b.complete = b.gathered;
  b.complete_from_block = std::exchange(b.from_block, {});
  idle_rounds_ = 0;
}

/// Lets those threads of a warp go on whose barriers are complete.
void BlockRunner::settle_waits(int warp) {
  bool released = false, waited = false, came = false;
  int arrivals = 0, party = 0;
  told_.clear();
  if (record_ != nullptr) record_->begin_batch();
  std::uint32_t gone_on = 0;
  for (int i = warp * kWarpSize; i < std::min((warp + 1) * kWarpSize, thread_count_); ++i) {
    Thread& t = threads_[i];
    if (t.state == State::kMbarrier) {
      settle_mbarrier(t);
      waited |= t.passed;
      if (t.passed) arrivals = std::max(arrivals, t.arrivals);
      gone_on |= std::uint32_t(t.passed) << i % kWarpSize;
    } else if (t.state == State::kNamedBarrier && !t.arrived) {
      t.arrived = came = true;
      party = t.party;
      count_step(t);
      if (!has_clocks_) start_clocks();
      named_barriers_[std::size_t(t.value)].waiting.push_back(i);
      released |= come_to(t.value, t.party, i, t.sync_pc);
    }
    if (trapped_) return;
  }
  if (record_ != nullptr) record_go_on(warp, gone_on, record::BarrierKind::kMbarrier);
  tally.ops.mbarrier_waits += waited;
  tally.ops.arrivals_before_waits += arrivals;
  tally.ops.named_barriers += came;
  tally.ops.named_barrier_threads += party;
  if (released) ++warps_[warp].clock.tick;
}

void BlockRunner::settle_mbarrier(Thread& t) {
  Mbarrier* const b = find_mbarrier(t.barrier);
  if (b == nullptr) {
    return fail(t.linear, DefectKind::kMisuse, t.sync_pc,
                {"no thread has initialised ", name_of(t.barrier, t.sync_pc)});
  }
  const bool complete = int(b->phase & 1) != t.value;
  if (t.only_tests && !complete) {  // copies in flight stay there: they land when somebody waits
    t.state = State::kReady;
    --waits_;
    return;
  }
  if (!t.arrived) trace_event("wait", t.linear, t.sync_pc, *b);
  if (!t.arrived && record_ != nullptr) record_mbarrier_wait(t, *b);
  t.arrived = true;
  if (!complete && !try_complete(*b)) return;
  t.passed = true;
  count_step(t);
  fruitless_tries_ = 0;
  trace_event("go on", t.linear, t.sync_pc, *b);
  use_mbarrier(AccessKind::kAtomic, t.barrier, t.linear, t.sync_pc);
  acquire(t.linear, b->complete);
  if (const FromBlock& from = b->complete_from_block; from.pc != nullptr && !t.of_cluster) {
    complain(t.linear, DefectKind::kMisuse, t.sync_pc,
             {name_of(t.barrier, t.sync_pc),
              " is completed by " + cluster_->blocks()[std::size_t(from.rank)]->block_name() + " at ",
              Piece::line(from.pc),
              ", but the wait sees only what its own block has done: needs mbarrier_wait_cluster()"});
  }
  const auto number = std::size_t(b - mbarriers_.data());
  if (t.last_waits.size() <= number) t.last_waits.resize(mbarriers_.size());
  LastWait& last = t.last_waits[number];
  last = {t.barrier, b->phase, t.sync_pc, last.pc != nullptr && last.phase == b->phase};
  t.last_wait = last;
  if (last.repeats) t.repeated_wait = last;
  t.state = State::kReady;
  --waits_;
}

/// A thread comes to a named barrier.
bool BlockRunner::come_to(int id, int threads, int thread, const void* pc) {
  NamedBarrier& b = named_barriers_[std::size_t(id)];
  if (b.threads == 0) {
    b.threads = threads;
    b.pc = pc;
  }
  if (b.threads != threads) {
    fail(thread, DefectKind::kMisuse, pc,
         {"barrier " + std::to_string(id) + " is for " + std::to_string(threads) + " threads here, for " +
              std::to_string(b.threads) + " at ",
          Piece::line(b.pc)});
    return false;
  }
  const bool waits = threads_[thread].state == State::kNamedBarrier;
  const auto trace = [&](const char* name, int who, const void* where) {
    if (event_trace_ != nullptr) add_event(name, who, where, {std::to_string(id)}, -1);
  };
  trace(waits ? "wait" : "arrive", thread, pc);
  if (record_ != nullptr && waits)
    record_wait(threads_[thread], record::BarrierKind::kNamed, std::uint64_t(id));
  if (record_ != nullptr && !waits) {
    const std::uint32_t barrier = record_barrier(record::BarrierKind::kNamed, std::uint64_t(id), thread, pc);
    record_arrival(barrier, record_->barrier(barrier).phase, thread, pc);
  }
  release(thread, b.gathered);
  if (++b.arrived < b.threads) return true;
  for (const int waiting : b.waiting) {
    trace("go on", waiting, threads_[waiting].sync_pc);
    acquire(waiting, b.gathered);
    threads_[waiting].state = State::kReady;
    --waits_;
  }
  if (record_ != nullptr) record_named_barrier(id, b.waiting);
  b = {};
  idle_rounds_ = 0;
  return true;
}

}  // namespace gpusim
