/// @file
/// A block of a cluster: its turns, its calls, and its accesses to the shared memory of the others.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

#include "gpusim/runtime/block.hpp"
#include "gpusim/runtime/cluster.hpp"
#include "gpusim/runtime/cost.hpp"
#include "gpusim/runtime/sites.hpp"

namespace gpusim {

void BlockRunner::start(Cluster& cluster, int rank, std::uint64_t linear, std::uint32_t number) {
  cluster_ = &cluster;
  rank_ = rank;
  known_phases_ = 0;
  released_.assign(1, 0);
  remote_shadows_.resize(cluster.blocks().size());
  if (!cluster_shadow_) cluster_shadow_ = std::make_unique<ClusterShadow>(shared_bytes_ / 4 + 4);
  cluster_shadow_->clear();
  remote_uses_.clear();
  source_uses_.clear();
  begin_block(linear, number);
}

bool BlockRunner::go_on() {
  bool any = false;
  yields_ = false;
  while (live_ > 0 && !trapped_ && !yields_) {
    if (!run_warps()) break;
    any = true;
  }
  if (any && live_ == 0 && !trapped_) finish_block();
  return any;
}

// --- inside a fiber

int BlockRunner::cluster_rank(const void* pc) {
  require(90, "%cluster_ctarank", pc);
  return cluster_ != nullptr ? rank_ : 0;
}

void BlockRunner::cluster_arrive(bool relaxed, const void* pc) {
  require_cluster("barrier.cluster", pc);
  const ClusterClock& clock = current_->cluster;
  if (clock.arrived != clock.waited)
    misuse_cluster("arrives at the cluster's barrier a second time without a wait in between", pc);
  warp_rendezvous(~0u, relaxed ? device::WarpOp::kClusterArriveRelaxed : device::WarpOp::kClusterArrive,
                  nullptr, nullptr, pc);
}

void BlockRunner::cluster_wait(const void* pc) {
  require_cluster("barrier.cluster", pc);
  const ClusterClock& clock = current_->cluster;
  if (clock.arrived == clock.waited)
    misuse_cluster("waits at the cluster's barrier without having arrived", pc);
  warp_rendezvous(~0u, device::WarpOp::kClusterWait, nullptr, nullptr, pc);
}

void* BlockRunner::map_shared_rank(const void* shared, int rank, const void* pc) {
  require_cluster("mapa", pc);
  const auto address = reinterpret_cast<std::uintptr_t>(shared);
  if (!is_shared(shared)) trap(DefectKind::kOutOfBounds, Space::kShared, address, 1, AccessKind::kRead, pc);
  const int size = int(cluster_->blocks().size());
  if (rank >= 0 && rank < size)
    return reinterpret_cast<void*>(address - shared_base_ + cluster_->blocks()[rank]->shared_base_);
  const FindingKey key{.kind = DefectKind::kOutOfBounds, .pc = reinterpret_cast<std::uintptr_t>(pc)};
  found(key, [&](Example& e) {
    fill(e, current_->linear, Space::kShared, address);
    e.index = rank;
    e.detail = size == 1
                   ? "the cluster has 1 block, 0"
                   : "the cluster has " + std::to_string(size) + " blocks, 0 to " + std::to_string(size - 1);
  });
  stop();
}

void BlockRunner::require_cluster(const char* instruction, const void* pc) {
  require(90, instruction, pc);
  if (cluster_ != nullptr) return;
  const FindingKey key{.kind = DefectKind::kUnsupported, .pc = reinterpret_cast<std::uintptr_t>(pc)};
  found(key, [&](Example& e) {
    fill(e, current_->linear, Space::kShared, shared_base_);
    e.detail = std::string(instruction) +
               " in a launch without clusters: the simulator needs cudaLaunchAttributeClusterDimension";
  });
  stop();
}

void BlockRunner::misuse_cluster(const std::string& how, const void* pc) {
  {
    const OutsideKernel outside;
    Example found;
    found.detail = "Thread " + triple(current_->index) + " in " + block_name() + " " + how + ": it has";
    add_divergence(nullptr, pc, std::move(found));
  }
  stop();
}

int BlockRunner::rank_of_shared(const void* address) const {
  if (cluster_ == nullptr) return 0;
  const BlockRunner* const owner = cluster_->owner_of(reinterpret_cast<std::uintptr_t>(address));
  return owner != nullptr ? owner->rank_ : rank_;
}

void BlockRunner::sync_grid(const void* pc) {
  if (!launch_->cooperative)
    refuse(
        "a barrier of the grid in a launch that is not cooperative: it needs cudaLaunchCooperativeKernel()",
        pc);
  Thread& t = *current_;
  t.state = State::kGridSync;
  t.sync_pc = pc;
  t.mask = 0;
  suspend();
}

// --- when all threads of a grid are there

/// @param number  of the block from here on: see ResidentGrid
void BlockRunner::pass_grid_barrier(std::uint32_t number) {
  for (int i = 0; i < thread_count_; ++i) {
    Thread& t = threads_[i];
    if (t.state == State::kGridSync) t.state = State::kReady;
  }
  for (int w = 0; w < warp_count_; ++w) tally.ops.barriers += warps_[w].live != 0;
  if (has_clocks_) passed_block_barrier();
  number_ = number;
  block_epoch_ = ++epoch_;
  idle_rounds_ = 0;
  arrivals_.clear();
  global_shadow_.next_block();
}

// --- when all lanes of a warp are there

void BlockRunner::note_cluster(device::WarpOp op, std::uint32_t lanes, int warp) {
  if (op != device::WarpOp::kClusterWait) ++tally.ops.cluster_barriers;
  if (op != device::WarpOp::kClusterWait && record_ != nullptr) record_cluster_arrival(warp, lanes);
  const bool releases = has_clocks_ && op == device::WarpOp::kClusterArrive;
  for (; lanes != 0; lanes &= lanes - 1) {
    Thread& t = threads_[warp * kWarpSize + std::countr_zero(lanes)];
    if (releases) cluster_->release(*this, t.linear);
    if (op == device::WarpOp::kClusterWait) {
      t.state = State::kClusterSync;
      t.mask = 0;
      continue;
    }
    const std::uint32_t phase = ++t.cluster.arrived;
    if (released_.size() <= phase) released_.resize(phase + 1, released_.back());
    if (op == device::WarpOp::kClusterArriveRelaxed) {
      t.cluster.relaxed.push_back(phase);
    } else {
      released_[phase] = std::max(released_[phase], epoch_);
    }
  }
  if (releases) ++warps_[warp].clock.tick;
}

// --- when the log is processed

std::uintptr_t BlockRunner::in_own_memory(std::uintptr_t address, const BlockRunner& owner) const {
  return address - owner.shared_base_ + shared_base_;
}

void BlockRunner::count_remote(const WarpAccess& access) {
  const std::uintptr_t first = access.addresses[std::countr_zero(access.lanes)];
  BlockRunner& owner = *cluster_->owner_of(first);
  for (BlockRunner* block : {this, &owner})
    block->variables_[variable_of_word_[(first - owner.shared_base_) / 4]].touched = true;
  ++tally.shared.remote_requests;
  tally.shared.remote_bytes += global_cost(access.addresses, access.lanes, access.key.size()).bytes;
}

void BlockRunner::find_remote_races(InstructionKey key, std::uintptr_t address, std::uint32_t lanes,
                                    const Actor& actor) {
  BlockRunner& owner = *cluster_->owner_of(address);
  std::unique_ptr<RaceShadow>& shadow = remote_shadows_[owner.rank_];
  if (!shadow) shadow = std::make_unique<RaceShadow>(shared_bytes_ / 4 + 4);
  shadow->access(
      address - owner.shared_base_, key.size(), lanes, actor,
      [&](int lane, const Rival& rival) { found_race(key, address, actor, lane, rival); },
      [](std::size_t, std::size_t, int) {}, [](std::size_t) {});
  find_cluster_races(key, address, lanes, actor, owner);

  const int thread = actor.warp * kWarpSize + std::countr_zero(lanes);
  const RemoteUse use{.pc = reinterpret_cast<const void*>(key.pc()),
                      .address = address,
                      .size = key.size(),
                      .use = {.epoch = actor.epoch,
                              .arrived = threads_[thread].cluster.arrived,
                              .tick = has_clocks_ ? actor.clock->tick : 0,
                              .thread = std::uint16_t(rank_ * kMaxThreads + thread),
                              .site = actor.site,
                              .kind = key.kind()}};
  add_remote_use(owner, use);
}

/// An access by this block to the shared memory of a block of the cluster: finds the accesses of others that
/// may come at the same time.
void BlockRunner::find_cluster_races(InstructionKey key, std::uintptr_t address, std::uint32_t lanes,
                                     const Actor& actor, BlockRunner& owner) {
  for (; lanes != 0; lanes &= lanes - 1) {
    const int thread = actor.warp * kWarpSize + std::countr_zero(lanes);
    const ClusterUse use{.epoch = actor.epoch,
                         .arrived = threads_[thread].cluster.arrived,
                         .tick = has_clocks_ ? actor.clock->tick : 0,
                         .thread = std::uint16_t(rank_ * kMaxThreads + thread),
                         .site = actor.site,
                         .kind = key.kind()};
    owner.cluster_shadow_->access(
        address - owner.shared_base_, key.size(), use,
        [&](const ClusterUse& earlier) { return cluster_->ordered(earlier, *this, thread); },
        [&](const ClusterUse& rival) { found_cluster_race(key, address, thread, rival); });
  }
}

void BlockRunner::found_cluster_race(InstructionKey instruction, std::uintptr_t address, int thread,
                                     const ClusterUse& rival) {
  const FindingKey key{.kind = DefectKind::kRace,
                       .pc = instruction.pc(),
                       .rival_pc = pc_of_site(rival.site),
                       .access = instruction.kind(),
                       .rival_access = rival.kind,
                       .space = Space::kShared,
                       .bytes = std::uint8_t(instruction.size())};
  found(key, [&](Example& e) {
    fill(e, thread, instruction.space(), address);
    e.rival_thread = rival.thread % kMaxThreads;
    e.rival_block = cluster_->block_number(rival.rank());
    if (e.note.empty()) e.note = " in " + block_name();
  });
}

/// An access to the shared memory of a block that may have ended.
void BlockRunner::found_ended(const RemoteUse& use, const BlockRunner& owner) {
  const FindingKey key{.kind = DefectKind::kOutOfBounds,
                       .pc = reinterpret_cast<std::uintptr_t>(use.pc),
                       .access = use.use.kind,
                       .space = Space::kCluster,
                       .bytes = std::uint8_t(use.size)};
  found(key, [&](Example& e) {
    fill(e, use.use.thread % kMaxThreads, Space::kCluster, use.address);
    e.note = " in " + owner.block_name() +
             ", which may have ended: it does not wait at a barrier of the cluster " +
             (has_clocks_ ? "or for an mbarrier until this access is over" : "for this access");
  });
}

}  // namespace gpusim
