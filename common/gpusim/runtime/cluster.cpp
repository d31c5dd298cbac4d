#include "gpusim/runtime/cluster.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

namespace gpusim {

CpuThread::CpuThread()
    : thread_([this] {
        std::unique_lock lock(mutex_);
        for (;;) {
          changed_.wait(lock, [this] { return stop_ || work_ != nullptr; });
          if (work_ == nullptr) return;
          (*work_)();
          work_ = nullptr;
          changed_.notify_all();
        }
      }) {}

CpuThread::~CpuThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CpuThread::run(const std::function<void()>& work) {
  std::unique_lock lock(mutex_);
  work_ = &work;
  changed_.notify_all();
  changed_.wait(lock, [this] { return work_ == nullptr; });
}

std::uint64_t block_in_grid(const Dim3& grid, const Dim3& cluster, std::uint64_t cluster_index, int rank) {
  const Dim3 clusters{grid.x / cluster.x, grid.y / cluster.y, grid.z / cluster.z};
  const Dim3 at = clusters.at(cluster_index);
  const Dim3 in = cluster.at(std::uint64_t(rank));
  const std::uint64_t x = std::uint64_t(at.x) * cluster.x + in.x;
  const std::uint64_t y = std::uint64_t(at.y) * cluster.y + in.y;
  const std::uint64_t z = std::uint64_t(at.z) * cluster.z + in.z;
  return x + grid.x * (y + grid.y * z);
}

void Cluster::on_thread_of(int rank, const std::function<void()>& work) {
  if (rank == 0) {
    work();
  } else {
    helpers_[rank - 1]->thread.run(work);
  }
}

void Cluster::begin_launch(const device::Launch& launch) {
  grid_ = {launch.grid.x, launch.grid.y, launch.grid.z};
  dim_ = {launch.cluster.x, launch.cluster.y, launch.cluster.z};
  const int size = int(dim_.volume());
  blocks_.resize(1);
  for (int rank = 0; rank < size; ++rank) {
    if (rank > int(helpers_.size())) helpers_.push_back(std::make_unique<Helper>());
    on_thread_of(rank, [&] {
      if (rank > 0) {
        std::unique_ptr<BlockRunner>& runner = helpers_[rank - 1]->runner;
        if (!runner) runner = std::make_unique<BlockRunner>();
        blocks_.push_back(runner.get());
      }
      blocks_[rank]->begin_launch(launch);
    });
  }
}

void Cluster::run(std::uint64_t index, std::uint32_t number) {
  index_ = index;
  completed_ = 0;
  const int size = int(blocks_.size());
  for (int rank = 0; rank < size; ++rank)
    on_thread_of(rank, [&] { blocks_[rank]->start(*this, rank, block_number(rank), number); });
  const auto runs = [](const BlockRunner* block) { return block->live_ > 0; };
  while (std::any_of(blocks_.begin(), blocks_.end(), runs)) {
    bool progress = false;
    for (int rank = 0; rank < size; ++rank) {
      if (!runs(blocks_[rank])) continue;
      on_thread_of(rank, [&] { progress |= blocks_[rank]->go_on(); });
      if (blocks_[rank]->trapped_) return give_up();
    }
    progress |= open_barrier();
    if (!progress) {
      report_divergence();
      return give_up();
    }
  }
  find_ended();
}

void Cluster::give_up() {
  for (BlockRunner* block : blocks_) block->abandon();
}

BlockRunner* Cluster::owner_of(std::uintptr_t address) const {
  for (BlockRunner* block : blocks_) {
    if (address - block->shared_base_ < block->shared_bytes_) return block;
  }
  return nullptr;
}

/// Whether a use comes before the end of a phase: its thread has arrived after it, or another thread of its block has
/// arrived after a __syncthreads() that came after it. A relaxed arrival does not count.
bool Cluster::released(const ClusterUse& use, std::uint32_t phase) const {
  const BlockRunner& block = *blocks_[use.rank()];
  for (std::uint32_t p = use.arrived + 1; p <= phase; ++p)
    if (block.threads_[use.thread % kMaxThreads].cluster.releases_in(p)) return true;
  const std::vector<std::uint32_t>& epochs = block.released_;
  return use.epoch < epochs[std::min<std::size_t>(phase, epochs.size() - 1)];
}

bool Cluster::ordered(const ClusterUse& earlier, const BlockRunner& block, int thread) const {
  return released(earlier, std::max(block.threads_[thread].cluster.waited, block.known_phases_));
}

/// Whether every thread of the cluster has arrived in the next phase, or has returned before it came there.
bool Cluster::is_complete() const {
  const std::uint32_t phase = completed_ + 1;
  const BlockRunner::Thread* waiting = nullptr;
  bool arrived = false;
  for (const BlockRunner* block : blocks_) {
    for (int i = 0; i < block->thread_count_; ++i) {
      const BlockRunner::Thread& t = block->threads_[i];
      if (t.state == BlockRunner::State::kDone) continue;
      if (t.cluster.arrived < phase) return false;
      arrived = true;
      if (t.state == BlockRunner::State::kClusterSync) waiting = &t;
    }
  }
  if (waiting == nullptr) return arrived;
  return std::none_of(blocks_.begin(), blocks_.end(), [&](const BlockRunner* block) {
    return std::any_of(block->threads_.begin(), block->threads_.begin() + block->thread_count_,
                       [&](const BlockRunner::Thread& t) {
                         return t.cluster.arrived < phase && block->went_past(t, *waiting);
                       });
  });
}

/// Completes the next phase of the barrier if it can, and lets the threads go on that wait for a complete one.
bool Cluster::open_barrier() {
  const bool complete = is_complete();
  if (complete) ++completed_;
  bool progress = complete;
  std::uint32_t time = 0;
  for (const BlockRunner* block : blocks_) {
    if (complete && block->record_ != nullptr) time = std::max(time, block->cluster_arrival());
  }
  for (BlockRunner* block : blocks_) {
    if (complete) ++block->epoch_;  // among its own threads, it counts as a __syncthreads() when it completes
    for (int i = 0; i < block->thread_count_; ++i) {
      BlockRunner::Thread& t = block->threads_[i];
      if (t.state != BlockRunner::State::kClusterSync || t.cluster.arrived > completed_) continue;
      t.state = BlockRunner::State::kReady;
      t.cluster.waited = t.cluster.arrived;
      block->idle_rounds_ = 0;
      progress = true;
    }
    if (block->record_ != nullptr)
      block->record_cluster_barrier(complete ? std::optional(time) : std::nullopt);
  }
  return progress;
}

/// No thread of the cluster can continue.
void Cluster::report_divergence() {
  using State = BlockRunner::State;
  const auto waits = [](const BlockRunner* block) {
    return std::any_of(block->threads_.begin(), block->threads_.begin() + block->thread_count_,
                       [](const auto& t) { return t.state == State::kClusterSync; });
  };
  const auto at = std::find_if(blocks_.begin(), blocks_.end(), waits);
  if (at == blocks_.end()) {
    for (BlockRunner* block : blocks_) {
      if (block->live_ == 0) continue;
      return on_thread_of(block->rank_, [&] { block->report_divergence(); });
    }
    return;
  }
  BlockRunner& first = **at;
  BlockRunner::Thread& waiting = first.most_awaited(0, first.thread_count_, State::kClusterSync);
  Example found;
  std::size_t arrived = 0;
  std::uintptr_t rival_pc = 0;
  const auto add = [&](const BlockRunner& block) {
    for (Group& group : block.groups(0, block.thread_count_, waiting)) {
      if (group.members.empty()) continue;
      if (group.where == block.whereabouts(waiting, waiting)) {
        arrived += group.members.size();
      } else if (rival_pc == 0 && group.where.state == Whereabouts::State::kWaits) {
        rival_pc = group.where.pc;
      }
      group.of = " of " + block.block_name();
      found.groups.push_back(std::move(group));
    }
  };
  add(first);  // its first group is where the report is about
  for (const BlockRunner* block : blocks_) {
    if (block != &first) add(*block);
  }
  const std::size_t threads = blocks_.size() * std::size_t(first.thread_count_);
  found.detail = "Divergent thread(s) in the cluster that begins with " + blocks_[0]->block_name() + ": " +
                 std::to_string(arrived) + " of " + std::to_string(threads) + " threads";
  on_thread_of(first.rank_,
               [&] { first.add_divergence(&waiting, waiting.sync_pc, std::move(found), rival_pc); });
}

/// After the last thread has ended: finds accesses to shared memory of a block that may have ended before.
void Cluster::find_ended() {
  for (const BlockRunner* owner : blocks_) {
    std::uint32_t waited = 0;  // the block has not ended before this phase did
    for (int i = 0; i < owner->thread_count_; ++i)
      waited = std::max(waited, owner->threads_[i].cluster.waited);
    for (const RemoteUse& use : owner->remote_uses_) {
      if (!released(use.use, waited)) blocks_[use.use.rank()]->found_ended(use, *owner);
    }
  }
}

}  // namespace gpusim
