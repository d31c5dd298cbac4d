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
  record_->shared_begin = shared_base_;
  record_->variables.clear();
  for (const StaticVariable& v : variables_) {
    if (!v.touched || v.bytes == 0 || v.is_index) continue;
    record_->variables.push_back({v.name, v.name, std::uint32_t(v.offset), std::uint32_t(v.bytes), {}, 0, 0});
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
  Event event{.kind = record::Kind::kAccess,
              .warp = std::uint8_t(warp),
              .site = sites_.of(key.pc()),
              .time = record_->take_time(warp)};
  event.flags = key.kind() == AccessKind::kRead     ? record::kRead
                : key.kind() == AccessKind::kWrite  ? record::kWrite
                : key.kind() == AccessKind::kAtomic ? record::kAtomic
                                                    : record::kCopyAsync;
  record::BlockRecord::WarpState& state = record_->warp_states[std::size_t(warp)];
  if (key.kind() == AccessKind::kCopyIssue && state.copy_read != kNone) {
    if (record_->events[state.copy_read].site == event.site)
      event.link = std::exchange(state.copy_read, kNone);
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
    if (key.kind() == AccessKind::kRead && array < Event::kOfBlock) state.copy_read = number;
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

/// A store of what a load of the same warp has just brought: links the two. The log is processed when the lanes have gone on,
/// so a load or store whose bytes have been written again is not recognised.
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

void BlockRunner::record_op(int warp, record::Op op, std::uint32_t lanes, const void* pc,
                            std::uint32_t array) {
  record_->begin_batch();
  record_event_of_lanes({.kind = record::Kind::kOp,
                         .flags = std::uint8_t(op),
                         .warp = std::uint8_t(warp),
                         .lanes = lanes,
                         .array = array},
                        pc);
}

/// An operation of the warp is complete.
void BlockRunner::record_warp_op(int warp, const Thread& leader, std::uint32_t lanes) {
  using device::WarpOp;
  const void* const pc = leader.sync_pc;
  if (leader.op < WarpOp::kWarpgroup) record_go_on(warp, lanes, record_->now(warp), BarrierKind::kWarp, pc);
  switch (leader.op) {
    case WarpOp::kSync: return record_op(warp, record::Op::kSyncWarp, lanes, pc);
    case WarpOp::kShuffle: return record_op(warp, record::Op::kShuffle, lanes, pc);
    case WarpOp::kVote: return record_op(warp, record::Op::kVote, lanes, pc);
    case WarpOp::kElect: return record_op(warp, record::Op::kElect, lanes, pc);
    case WarpOp::kMma: {
      const auto type = static_cast<const MmaOperand*>(leader.operand)->type;
      return record_op(warp, record::Op::kMma, lanes, pc, record_->product({.m = 16, .n = 8, .type = type}));
    }
    case WarpOp::kMatrixLoad: {
      const std::uint32_t site = sites_.of(reinterpret_cast<std::uintptr_t>(pc));
      const bool transposed = static_cast<const MatrixOperand*>(leader.operand)->transposed;
      for (auto event = record_->events.rbegin(); event != record_->events.rend(); ++event) {
        if (event->warp != warp || event->site != site) continue;
        event->flags = transposed ? record::kTransposedMatrixRead : record::kMatrixRead;
        return;
      }
      return;
    }
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
      case State::kWarpSync:
        if (t.op != device::WarpOp::kWarpgroupWait) {
          record_wait(t, BarrierKind::kWarp, reinterpret_cast<std::uintptr_t>(t.sync_pc));
        }
        break;
      case State::kReady:
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
  if (event != kNone) barrier.gathered = std::max(barrier.gathered, record_->events[event].time);
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

/// Those of these lanes that wait go on, at this time or later.
void BlockRunner::record_go_on(int warp, std::uint32_t lanes, std::uint32_t time, BarrierKind kind,
                               const void* pc) {
  record::BlockRecord::WarpState& state = record_->warp_states[std::size_t(warp)];
  lanes &= state.waiting;
  if (lanes == 0) return;
  state.waiting &= ~lanes;
  record_->go_on(warp, time);
  // The barrier and its phase are those of the wait.
  for (std::size_t i = record_->events.size(); i-- > 0 && lanes != 0;) {
    const Event wait = record_->events[i];
    if (wait.kind != record::Kind::kWait || wait.warp != warp || (wait.lanes & lanes) == 0) continue;
    if (record_->barrier(wait.array).kind != kind) continue;
    record_->begin_batch();
    record_event_of_lanes({.kind = record::Kind::kGoOn,
                           .warp = std::uint8_t(warp),
                           .lanes = wait.lanes & lanes,
                           .array = wait.array,
                           .offset = wait.offset},
                          pc);
    lanes &= ~wait.lanes;
  }
}

/// A __syncthreads() is complete.
void BlockRunner::record_block_barrier(const void* pc) {
  const std::uint32_t number = record_barrier(BarrierKind::kBlock, 0, 0, pc);
  const std::uint32_t time = record_->barrier(number).gathered + 1;
  for (int w = 0; w < warp_count_; ++w) record_go_on(w, warps_[w].live, time, BarrierKind::kBlock, pc);
  record_->barrier(number).gathered = 0;
  ++record_->barrier(number).phase;
}

}  // namespace gpusim
