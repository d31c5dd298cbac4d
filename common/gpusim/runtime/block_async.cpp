/// @file
/// Vector clocks of a block that uses barriers of compute capability 9.0, and what the asynchronous proxy
/// reads.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "gpusim/runtime/block.hpp"
#include "gpusim/runtime/cluster.hpp"

namespace gpusim {
namespace {

void append(std::vector<Piece>& text, const char* separator, std::vector<Piece>&& more) {
  text.push_back(separator);
  std::move(more.begin(), more.end(), std::back_inserter(text));
}

}  // namespace

// --- inside a fiber

/// An operation that does not make its thread wait: it stands in the log, among the accesses of its thread.
void BlockRunner::post(Operation&& operation, const void* pc) {
  const bool arrives =
      operation.kind == Operation::Kind::kArrive || operation.kind == Operation::Kind::kArriveInCluster;
  if (arrives) {
    operation.steps = std::max(current_->steps, 0);
    ++current_->arrivals;
  }
  if (debugging_) {
    const bool trapped = trapped_;
    {
      const OutsideKernel outside;
      const int thread = current_->linear;
      if (!has_clocks_) start_clocks();
      if (process_operation(operation, thread, pc)) ++warps_[thread / kWarpSize].clock.tick;
    }
    if (trapped_ && !trapped) stop();
  }
  const InstructionKey key = InstructionKey::make(pc, 0, AccessKind::kOperation, Space::kShared);
  while (!log_.append(key, current_->loops, operations_.size())) suspend();
  const OutsideKernel outside;
  operations_.push_back(std::move(operation));
}

void BlockRunner::fence(Operation::Kind kind, const void* pc) {
  require(90, kind == Operation::Kind::kFenceProxy ? "fence.proxy.async" : "fence.mbarrier_init", pc);
  post({.kind = kind}, pc);
}

// --- when the log is processed

void BlockRunner::start_clocks() {
  if (cluster_ != nullptr) return cluster_->start_clocks(true);
  start_own_clocks(1, 0);
}

/// @param blocks  of the cluster, in which the block has this rank
void BlockRunner::start_own_clocks(int blocks, int rank) {
  has_clocks_ = expects_clocks_ = true;
  clocks_.start(thread_count_, blocks, rank);
  sequences_.clear();
  events_ = 0;
  mbarriers_.clear();
  mbarrier_at_.clear();
  named_barriers_.fill({});
  for (int w = 0; w < warp_count_; ++w) warps_[w].has_learned = false;
  for (int i = 0; i < thread_count_; ++i) {
    threads_[i].proxy_fences.clear();
    threads_[i].last_waits.clear();
    threads_[i].last_wait = threads_[i].repeated_wait = {};
  }
  if (!async_shadow_.is_ready()) async_shadow_.make(shared_bytes_ / 4 + 4);
  shared_shadow_.keep_readers();
  for (const StaticVariable& v : variables_) {
    if (!v.touched || v.bytes == 0) continue;
    const std::size_t first = v.offset / 4, end = (v.offset + v.bytes + 3) / 4;
    async_shadow_.forget(first, end);
    shared_shadow_.for_each_writer(
        first, end, block_epoch_,
        [&](std::size_t word, std::uint16_t thread, std::uint16_t site, std::uint32_t tick) {
          async_shadow_.set_write(word, thread, site, tick);
        });
  }
}

std::uint16_t BlockRunner::new_sequence(Sequence sequence) {
  if (!has_clocks_) start_clocks();
  sequence.rank = rank_;
  if (cluster_ != nullptr) return cluster_->new_sequence(sequence);
  sequences_.push_back(sequence);
  return clocks_.new_sequence();
}

void BlockRunner::process_operations(const WarpAccess& access, int warp) {
  const Operation& first = operations_[access.addresses[std::countr_zero(access.lanes)]];
  count_operation(first.kind, std::popcount(access.lanes), warp);
  tally.ops.steps_before_arrivals += first.steps;
  if (first.kind == Operation::Kind::kNamedArrive) tally.ops.named_barrier_threads += first.value;
  if (debugging_) return;  // post() has processed them
  if (!has_clocks_) start_clocks();
  const auto* const pc = reinterpret_cast<const void*>(access.key.pc());
  bool released = false;
  told_.clear();
  if (record_ != nullptr) record_->begin_batch();
  for (std::uint32_t rest = access.lanes; rest != 0 && !trapped_; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    Operation operation = std::move(operations_[access.addresses[lane]]);
    released |= process_operation(operation, warp * kWarpSize + lane, pc);
  }
  if (released) ++warps_[warp].clock.tick;
}

/// Counts an operation once for the lanes of a warp.
void BlockRunner::count_operation(Operation::Kind kind, std::int64_t lanes, int warp) {
  OpCounters& ops = tally.ops;
  switch (kind) {
    case Operation::Kind::kArrive:
    case Operation::Kind::kArriveInCluster:
      ++ops.mbarrier_arrivals;
      if (!warps_[warp].products.tiles.empty()) ++ops.arrivals_beside_products;
      break;
    case Operation::Kind::kNamedArrive: ++ops.named_barriers; break;
    case Operation::Kind::kLoad: ops.bulk_loads += lanes; break;
    case Operation::Kind::kStore: ops.bulk_stores += lanes; break;
    case Operation::Kind::kStoreInCluster: ++tally.shared.remote_requests; break;
    case Operation::Kind::kCopyInCluster: tally.shared.remote_requests += lanes; break;
    default: break;
  }
}

/// @return whether the thread has released what it did: the next tick of its warp begins
bool BlockRunner::process_operation(Operation& operation, int thread, const void* pc) {
  Thread& t = threads_[thread];
  idle_rounds_ = 0;
  if (record_ != nullptr) record_operation(operation, thread, pc);
  switch (operation.kind) {
    case Operation::Kind::kBulkCommit: return false;
    case Operation::Kind::kInit: init_mbarrier(operation, thread, pc); return false;
    case Operation::Kind::kFenceProxy:
      trace_event("fence", thread, pc);
      t.proxy_fences.push_back(warps_[thread / kWarpSize].clock.tick + 1);
      [[fallthrough]];
    case Operation::Kind::kFenceInit:
      for (Mbarrier& barrier : mbarriers_) {
        if (barrier.initializer != thread || barrier.fenced) continue;
        barrier.fenced = true;
        // The fence releases the initialisation, so that even a relaxed arrival makes it visible.
        if (operation.kind == Operation::Kind::kFenceInit) barrier.fence_phase = t.cluster.arrived + 1;
      }
      return operation.kind == Operation::Kind::kFenceProxy;
    case Operation::Kind::kNamedArrive: return come_to(int(operation.barrier), operation.value, thread, pc);
    case Operation::Kind::kStore: begin_store(*operation.copies[0], thread, pc); return false;
    case Operation::Kind::kWaitRead:
    case Operation::Kind::kWaitWrite: end_stores(operation, thread, pc); return false;
    case Operation::Kind::kArriveInCluster:
    case Operation::Kind::kStoreInCluster:
    case Operation::Kind::kCopyInCluster: return process_in_cluster(operation, thread, pc);
    case Operation::Kind::kArrive:
    case Operation::Kind::kExpect:
    case Operation::Kind::kLoad: break;
  }
  Mbarrier* const barrier = find_mbarrier(operation.barrier);
  if (barrier == nullptr) {
    fail(thread, DefectKind::kMisuse, pc, {"no thread has initialised ", name_of(operation.barrier, pc)});
    return false;
  }
  use_mbarrier(AccessKind::kAtomic, operation.barrier, thread, pc);
  if (operation.kind == Operation::Kind::kExpect) {
    barrier->bytes += operation.value;
    barrier->expect_pc = pc;
    trace_event("expect", thread, pc, *barrier);
    return false;
  }
  if (operation.kind == Operation::Kind::kArrive) return arrive(*barrier, operation, *this, thread, pc);
  begin_load(operation.copies[0], *barrier, thread, pc);
  return false;
}

/// A __syncwarp() of these lanes is complete: they know the same.
void BlockRunner::passed_warp_barrier(int warp, std::uint32_t lanes, bool everyone) {
  if (!warps_[warp].has_learned) return;
  const std::size_t size = clocks_.stride();
  Clock joined(size);
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1)
    ThreadClocks::join(joined.data(), clocks_.row(warp * kWarpSize + std::countr_zero(rest)), size);
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1)
    std::copy(joined.begin(), joined.end(), clocks_.row(warp * kWarpSize + std::countr_zero(rest)));
  if (everyone) warps_[warp].has_learned = false;
}

/// A __syncthreads() is complete: all threads know everything.
void BlockRunner::passed_block_barrier() {
  const std::size_t size = clocks_.stride();
  Clock joined(size);
  for (int i = 0; i < thread_count_; ++i) ThreadClocks::join(joined.data(), clocks_.row(i), size);
  for (int w = 0; w < warp_count_; ++w) {
    const std::uint32_t tick = ++warps_[w].clock.tick;
    for (int i = w * kWarpSize; i < std::min((w + 1) * kWarpSize, thread_count_); ++i)
      joined[clocks_.first() + std::size_t(i)] = tick;
    warps_[w].has_learned = false;
  }
  for (int i = 0; i < thread_count_; ++i) std::copy(joined.begin(), joined.end(), clocks_.row(i));
}

/// The clock learns what the thread knows and has done. The next tick of its warp has to begin then.
/// @param relaxed  only what the thread has read
void BlockRunner::release(int thread, Clock& clock, bool relaxed) {
  relaxed ? clocks_.release_reads(thread, clock) : clocks_.release(thread, clock);
  const std::size_t own = clocks_.first() + (relaxed ? clocks_.first_read() : 0);
  const int warp = thread / kWarpSize, first = warp * kWarpSize;
  const WarpClock& in_warp = warps_[warp].clock;
  for (int i = first; i < std::min(first + kWarpSize, thread_count_); ++i) {
    const std::uint32_t known = i == thread ? in_warp.tick + 1 : in_warp.known_by(thread - first, i - first);
    std::uint32_t& component = clock[own + std::size_t(i)];
    component = std::max(component, known);
  }
}

void BlockRunner::acquire(int thread, const Clock& clock) {
  clocks_.acquire(thread, clock);
  warps_[thread / kWarpSize].has_learned = true;
}

void BlockRunner::learn(int thread, Completion operation) {
  clocks_.learn(thread, operation.sequence, operation.number + 1);
  warps_[thread / kWarpSize].has_learned = true;
}

/// The thread knows what the other one did before this tick.
std::uint32_t BlockRunner::known(int thread, int other) const {
  const std::uint32_t known = clocks_.row(thread)[clocks_.first() + std::size_t(other)];
  const int warp = thread / kWarpSize;
  if (other / kWarpSize != warp) return known;
  return std::max(known, warps_[warp].clock.known_by(thread % kWarpSize, other % kWarpSize));
}

/// Whether a thread that has written at this tick has executed a fence_proxy_async() since, and the reader
/// knows of that.
bool BlockRunner::is_fenced(int reader, int writer, std::uint32_t tick) const {
  const std::vector<std::uint32_t>& fences = threads_[writer].proxy_fences;
  const auto fence = std::upper_bound(fences.begin(), fences.end(), tick);
  return fence != fences.end() && (reader == writer || *fence < known(reader, writer));
}

/// An ordinary store or atomic operation has written shared memory.
void BlockRunner::note_store(std::uintptr_t address, std::size_t bytes, int thread, const Actor& actor) {
  const std::size_t offset = address - shared_base_;
  for (std::size_t word = offset / 4; word < (offset + bytes + 3) / 4; ++word) {
    async_shadow_.set_write(word, thread, actor.site, actor.clock->tick);
    async_shadow_.clear_reads(word);
  }
}

/// Bytes of shared memory are about to be written: finds the asynchronous operations that may still read
/// them.
void BlockRunner::check_async_readers(std::uintptr_t address, std::size_t bytes, int lane, const Actor& actor,
                                      InstructionKey key) {
  const std::size_t offset = address - shared_base_;
  const int thread = actor.warp * kWarpSize + lane;
  for (std::size_t word = offset / 4; word < (offset + bytes + 3) / 4; ++word) {
    if (!async_shadow_.has_reads(word)) continue;
    async_shadow_.for_each_read(word, [&](const AsyncShadow::Read& read) {
      if (clocks_.knows(thread, read.sequence, read.number)) return;
      found_async_race(key, shared_base_ + 4 * word, actor, lane, read);
    });
  }
}

bool BlockRunner::async_read(int thread, Completion operation, std::uintptr_t address, std::size_t bytes,
                             const void* pc) {
  const std::size_t offset = address - shared_base_;
  StaticVariable* const variable = offset < shared_bytes_ ? variable_at(offset) : nullptr;
  if (variable == nullptr || offset + bytes > variable->offset + variable->bytes) {
    const FindingKey key{.kind = DefectKind::kOutOfBounds,
                         .pc = reinterpret_cast<std::uintptr_t>(pc),
                         .space = Space::kShared,
                         .bytes = std::uint32_t(bytes)};
    found(key, [&](Example& e) {
      fill(e, thread, Space::kShared,
           variable == nullptr ? address : shared_base_ + variable->offset + variable->bytes);
    });
    trapped_ = true;
    return false;
  }
  variable->touched = true;
  const InstructionKey key = InstructionKey::make(pc, 4, AccessKind::kAsyncRead, Space::kShared);
  const int warp = thread / kWarpSize, lane = thread % kWarpSize;
  Actor actor = actor_of(key, warp);
  for (std::size_t word = offset / 4; word < (offset + bytes) / 4; ++word) {
    const std::uintptr_t at = shared_base_ + 4 * word;
    bool race = false;
    shared_shadow_.check_read(4 * word, 4, lane, actor, [&](int, const Rival& rival) {
      race = true;
      found_race(key, at, actor, lane, rival);
    });
    if ((shared_state_[word] & kWritten) != kWritten) {
      const FindingKey uninitialized{
          .kind = DefectKind::kUninitializedRead, .pc = key.pc(), .space = Space::kShared, .bytes = 4};
      found(uninitialized, [&](Example& e) { fill(e, thread, Space::kShared, at); });
    }
    const AsyncShadow::Write& write = async_shadow_.write(word);
    if (!race && write.thread_plus_1 != 0 && !is_fenced(thread, write.thread_plus_1 - 1, write.tick))
      found_missing_fence(key, at, thread, write);
    async_shadow_.add_read(word, thread, actor.site, operation);
  }
  return true;
}

void BlockRunner::found_missing_fence(InstructionKey key, std::uintptr_t address, int thread,
                                      const AsyncShadow::Write& write) {
  const FindingKey finding{.kind = DefectKind::kMissingFence,
                           .pc = key.pc(),
                           .rival_pc = pc_of_site(write.site),
                           .access = key.kind(),
                           .rival_access = AccessKind::kWrite,
                           .space = Space::kShared,
                           .bytes = 4};
  found(finding, [&](Example& e) {
    fill(e, thread, Space::kShared, address);
    e.rival_thread = write.thread_plus_1 - 1;
    e.reason = {"the writer executes no fence_proxy_async() between its write and the barrier"};
  });
}

/// Bytes are written while an asynchronous operation may read them.
void BlockRunner::found_async_race(InstructionKey instruction, std::uintptr_t address, const Actor& actor,
                                   int lane, const AsyncShadow::Read& read) {
  const FindingKey key{.kind = DefectKind::kRace,
                       .pc = instruction.pc(),
                       .rival_pc = pc_of_site(read.site),
                       .access = instruction.kind(),
                       .rival_access = AccessKind::kAsyncRead,
                       .space = Space::kShared,
                       .bytes = std::uint32_t(instruction.size())};
  found(key, [&](Example& e) {
    const int thread = actor.warp * kWarpSize + lane;
    fill(e, thread, Space::kShared, address);
    e.rival_thread = read.thread;
    const Sequence& sequence = sequences_[read.sequence - ThreadClocks::kFirstSequence];
    if (sequence.kind == Sequence::Kind::kLoad) {
      const BlockRunner& owner = *cluster_->blocks()[std::size_t(sequence.rank)];
      const Mbarrier& barrier = owner.mbarriers_[std::size_t(sequence.owner)];
      e.reason = {
          "the copy to " + owner.block_name() + " may still be reading: the writer has not learned that ",
          owner.name_for(*this, barrier.address, reinterpret_cast<const void*>(key.pc)),
          owner.of_block_for(*this) + " has completed " + phase_name(read.number)};
      return;
    }
    const bool is_store = sequence.kind == Sequence::Kind::kStore;
    if (loading_ != nullptr) e.reason = read_too_early(read.thread, *loading_, loading_->phase);
    if (!e.reason.empty()) return;
    const std::string wait = is_store ? "bulk_wait_read()" : "wgmma_wait()";
    const bool has_waited = clocks_.knows(read.thread, read.sequence, read.number);
    e.reason = {std::string(is_store ? "the bulk store" : "the product") + " may still be reading: no " +
                (has_waited              ? "barrier between the " + wait + " and the write"
                 : thread == read.thread ? wait + " between the two"
                                         : wait + " and barrier between the two")};
    if (threads_[thread].last_wait.repeats)
      append(e.reason, "; ", returned_at_once(threads_[thread].last_wait));
  });
}

/// Explains a race in a block with clocks, where many things order accesses.
void BlockRunner::explain_async(Example& e, InstructionKey instruction, std::uintptr_t address,
                                const Rival& rival) const {
  if (rival.thread >= ThreadClocks::kFirstSequence) {
    const Sequence& sequence = sequences_[rival.thread - ThreadClocks::kFirstSequence];
    if (sequence.kind == Sequence::Kind::kLoad)
      return explain_load(e, instruction, address, mbarriers_[std::size_t(sequence.owner)], rival.thread);
    e.rival_thread = sequence.owner;
    const bool in_flight = rival.kind == AccessKind::kCopyIssue;
    e.reason = {in_flight ? e.thread == e.rival_thread ? "no bulk_wait() between the two"
                                                       : "no bulk_wait() and barrier between the two"
                          : "no barrier between the bulk_wait() and the other access"};
    return;
  }
  if (instruction.space() == Space::kShared && mbarrier_at_.contains(address / 8 * 8)) {
    e.reason = {"the mbarrier may not be initialised yet: no barrier between the two"};
  } else if (instruction.kind() == AccessKind::kCopyIssue && instruction.space() == Space::kShared &&
             e.early_barrier == 0) {
    if (loading_ != nullptr) e.reason = read_too_early(e.rival_thread, *loading_, loading_->phase);
    if (!e.reason.empty()) return;
    e.reason = {"a load into memory that is still in use: no barrier between the two"};
    if (threads_[e.thread].last_wait.repeats)
      append(e.reason, "; ", returned_at_once(threads_[e.thread].last_wait));
  } else if (e.thread / kWarpSize != e.rival_thread / kWarpSize && rival.kind != AccessKind::kCopyIssue &&
             rival.kind != AccessKind::kCopyLand) {
    e.reason = {"no barrier between the two"};
  }
}

/// An access to what a load writes, by a thread that has not waited for it.
void BlockRunner::explain_load(Example& e, InstructionKey instruction, std::uintptr_t address,
                               const Mbarrier& barrier, std::uint16_t sequence) const {
  const BulkCopy* load = nullptr;
  for (const auto* copies : {&barrier.landed, &barrier.in_flight}) {
    for (const auto& copy : *copies) {
      if (address - copy->shared < copy->bytes && copy->completion.sequence == sequence) load = copy.get();
    }
  }
  const auto* const pc = reinterpret_cast<const void*>(instruction.pc());
  const bool reads = instruction.kind() == AccessKind::kRead || instruction.kind() == AccessKind::kAsyncRead;
  e.rival_thread = load != nullptr ? load->thread : barrier.initializer;
  if (load != nullptr && load->is_in_cluster()) {
    e.rival_block = cluster_->block_number(load->rank);
    if (e.note.empty()) e.note = " in " + block_name();
  }
  const std::uint32_t phase = load != nullptr ? load->completion.number : 0;
  if (reads && load != nullptr) e.reason = read_too_early(e.thread, barrier, phase);
  if (!e.reason.empty()) return;
  e.reason = {
      reads ? "data read while its load is in flight" : "data written while a load to it is in flight",
      ": no wait for ", name_of(barrier.address, pc), " between the two"};
  if (!reads && threads_[e.thread].last_wait.repeats)
    append(e.reason, "; ", returned_at_once(threads_[e.thread].last_wait));
  const LastWait last = last_wait_for(e.thread, barrier);
  if (load == nullptr || last.pc == nullptr || last.phase > phase) return;
  e.reason.push_back("; the last wait for it, at ");
  e.reason.push_back(Piece::line(last.pc));
  e.reason.push_back(", is for parity " + std::to_string((last.phase + 1) & 1) + ": the load completes " +
                     phase_name(phase));
}

LastWait BlockRunner::last_wait_for(int thread, const Mbarrier& barrier) const {
  const auto number = std::size_t(&barrier - mbarriers_.data());
  const std::vector<LastWait>& waits = threads_[thread].last_waits;
  return number < waits.size() ? waits[number] : LastWait();
}

/// Why a thread has read what a load brings in a later phase: its wait was for an earlier one. Empty if it
/// was not.
std::vector<Piece> BlockRunner::read_too_early(int thread, const Mbarrier& barrier,
                                               std::uint32_t phase) const {
  const LastWait wait = last_wait_for(thread, barrier);
  if (!wait.is_idle() || wait.phase > phase) return {};
  std::vector<Piece> text{"data read before its load is complete: "};
  append(text, "", returned_at_once(wait));
  text.push_back("; the load completes " + phase_name(phase));
  return text;
}

/// "the wait for full[0] at ring.cu:76, with parity 0, returned at once: phase 0, of parity 0, was complete"
std::vector<Piece> BlockRunner::returned_at_once(const LastWait& wait) const {
  return {"the wait for ", name_of(wait.barrier, wait.pc), " at ", Piece::line(wait.pc),
          ", with parity " + std::to_string((wait.phase + 1) & 1) + ", returned at once: " +
              (wait.phase == 0 ? "the phase before the first counts as complete"
                               : phase_name(wait.phase - 1) + ", was complete") +
              (wait.repeats ? ", and the thread had waited for it before" : "")};
}

/// "phase 3, of parity 1"
std::string BlockRunner::phase_name(std::uint32_t phase) {
  return "phase " + std::to_string(phase) + ", of parity " + std::to_string(phase & 1);
}

void BlockRunner::add_event(const char* name, int thread, const void* pc, std::vector<Piece> barrier,
                            std::int64_t phase) {
  const bool is_copy =
      std::strcmp(name, "load") == 0 || std::strcmp(name, "land") == 0 || std::strcmp(name, "store") == 0;
  const std::size_t place = barrier.empty() ? 0 : barrier[0].place.offset;
  if (!is_copy && !told_.insert({name, pc, thread / kWarpSize, place}).second) return;
  event_trace_->add({linear_,
                     events_++,
                     thread,
                     pc,
                     name,
                     std::move(barrier),
                     {block_dim_.at(std::uint64_t(thread)), block_dim_, launch_->parameters},
                     phase});
}

void BlockRunner::fail(int thread, DefectKind kind, const void* pc, std::vector<Piece> message) {
  complain(thread, kind, pc, std::move(message));
  trapped_ = true;
}

void BlockRunner::complain(int thread, DefectKind kind, const void* pc, std::vector<Piece> message) {
  const FindingKey key{.kind = kind, .pc = reinterpret_cast<std::uintptr_t>(pc), .space = Space::kShared};
  found(key, [&](Example& e) {
    fill(e, thread, Space::kShared, shared_base_);
    e.message = std::move(message);
  });
}

Piece BlockRunner::name_of(std::uintptr_t address, const void* pc) const {
  Piece piece(place_of(Space::kShared, address));
  piece.pc = reinterpret_cast<std::uintptr_t>(pc);
  piece.place = shared_byte(address);
  const bool is_scalar = piece.place.offset == 0 && piece.place.bytes <= 8;
  if (is_scalar && !piece.place.variable.empty()) piece.text = piece.place.variable;
  return piece;
}

}  // namespace gpusim
