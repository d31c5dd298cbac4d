/// @file
/// What a block adds to its recording: see recorder.hpp. Nothing here is called unless the block is recorded.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "gpusim/runtime/block.hpp"
#include "gpusim/runtime/cluster.hpp"
#include "gpusim/runtime/matrix.hpp"

namespace gpusim {

using record::AccessPattern;
using record::BarrierKind;
using record::Event;
using record::kNone;

namespace {

constexpr std::uint32_t kLoadsToCompare = 16;

std::uint32_t lanes_of(int thread) { return 1u << thread % kWarpSize; }

/// "[1][63]" -> 2, 64
std::vector<std::size_t> last_indices(const std::string& text) {
  std::vector<std::size_t> shape;
  for (std::size_t at = 0; at < text.size(); at = text.find(']', at) + 1)
    shape.push_back(std::stoul(text.substr(at + 1)) + 1);
  return shape;
}

}  // namespace

void BlockRunner::begin_record() {
  record_ = record::Recorder::instance()->begin_block(grid_dim_.at(linear_));
  if (record_ == nullptr) return;
  record_->kernel = launch_->kernel;
  record_->linear = linear_;
  record_->grid = grid_dim_;
  record_->block_dim = block_dim_;
  record_->rank = rank_;
  record_->warps = warp_count_;
  record_->parameters = launch_->parameters;
}

/// The block has ended. Cheap to call twice.
void BlockRunner::end_record(bool abandoned) {
  record_->abandoned |= abandoned;
  for (int w = 0; w < warp_count_ && !abandoned; ++w)
    record_waits(w);  // a long turn may have been the last one
  record_->shared_begin = shared_base_;
  record_->variables.clear();
  record_->members.clear();
  for (const StaticVariable& v : variables_) {
    if (!v.touched || v.bytes == 0 || v.is_index) continue;
    record_->variables.push_back({.variable = v.name,
                                  .name = v.name,
                                  .begin = std::uint32_t(v.offset),
                                  .bytes = std::uint32_t(v.bytes)});
  }
  for (const DeclaredObject& object : declared_) record_members(object);
}

/// The arrays of which a declared object consists.
void BlockRunner::record_members(const DeclaredObject& object) {
  const auto* const pointer = reinterpret_cast<const void*>(object.begin);
  const auto name_at = [&](std::size_t offset) { return object.member_at(pointer, offset); };
  for (std::size_t begin = 0; begin < object.bytes;) {
    const std::string first = name_at(begin), base = without_indices(first);
    const auto belongs = [&](std::size_t offset) { return without_indices(name_at(offset)) == base; };
    std::size_t last = begin, step = 1;  // doubled, and then halved, as long as it stays in the array
    for (; last + step < object.bytes && belongs(last + step); step *= 2) last += step;
    for (; step > 0; step /= 2) {
      if (last + step < object.bytes && belongs(last + step)) last += step;
    }
    const std::size_t end = last + 1;
    if (!base.empty()) {
      std::size_t element = 1;
      while (begin + element < end && name_at(begin + element) == first) ++element;
      record_->members.push_back({.begin = std::uint32_t(object.begin - shared_base_ + begin),
                                  .bytes = std::uint32_t(end - begin),
                                  .shape = last_indices(name_at(last).substr(base.size())),
                                  .element_bytes = element,
                                  .first = shared_byte(object.begin + begin)});
    }
    begin = end;
  }
}

/// An event of one thread; those of a warp's other threads that do the same at once are added to it.
std::uint32_t BlockRunner::record_event(Event event, int thread, const void* pc) {
  event.warp = std::uint8_t(thread / kWarpSize);
  event.lanes = lanes_of(thread);
  return record_event_of_lanes(event, pc);
}

std::uint32_t BlockRunner::record_event_of_lanes(Event event, const void* pc) {
  using record::Kind;
  event.site = sites_.of(reinterpret_cast<std::uintptr_t>(pc));
  if (const std::uint32_t same = record_->same_in_batch(event); same != kNone) {
    record_->events[same].lanes |= event.lanes;
    return same;
  }
  switch (event.kind) {
    case Kind::kGoOn:
    case Kind::kProductFinished:
    case Kind::kGroupLanded: event.time = record_->now(event.warp); break;
    case Kind::kCopyLands:
    case Kind::kDefect: break;
    default: event.time = record_->take_time(event.warp);
  }
  return record_->add(event);
}

// --- accesses

void BlockRunner::record_access(const WarpAccess& access, const Pattern& pattern, int warp) {
  const InstructionKey& key = access.key;
  if (key.kind() == AccessKind::kCopyLand) return;  // told by the wait
  Event event{.kind = record::Kind::kAccess, .warp = std::uint8_t(warp), .site = sites_.of(key.pc())};
  const bool reads = key.kind() == AccessKind::kRead || key.kind() == AccessKind::kReadPublished;
  event.flags = reads                                                                    ? record::kRead
                : key.kind() == AccessKind::kWrite || key.kind() == AccessKind::kPublish ? record::kWrite
                : key.kind() == AccessKind::kAtomic                                      ? record::kAtomic
                                                                                         : record::kCopyAsync;
  record::BlockRecord::WarpState& state = record_->warp_states[std::size_t(warp)];
  const bool is_second_half = key.kind() == AccessKind::kCopyIssue && state.copy_read != kNone &&
                              record_->events[state.copy_read].site == event.site;
  if (is_second_half) event.link = std::exchange(state.copy_read, kNone);
  event.time = is_second_half ? record_->events[event.link].time : record_->take_time(warp);
  if (record_->is_full()) {
    ++record_->left_out;
    return;
  }
  const auto add = [&](std::uint32_t array, std::uintptr_t begin, std::uint32_t lanes,
                       const GlobalCost& global, const SharedCost& shared) {
    const std::uintptr_t first = access.addresses[std::countr_zero(lanes)];
    AccessPattern p{.size = std::uint32_t(key.size()),
                    .bytes = std::uint32_t(global.bytes),
                    .sectors = std::uint32_t(global.sectors),
                    .wavefronts = std::uint32_t(shared.wavefronts),
                    .ideal = std::uint32_t(shared.ideal)};
    for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
      const int lane = std::countr_zero(rest);
      p.offsets[std::size_t(lane)] = std::int32_t(access.addresses[std::size_t(lane)] - first);
    }
    event.lanes = lanes;
    event.array = array;
    event.offset = std::uint32_t(first - begin);
    event.pattern = record_->pattern(p);
    const std::uint32_t number = record_->add(event);
    if (reads && array < Event::kOfBlock) state.copy_read = number;
    if (!record_->waiting_defects.empty()) settle_defects(access, number, lanes, warp);
    return number;
  };
  if (key.space() == Space::kShared) {
    const GlobalCost bytes{global_cost(access.addresses, access.lanes, key.size()).bytes, 0};
    link_value(access, add(Event::kShared, shared_base_, access.lanes, bytes, pattern.shared), warp);
  } else if (key.space() == Space::kCluster) {
    const BlockRunner& owner = *cluster_->owner_of(access.addresses[std::countr_zero(access.lanes)]);
    add(Event::kOfBlock + std::uint32_t(owner.rank_), owner.shared_base_, access.lanes,
        {global_cost(access.addresses, access.lanes, key.size()).bytes, 0}, {});
  } else {
    std::uint32_t number = kNone;
    for (std::uint32_t rest = access.lanes; rest != 0;) {
      const std::uint32_t id = arena_.find(access.addresses[std::countr_zero(rest)], 1);
      const Allocation& a = arena_.allocation(id);
      std::uint32_t lanes = 0;  // those whose addresses are in this allocation
      for (std::uint32_t m = rest; m != 0; m &= m - 1) {
        const int lane = std::countr_zero(m);
        lanes |= std::uint32_t(access.addresses[std::size_t(lane)] - a.begin < a.end - a.begin) << lane;
      }
      rest &= ~lanes;
      number = add(id, a.begin, lanes, global_cost(access.addresses, lanes, key.size()), {});
    }
    link_value(access, number, warp);
  }
}

/// A store of what a load of the same warp has just brought: links the two. The log is processed when the
/// lanes have gone on, so a load or store whose bytes have been written again is not recognised.
void BlockRunner::link_value(const WarpAccess& access, std::uint32_t event, int warp) {
  const AccessKind kind = access.key.kind();
  if (event == kNone || (kind != AccessKind::kRead && kind != AccessKind::kWrite)) return;
  const std::size_t size = access.key.size();
  auto& loads = record_->warp_states[std::size_t(warp)].loads;
  record::Load now{.event = event, .lanes = access.lanes, .size = std::uint32_t(size)};
  bool any = false;
  for (std::uint32_t rest = access.lanes; rest != 0; rest &= rest - 1) {
    const auto lane = std::size_t(std::countr_zero(rest));
    now.addresses[lane] = access.addresses[lane];
    std::memcpy(now.values[lane].data(), reinterpret_cast<const void*>(access.addresses[lane]), size);
    for (std::size_t i = 0; i < size; ++i) any |= now.values[lane][i] != std::byte(0);
  }
  if (kind == AccessKind::kRead) {
    loads.push_back(now);
    if (loads.size() > kLoadsToCompare) loads.pop_front();
    return;
  }
  if (!any) return;
  const auto brought = [&](const record::Load& load, std::size_t part) {
    bool shared_lane = false;
    for (std::uint32_t rest = access.lanes; rest != 0; rest &= rest - 1) {
      const auto lane = std::size_t(std::countr_zero(rest));
      const auto& value = now.values[lane];
      if ((load.lanes >> lane & 1) == 0) {  // a lane outside of the array stores zero
        if (std::any_of(value.begin(), value.begin() + std::ptrdiff_t(size),
                        [](std::byte b) { return b != std::byte(0); }))
          return false;
        continue;
      }
      shared_lane = true;
      if (load.addresses[lane] + part == now.addresses[lane]) return false;  // what it has just stored
      if (std::memcmp(value.data(), load.values[lane].data() + part, size) != 0) return false;
    }
    return shared_lane;
  };
  for (auto load = loads.rbegin(); load != loads.rend(); ++load) {
    for (std::size_t part = 0; part + size <= load->size; part += size) {
      if (!brought(*load, part)) continue;
      record_->events[event].link = load->event;
      record_->events[event].part = std::uint8_t(part);
      return;
    }
  }
}

// --- operations of warps

void BlockRunner::record_op(int warp, record::Op op, std::uint32_t lanes, const void* pc, std::uint32_t array,
                            std::uint32_t number) {
  record_event_of_lanes({.kind = record::Kind::kOp,
                         .flags = std::uint8_t(op),
                         .warp = std::uint8_t(warp),
                         .lanes = lanes,
                         .array = array,
                         .offset = number},
                        pc);
}

/// An operation of the warp is complete.
void BlockRunner::record_warp_op(int warp, const Thread& leader, std::uint32_t lanes) {
  using device::WarpOp;
  const void* const pc = leader.sync_pc;
  record_->begin_batch();
  if (leader.op < WarpOp::kWarpgroup) record_go_on(warp, lanes, BarrierKind::kWarp);
  switch (leader.op) {
    case WarpOp::kSync: return record_op(warp, record::Op::kSyncWarp, lanes, pc);
    case WarpOp::kShuffle: return record_op(warp, record::Op::kShuffle, lanes, pc);
    case WarpOp::kVote: return record_op(warp, record::Op::kVote, lanes, pc);
    case WarpOp::kElect: return record_op(warp, record::Op::kElect, lanes, pc);
    case WarpOp::kTranspose: return record_op(warp, record::Op::kTranspose, lanes, pc);
    case WarpOp::kMma: {
      const auto type = static_cast<const MmaOperand*>(leader.operand)->type;
      return record_op(warp, record::Op::kMma, lanes, pc, record_->product({.m = 16, .n = 8, .type = type}));
    }
    case WarpOp::kMatrixLoad: {
      if (leader.resolve != &resolve_load_matrices) return;  // of wmma, whose accesses speak for themselves
      const std::uint32_t site = sites_.of(reinterpret_cast<std::uintptr_t>(pc));
      const bool transposed = static_cast<const MatrixOperand*>(leader.operand)->transposed;
      for (auto event = record_->events.rbegin(); event != record_->events.rend(); ++event) {
        if (event->warp != warp || event->site != site) continue;
        event->flags = transposed ? record::kTransposedMatrixRead : record::kMatrixRead;
        return;
      }
      return;
    }
    case WarpOp::kActive:
    case WarpOp::kClusterArrive:
    case WarpOp::kClusterArriveRelaxed:
    case WarpOp::kClusterWait:
    case WarpOp::kWarpgroup:
    case WarpOp::kWarpgroupWait: return;  // by those who carry them out
  }
}

// --- waits

/// The warp's lanes cannot go on: records for what they wait.
void BlockRunner::record_waits(int warp) {
  record::BlockRecord::WarpState& state = record_->warp_states[std::size_t(warp)];
  if (!record_->waiting_defects.empty()) flush_defects(warp);
  if (warps_[warp].live == 0) {
    if (std::exchange(state.ended, true)) return;
    record_->add({.kind = record::Kind::kEnd, .warp = std::uint8_t(warp), .time = record_->now(warp)});
    return;
  }
  record_->begin_batch();
  for (std::uint32_t rest = warps_[warp].live & ~state.waiting; rest != 0; rest &= rest - 1) {
    const Thread& t = threads_[warp * kWarpSize + std::countr_zero(rest)];
    switch (t.state) {
      case State::kBlockSync: record_wait(t, BarrierKind::kBlock, 0); break;
      case State::kClusterSync: record_wait(t, BarrierKind::kCluster, 0, t.cluster.arrived - 1); break;
      case State::kWarpSync: record_warp_wait(t); break;
      case State::kReady:
      case State::kGridSync:
      case State::kMbarrier:
      case State::kNamedBarrier:
      case State::kDone: break;
    }
  }
}

/// A thread begins to wait. @param phase  kNone: the barrier's own count
void BlockRunner::record_wait(const Thread& thread, BarrierKind kind, std::uint64_t id, std::uint32_t phase) {
  const std::uint32_t number = record_barrier(kind, id, thread.linear, thread.sync_pc);
  record::Barrier& barrier = record_->barrier(number);
  const bool counts = kind == BarrierKind::kBlock || kind == BarrierKind::kNamed;
  const int warp = thread.linear / kWarpSize;
  const std::uint32_t event =
      record_event({.kind = record::Kind::kWait, .array = number, .offset = counts ? barrier.phase : phase},
                   thread.linear, thread.sync_pc);
  if (event != kNone && counts) barrier.gathered = std::max(barrier.gathered, record_->events[event].time);
  record_->warp_states[std::size_t(warp)].waiting |= lanes_of(thread.linear);
}

std::uint32_t BlockRunner::record_barrier(BarrierKind kind, std::uint64_t id, int thread, const void* pc) {
  return record_->barrier(kind, id, [&](record::Barrier& barrier) {
    switch (kind) {
      case BarrierKind::kBlock: barrier.name = Piece("__syncthreads"); break;
      case BarrierKind::kWarp: barrier.name = Piece::call(pc); break;
      case BarrierKind::kMbarrier: barrier.name = name_of(id, pc); break;
      case BarrierKind::kNamed: barrier.name = Piece(std::to_string(id)); break;
      case BarrierKind::kCluster: barrier.name = Piece("cluster"); break;
      case BarrierKind::kCopies: barrier.name = Piece("cp.async"); break;
      case BarrierKind::kBulk: barrier.name = Piece("cp.async.bulk"); break;
      case BarrierKind::kProducts: barrier.name = Piece("wgmma"); break;
    }
    barrier.numbers = {block_dim_.at(std::uint64_t(thread)), block_dim_, launch_->parameters};
  });
}

/// Those of these lanes that wait go on, when the barrier is complete.
void BlockRunner::record_go_on(int warp, std::uint32_t lanes, BarrierKind kind) {
  record::BlockRecord::WarpState& state = record_->warp_states[std::size_t(warp)];
  lanes &= state.waiting;
  if (lanes == 0) return;
  state.waiting &= ~lanes;
  // The barrier and its phase are those of the wait.
  for (std::size_t i = record_->events.size(); i-- > 0 && lanes != 0;) {
    const Event wait = record_->events[i];
    if (wait.kind != record::Kind::kWait || wait.warp != warp || (wait.lanes & lanes) == 0) continue;
    if (record_->barrier(wait.array).kind != kind) continue;
    record_->begin_batch();
    record_->go_on(warp, record_->barrier(wait.array).complete);
    record_event_of_lanes({.kind = record::Kind::kGoOn,
                           .warp = std::uint8_t(warp),
                           .lanes = wait.lanes & lanes,
                           .array = wait.array,
                           .offset = wait.offset},
                          reinterpret_cast<const void*>(pc_of_site(std::uint16_t(wait.site))));
    lanes &= ~wait.lanes;
  }
}

/// A warp waits for a product, or for lanes that have not come.
void BlockRunner::record_warp_wait(const Thread& thread) {
  const auto pc = reinterpret_cast<std::uintptr_t>(thread.sync_pc);
  if (thread.op == device::WarpOp::kWarpgroupWait) {
    const WarpgroupOp& op = static_cast<const WarpgroupOperand*>(thread.operand)->op;
    if (op.kind == WarpgroupOp::Kind::kWait) {
      const std::uint32_t covered = warps_[thread.linear / kWarpSize].products.covered(op.count);
      return record_wait(thread, BarrierKind::kProducts, 0, covered - 1);
    }
  }
  record_wait(thread, BarrierKind::kWarp, pc);
}

/// All arrivals of a phase are there.
void BlockRunner::record_complete(std::uint32_t number) {
  record::Barrier& barrier = record_->barrier(number);
  barrier.complete = std::exchange(barrier.gathered, 0) + 1;
  ++barrier.phase;
}

/// A __syncthreads() is complete.
void BlockRunner::record_block_barrier() {
  record_complete(record_barrier(BarrierKind::kBlock, 0, 0, nullptr));
  for (int w = 0; w < warp_count_; ++w) record_go_on(w, warps_[w].live, BarrierKind::kBlock);
}

/// A thread arrives at a barrier without waiting for it. @param bytes  that it announces
void BlockRunner::record_arrival(std::uint32_t number, std::uint32_t phase, int thread, const void* pc,
                                 std::uint32_t bytes) {
  const std::uint32_t event = record_event(
      {.kind = record::Kind::kArrive, .array = number, .pattern = bytes, .offset = phase}, thread, pc);
  record::Barrier& barrier = record_->barrier(number);
  barrier.gathered = std::max(
      barrier.gathered, event == kNone ? record_->now(thread / kWarpSize) : record_->events[event].time);
}

// --- clusters

void BlockRunner::record_cluster_arrival(int warp, std::uint32_t lanes) {
  for (; lanes != 0; lanes &= lanes - 1) {
    const Thread& t = threads_[warp * kWarpSize + std::countr_zero(lanes)];
    const std::uint32_t barrier = record_barrier(BarrierKind::kCluster, 0, t.linear, t.sync_pc);
    record_arrival(barrier, t.cluster.arrived, t.linear, t.sync_pc);
  }
}

/// The latest arrival of this block.
std::uint32_t BlockRunner::cluster_arrival() const {
  const std::uint32_t barrier =
      record_->barrier(BarrierKind::kCluster, 0, [](record::Barrier& b) { b.name = Piece("cluster"); });
  return record_->barrier(barrier).gathered;
}

/// Threads go on that waited for the barrier.
/// @param arrival  the latest one of all blocks, if a phase has become complete
void BlockRunner::record_cluster_barrier(std::optional<std::uint32_t> arrival) {
  if (arrival) {
    const std::uint32_t barrier = record_barrier(BarrierKind::kCluster, 0, 0, nullptr);
    record_->barrier(barrier).gathered = *arrival;
    record_complete(barrier);
  }
  for (int w = 0; w < warp_count_; ++w) {
    std::uint32_t ready = 0;
    for (int i = w * kWarpSize; i < std::min((w + 1) * kWarpSize, thread_count_); ++i)
      ready |= std::uint32_t(threads_[i].state == State::kReady) << i % kWarpSize;
    record_go_on(w, ready, BarrierKind::kCluster);
  }
}

// --- mbarriers and named barriers

std::uint32_t BlockRunner::record_mbarrier(const Mbarrier& barrier) {
  return record_barrier(BarrierKind::kMbarrier, barrier.address, barrier.initializer, barrier.init_pc);
}

/// A thread begins to wait for the parity that it names.
void BlockRunner::record_mbarrier_wait(const Thread& thread, const Mbarrier& barrier) {
  record_mbarrier(barrier);
  const bool is_complete = int(barrier.phase & 1) != thread.value;
  record_wait(thread, BarrierKind::kMbarrier, barrier.address, barrier.phase - is_complete);
}

/// @param waiting  those that a named barrier lets go on
void BlockRunner::record_named_barrier(int id, const std::vector<int>& waiting) {
  record_complete(record_barrier(BarrierKind::kNamed, std::uint64_t(id), 0, nullptr));
  std::array<std::uint32_t, kMaxWarps> lanes{};
  for (const int thread : waiting) lanes[std::size_t(thread / kWarpSize)] |= lanes_of(thread);
  for (int w = 0; w < warp_count_; ++w) {
    if (lanes[std::size_t(w)] != 0) record_go_on(w, lanes[std::size_t(w)], BarrierKind::kNamed);
  }
}

// --- cp.async

/// Lanes commit a group, or wait.
void BlockRunner::record_copy_note(const WarpAccess& access, int warp) {
  const auto* const pc = reinterpret_cast<const void*>(access.key.pc());
  const std::uint32_t barrier = record_barrier(BarrierKind::kCopies, 0, warp * kWarpSize, pc);
  const bool waits = access.key.kind() == AccessKind::kCopyWait;
  const auto for_each_lane =
      [&](auto&& f) {  // f(thread, groups that it has committed, or that the wait covers)
        for (std::uint32_t rest = access.lanes; rest != 0; rest &= rest - 1) {
          const int lane = std::countr_zero(rest);
          f(warp * kWarpSize + lane, std::uint32_t(access.addresses[std::size_t(lane)]));
        }
      };
  std::vector<record::Group>& groups = record_->warp_states[std::size_t(warp)].groups;
  record_->begin_batch();
  for_each_lane([&](int thread, std::uint32_t value) {
    const std::uint32_t event = record_event(
        {.kind = waits ? record::Kind::kWait : record::Kind::kCommit, .array = barrier, .offset = value - 1},
        thread, pc);
    if (waits) return;
    const bool is_known =
        std::any_of(groups.begin(), groups.end(), [&](const record::Group& g) { return g.event == event; });
    if (!is_known) groups.push_back({value - 1, event});
  });
  if (!waits) return;
  record_->begin_batch();
  for_each_lane([&](int thread, std::uint32_t value) {
    const std::uint32_t lane = lanes_of(thread);
    for (record::Group& group : groups) {
      const bool has_it = group.event != kNone && (record_->events[group.event].lanes & lane) != 0;
      if (group.number >= value || !has_it || (group.landed & lane) != 0) continue;
      group.landed |= lane;
      record_event(
          {.kind = record::Kind::kGroupLanded, .array = barrier, .offset = group.number, .link = group.event},
          thread, pc);
    }
  });
  std::erase_if(groups, [&](const record::Group& group) {
    return group.event == kNone || group.landed == record_->events[group.event].lanes;
  });
  record_->begin_batch();
  for_each_lane([&](int thread, std::uint32_t value) {
    record_event({.kind = record::Kind::kGoOn, .array = barrier, .offset = value - 1}, thread, pc);
  });
}

// --- the copy engine

void BlockRunner::record_copy(const BulkCopy& copy, const Mbarrier* barrier, int thread, const void* pc) {
  const auto number = std::uint32_t(record_->copies.size());
  record::Copy& known = record_->copies.emplace_back();
  known.copy = copy;
  known.copy.data = {};
  copy.for_each_run([&](std::uintptr_t global, std::size_t, std::size_t) {
    if (known.allocation == 0) known.allocation = arena_.find(global, 1);
  });
  known.of = &copy;
  known.event = record_event({.kind = record::Kind::kCopyBegins, .array = number}, thread, pc);
  if (barrier == nullptr) return;
  known.barrier = record_mbarrier(*barrier);
  std::uint32_t& gathered = record_->barrier(known.barrier).gathered;
  gathered = std::max(gathered, record_->now(thread / kWarpSize) - 1);
}

/// A load lands, with the phase of its mbarrier.
void BlockRunner::record_landing(const BulkCopy& copy, const Mbarrier& barrier) {
  const auto known = std::find_if(record_->copies.rbegin(), record_->copies.rend(),
                                  [&](const record::Copy& c) { return c.of == &copy && !c.has_landed; });
  if (known == record_->copies.rend()) return;
  known->has_landed = true;
  record_event({.kind = record::Kind::kCopyLands,
                .array = std::uint32_t(record_->copies.rend() - known - 1),
                .link = known->event,
                .time = record_->barrier(record_mbarrier(barrier)).gathered + 1},
               copy.thread, copy.pc);
}

/// A thread waits for its bulk stores.
void BlockRunner::record_bulk_wait(const Operation& operation, int thread, const void* pc) {
  const std::uint32_t barrier = record_barrier(BarrierKind::kBulk, 0, thread, pc);
  const bool read_only = operation.kind == Operation::Kind::kWaitRead;
  const auto covered = std::uint32_t(operation.value);
  record_event({.kind = record::Kind::kWait, .flags = read_only, .array = barrier, .offset = covered - 1},
               thread, pc);
  for (std::size_t i = 0; i < record_->copies.size(); ++i) {
    record::Copy& known = record_->copies[i];
    const bool is_own = known.copy.thread == thread && known.copy.kind != BulkCopy::Kind::kLoad;
    if (!is_own || known.copy.group >= covered || known.has_landed || (read_only && known.has_read)) continue;
    known.has_read = true;
    known.has_landed = !read_only;
    record_event({.kind = record::Kind::kCopyLands,
                  .flags = read_only,
                  .array = std::uint32_t(i),
                  .link = known.event,
                  .time = record_->now(thread / kWarpSize)},
                 thread, pc);
  }
  record_event({.kind = record::Kind::kGoOn, .flags = read_only, .array = barrier, .offset = covered - 1},
               thread, pc);
}

/// What an operation does that stands in the log.
void BlockRunner::record_operation(const Operation& operation, int thread, const void* pc) {
  const int warp = thread / kWarpSize;
  const std::uint32_t lane = lanes_of(thread);
  switch (operation.kind) {
    case Operation::Kind::kFenceProxy: return record_op(warp, record::Op::kFence, lane, pc, kNone, 0);
    case Operation::Kind::kFenceInit: return record_op(warp, record::Op::kFence, lane, pc, kNone, 1);
    case Operation::Kind::kBulkCommit:
      record_event({.kind = record::Kind::kCommit,
                    .array = record_barrier(BarrierKind::kBulk, 0, thread, pc),
                    .offset = std::uint32_t(operation.value)},
                   thread, pc);
      return;
    case Operation::Kind::kWaitRead:
    case Operation::Kind::kWaitWrite: return record_bulk_wait(operation, thread, pc);
    case Operation::Kind::kInit:
    case Operation::Kind::kExpect:
    case Operation::Kind::kArrive:
    case Operation::Kind::kNamedArrive:
    case Operation::Kind::kLoad:
    case Operation::Kind::kStore: return;  // by those who carry them out
    case Operation::Kind::kArriveInCluster:
    case Operation::Kind::kStoreInCluster:
    case Operation::Kind::kCopyInCluster: return;  // recordings do not have them
  }
}

// --- products of warpgroups

record::Operand BlockRunner::operand_of(std::uint64_t descriptor, bool mn_major) const {
  const auto matrix = MatrixDescriptor::of(descriptor);
  return {.in_registers = false,
          .offset = std::uint32_t(address_of(shared_pointer(matrix.start)) - shared_base_),
          .mn_major = mn_major,
          .leading = matrix.leading,
          .stride = matrix.stride,
          .swizzle = matrix.swizzle_bytes,
          .base_offset = matrix.base_offset};
}

void BlockRunner::record_product(int warp, const WarpgroupOp& op) {
  WarpProducts& products = warps_[warp].products;
  record::Product product{.m = kWarpgroupWarps * kWgmmaRows, .n = 2 * op.count, .type = op.shape.type};
  if (!op.a_in_registers) product.a = operand_of(op.a, op.shape.transposed_a);
  product.b = operand_of(op.b, op.shape.transposed_b);
  record_->begin_batch();
  const std::uint32_t event = record_event_of_lanes({.kind = record::Kind::kProductBegins,
                                                     .warp = std::uint8_t(warp),
                                                     .lanes = ~0u,
                                                     .array = record_->product(product),
                                                     .offset = products.group()},
                                                    op.pc);
  record_->warp_states[std::size_t(warp)].products.push_back({event, products.group(), products.issued});
  auto& groups = record_->product_times;
  const auto group = std::size_t(warp / kWarpgroupWarps);
  if (groups.size() <= group) groups.resize(group + 1);
  if (groups[group].size() <= products.issued) groups[group].resize(products.issued + 1);
  std::uint32_t& time = groups[group][products.issued];
  time = std::max(time, record_->now(warp) - 1);
}

/// What a warp of a warpgroup executes.
void BlockRunner::record_warpgroup_op(int warp, const WarpgroupOp& op) {
  using OpKind = WarpgroupOp::Kind;
  record_->begin_batch();
  const WarpProducts& products = warps_[warp].products;
  switch (op.kind) {
    case OpKind::kFence: return record_op(warp, record::Op::kProductFence, ~0u, op.pc);
    case OpKind::kProduct: return record_product(warp, op);
    case OpKind::kCommit:
      record_event_of_lanes({.kind = record::Kind::kCommit,
                             .warp = std::uint8_t(warp),
                             .lanes = ~0u,
                             .array = record_barrier(BarrierKind::kProducts, 0, warp * kWarpSize, op.pc),
                             .offset = products.group()},
                            op.pc);
      return;
    case OpKind::kWait: return record_product_wait(warp, products.covered(op.count), op.pc);
    case OpKind::kDecrease:
    case OpKind::kIncrease:
      record_go_on(warp, ~0u, BarrierKind::kWarp);
      return record_op(warp, record::Op::kRegisters, ~0u, op.pc, kNone, std::uint32_t(op.count));
  }
}

/// A wait for products ends.
void BlockRunner::record_product_wait(int warp, std::uint32_t covered, const void* pc) {
  const std::uint32_t number = record_barrier(BarrierKind::kProducts, 0, warp * kWarpSize, pc);
  record::BlockRecord::WarpState& state = record_->warp_states[std::size_t(warp)];
  if (state.waiting == 0) {
    record_event_of_lanes({.kind = record::Kind::kWait,
                           .warp = std::uint8_t(warp),
                           .lanes = ~0u,
                           .array = number,
                           .offset = covered - 1},
                          pc);
    state.waiting = ~0u;
  }
  record::Barrier& barrier = record_->barrier(number);
  barrier.complete = 0;
  for (const record::InFlight& product : state.products) {
    if (product.group >= covered) continue;
    const auto& times = record_->product_times[std::size_t(warp / kWarpgroupWarps)];
    barrier.complete = std::max(barrier.complete, times[product.number] + 1);
  }
  record_->go_on(warp, barrier.complete);
  std::erase_if(state.products, [&](const record::InFlight& product) {
    if (product.group >= covered) return false;
    record_event_of_lanes({.kind = record::Kind::kProductFinished,
                           .warp = std::uint8_t(warp),
                           .lanes = ~0u,
                           .link = product.event},
                          pc);
    return true;
  });
  record_go_on(warp, ~0u, BarrierKind::kProducts);
}

// --- defects

/// @param in_kernel  the access is about to be made: it is not in the log yet
void BlockRunner::record_defect(const FindingKey& key, const Example& example, bool in_kernel) {
  if (!record_->known_defects.insert(key).second) return;
  const auto number = std::uint32_t(record_->defects.size());
  record_->defects.push_back({key, example});
  const bool is_of_memory = key.bytes != 0 && key.space <= Space::kCluster;
  if (in_kernel && is_of_memory) {
    record_->waiting_defects.push_back({number});
    return;
  }
  const bool is_access = key.kind == DefectKind::kRace || key.kind == DefectKind::kMissingFence;
  const bool is_divergence = key.kind == DefectKind::kBarrierDivergence;
  std::uint32_t event = record_->find(sites_.of(key.pc), is_divergence ? -1 : example.thread / kWarpSize,
                                      is_access ? lanes_of(example.thread) : ~0u, kNone, 0);
  // What accesses no memory is no event of its own. This one becomes one, where its thread is.
  if (event == kNone && in_fiber_) {
    record_->waiting_defects.push_back({number, false, log_.latest()});
    return;
  }
  if (event == kNone && !is_access && !is_divergence) event = record_failed_access(key, example, false);
  tell_defect(number, event);
  if (!is_access || key.rival_pc == 0 || example.rival_block != linear_) return;
  std::uint32_t array = Event::kShared;
  std::uintptr_t begin = shared_base_;
  if (key.space == Space::kGlobal) {
    array = arena_.find(example.address, 1);
    begin = arena_.allocation(array).begin;
  }
  const bool is_copy = key.rival_access == AccessKind::kCopyIssue ||
                       key.rival_access == AccessKind::kAsyncRead ||
                       key.rival_access == AccessKind::kCopyLand;
  const std::uint32_t site = sites_.of(key.rival_pc);
  std::uint32_t rival = record_->find(site, example.rival_thread / kWarpSize, lanes_of(example.rival_thread),
                                      array, std::uint32_t(example.address - begin));
  if (rival == kNone && is_copy) rival = record_->find(site, -1, ~0u, kNone, 0);
  record_->defects[number].rival_event = rival;
}

/// A defect is complete. @param event  of the access; kNone if it was not made
void BlockRunner::tell_defect(std::uint32_t number, std::uint32_t event) {
  record::RecordedDefect& defect = record_->defects[number];
  defect.event = event;
  const int warp = event != kNone ? record_->events[event].warp : defect.example.thread / kWarpSize;
  record_->add({.kind = record::Kind::kDefect,
                .warp = std::uint8_t(warp),
                .site = sites_.of(defect.key.pc),
                .lanes = lanes_of(defect.example.thread),
                .array = number,
                .link = event,
                .time = event != kNone ? record_->events[event].time : record_->now(warp)});
}

/// An access has come out of the log: it may be one whose defect was found when it was made.
void BlockRunner::settle_defects(const WarpAccess& access, std::uint32_t event, std::uint32_t lanes,
                                 int warp) {
  std::erase_if(record_->waiting_defects, [&](const record::WaitingDefect& waiting) {
    if (!waiting.is_access) return false;
    const std::uint32_t number = waiting.number;
    const FindingKey& key = record_->defects[number].key;
    const Example& example = record_->defects[number].example;
    const int lane = example.thread % kWarpSize;
    const bool is_it = key.pc == access.key.pc() && example.thread / kWarpSize == warp &&
                       (lanes >> lane & 1) != 0 &&
                       example.address - access.addresses[std::size_t(lane)] < access.key.size();
    if (is_it) tell_defect(number, event);
    return is_it;
  });
}

/// Records the defects of a warp's threads that access no memory, up to an access in the log.
void BlockRunner::settle_defects_before(int access, int warp) {
  std::erase_if(record_->waiting_defects, [&](const record::WaitingDefect& waiting) {
    const record::RecordedDefect& defect = record_->defects[waiting.number];
    if (waiting.is_access || waiting.after >= access || defect.example.thread / kWarpSize != warp)
      return false;
    tell_defect(waiting.number, record_failed_access(defect.key, defect.example));
    return true;
  });
}

/// The warp's log is empty: the defects that are left are those of accesses that were not made. Records them
/// nevertheless.
void BlockRunner::flush_defects(int warp) {
  std::erase_if(record_->waiting_defects, [&](const record::WaitingDefect& waiting) {
    const record::RecordedDefect& defect = record_->defects[waiting.number];
    if (defect.example.thread / kWarpSize != warp) return false;
    tell_defect(waiting.number, record_failed_access(defect.key, defect.example));
    return true;
  });
}

/// Records what has no event: an access that was not made, a use of a register, an instruction that failed.
/// @param by_thread  it was found when a thread was at it, not when its warp was
std::uint32_t BlockRunner::record_failed_access(const FindingKey& key, const Example& example,
                                                bool by_thread) {
  const bool is_access = key.kind == DefectKind::kOutOfBounds || key.kind == DefectKind::kMisaligned;
  if (key.bytes != 0 && key.space == Space::kCluster) return kNone;
  const int warp = example.thread / kWarpSize;
  if (!is_access || key.bytes == 0 || !example.detail.empty() || key.space > Space::kCluster) {
    const bool is_index = is_access && !example.detail.empty();
    const bool is_local =
        key.space > Space::kCluster || (by_thread && (is_index || key.kind == DefectKind::kWgmma));
    return record_->add({.kind = record::Kind::kOp,
                         .flags = std::uint8_t(is_local ? record::Op::kLocalUse : record::Op::kFailed),
                         .warp = std::uint8_t(warp),
                         .site = sites_.of(key.pc),
                         .lanes = lanes_of(example.thread),
                         .time = record_->take_time(warp)});
  }
  std::uint32_t array = Event::kShared;
  std::uintptr_t begin = shared_base_;
  if (key.space == Space::kLocal) return kNone;
  if (key.space == Space::kGlobal) {
    array = arena_.contains(example.address) ? arena_.nearest(example.address) : 0;
    if (array == 0) return kNone;
    begin = arena_.allocation(array).begin;
  }
  return record_->add({.kind = record::Kind::kAccess,
                       .flags = key.access == AccessKind::kRead     ? record::kRead
                                : key.access == AccessKind::kAtomic ? record::kAtomic
                                                                    : record::kWrite,
                       .warp = std::uint8_t(warp),
                       .site = sites_.of(key.pc),
                       .lanes = lanes_of(example.thread),
                       .array = array,
                       .pattern = record_->pattern({.size = key.bytes}),
                       .offset = std::uint32_t(example.address - begin),
                       .time = record_->take_time(warp)});
}

}  // namespace gpusim
