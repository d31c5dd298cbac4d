#include "gpusim/runtime/cluster.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "gpusim/runtime/ending.hpp"
#include "gpusim/runtime/host_memory.hpp"

namespace gpusim {

CpuThread::CpuThread()
    : thread_([this] {
        const HostRuntime runtime;
        give_signals_a_stack();
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
  if (std::any_of(blocks_.begin(), blocks_.end(), [](const auto* block) { return block->expects_clocks_; }))
    start_clocks(false);
  const auto runs = [](const BlockRunner* block) { return block->live_ > 0; };
  while (std::any_of(blocks_.begin(), blocks_.end(), runs)) {
    bool progress = false;
    for (int rank = 0; rank < size; ++rank) {
      if (!runs(blocks_[rank])) continue;
      on_thread_of(rank, [&] { progress |= blocks_[rank]->go_on(); });
      if (blocks_[rank]->trapped_) return give_up();
    }
    progress |= open_barrier();
    for (std::size_t rank = 0; !progress && rank < blocks_.size(); ++rank)
      progress = blocks_[rank]->end_tries();
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

/// Whether a use comes before the end of a phase: its thread has arrived after it, or another thread of its
/// block has arrived after a __syncthreads() that came after it. A relaxed arrival does not count.
bool Cluster::released(const ClusterUse& use, std::uint32_t phase) const {
  const BlockRunner& block = *blocks_[use.rank()];
  for (std::uint32_t p = use.arrived + 1; p <= phase; ++p)
    if (block.threads_[use.thread % kMaxThreads].cluster.releases_in(p)) return true;
  const std::vector<std::uint32_t>& epochs = block.released_;
  return use.epoch < epochs[std::min<std::size_t>(phase, epochs.size() - 1)];
}

bool Cluster::ordered(const ClusterUse& earlier, const BlockRunner& block, int thread) const {
  if (released(earlier, std::max(block.threads_[thread].cluster.waited, block.known_phases_))) return true;
  if (earlier.tick == 0 || !block.has_clocks_) return false;
  const auto in_block = std::uint16_t(earlier.thread % kMaxThreads);
  const std::size_t first = block.clocks_.first_of(earlier.rank());
  return earlier.reads() ? block.clocks_.knows_read(thread, in_block, earlier.tick, first)
                         : block.clocks_.knows(thread, in_block, earlier.tick, first);
}

void Cluster::start_clocks(bool late) {
  gathered_.clear();
  complete_.clear();
  const int size = int(blocks_.size());
  for (int rank = 0; rank < size; ++rank) blocks_[rank]->start_own_clocks(size, rank);
  if (!late) return;
  // Nobody has recorded who knows what until now: what comes before is taken to be known to the other blocks.
  for (BlockRunner* block : blocks_) {
    for (const BlockRunner* other : blocks_) {
      if (other == block) continue;
      const std::size_t first = block->clocks_.first_of(other->rank_);
      for (int i = 0; i < block->thread_count_; ++i) {
        std::uint32_t* const row = block->clocks_.row(i) + first;
        for (int j = 0; j < other->thread_count_; ++j) row[j] = other->warps_[j / kWarpSize].clock.tick + 1;
      }
    }
  }
  for (BlockRunner* block : blocks_) {
    for (int w = 0; w < block->warp_count_; ++w) ++block->warps_[w].clock.tick;
  }
}

std::uint16_t Cluster::new_sequence(Sequence sequence) {
  std::uint16_t number = 0;
  for (BlockRunner* block : blocks_) {
    block->sequences_.push_back(sequence);
    number = block->clocks_.new_sequence();
  }
  return number;
}

void Cluster::release(BlockRunner& block, int thread) { block.release(thread, gathered_); }

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

/// Completes the next phase of the barrier if it can, and lets the threads go on that wait for a complete
/// one.
bool Cluster::open_barrier() {
  const bool complete = is_complete();
  if (complete) {
    ++completed_;
    complete_ = gathered_;
  }
  bool progress = complete;
  std::uint32_t time = 0;
  for (const BlockRunner* block : blocks_) {
    if (complete && block->record_ != nullptr) time = std::max(time, block->cluster_arrival());
  }
  for (BlockRunner* block : blocks_) {
    if (complete) {  // among its own threads, it counts as a __syncthreads() when it completes
      if (block->has_clocks_) block->passed_block_barrier();
      ++block->epoch_;
    }
    for (int i = 0; i < block->thread_count_; ++i) {
      BlockRunner::Thread& t = block->threads_[i];
      if (t.state != BlockRunner::State::kClusterSync || t.cluster.arrived > completed_) continue;
      t.state = BlockRunner::State::kReady;
      t.cluster.waited = t.cluster.arrived;
      if (block->has_clocks_) block->acquire(i, complete_);
      block->idle_rounds_ = 0;
      progress = true;
    }
    if (block->record_ != nullptr)
      block->record_cluster_barrier(complete ? std::optional(time) : std::nullopt);
  }
  return progress;
}

std::string Cluster::arrivals() const {
  int arrived = 0, threads = 0;
  for (const BlockRunner* block : blocks_) {
    threads += block->thread_count_;
    arrived += int(std::count_if(
        block->threads_.begin(), block->threads_.begin() + block->thread_count_, [&](const auto& t) {
          return t.cluster.arrived > completed_ && t.state != BlockRunner::State::kDone;
        }));
  }
  return std::to_string(arrived) + " of " + std::to_string(threads) + " threads of the cluster have arrived";
}

/// No thread of the cluster can continue, and some of them wait for an mbarrier. @return  whether this is so
bool Cluster::report_deadlock() {
  const auto waits = [](const BlockRunner* block) {
    return std::any_of(block->threads_.begin(), block->threads_.begin() + block->thread_count_,
                       [](const auto& t) { return t.state == BlockRunner::State::kMbarrier; });
  };
  const auto at = std::find_if(blocks_.begin(), blocks_.end(), waits);
  if (blocks_.size() == 1 || at == blocks_.end()) return false;
  BlockRunner& first = **at;
  Example found;
  found.message = {"Barrier error detected. Deadlock in the cluster that begins with " +
                   blocks_[0]->block_name() + ": no thread can go on"};
  for (const BlockRunner* block : blocks_) {
    for (Piece& piece : block->where_threads_are(" of " + block->block_name()))
      found.message.push_back(std::move(piece));
  }
  BlockRunner::Thread& waiting = first.most_awaited(0, first.thread_count_, BlockRunner::State::kMbarrier);
  on_thread_of(first.rank_, [&] { first.add_divergence(&waiting, waiting.sync_pc, std::move(found)); });
  return true;
}

/// No thread of the cluster can continue.
void Cluster::report_divergence() {
  if (report_deadlock()) return;
  using State = BlockRunner::State;
  for (BlockRunner* block : blocks_) {  // a warp whose lanes went different ways keeps all others waiting
    if (block->divided_warp() != nullptr)
      return on_thread_of(block->rank_, [&] { block->report_divergence(); });
  }
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
  for (BlockRunner* owner : blocks_) {
    std::uint32_t waited = 0;  // the block has not ended before this phase did
    for (int i = 0; i < owner->thread_count_; ++i)
      waited = std::max(waited, owner->threads_[i].cluster.waited);
    for (const RemoteUse& use : owner->remote_uses_) {
      const bool is_over = (!use.completion && released(use.use, waited)) || has_waited_for(*owner, use);
      if (!is_over) blocks_[use.use.rank()]->found_ended(use, *owner);
    }
    owner->find_unread_sources();
  }
}

/// Whether a thread of the block has learned that an access to its memory is over.
bool Cluster::has_waited_for(const BlockRunner& owner, const RemoteUse& use) {
  if (!owner.has_clocks_ || use.use.tick == 0) return false;
  const ThreadClocks& clocks = owner.clocks_;
  const auto thread = std::uint16_t(use.use.thread % kMaxThreads);
  const std::size_t first = clocks.first_of(use.use.rank());
  const auto is_known_by = [&](int i) {
    if (use.completion) return clocks.knows(i, use.completion->sequence, use.completion->number);
    return use.is_arrival || use.use.reads() ? clocks.knows_read(i, thread, use.use.tick, first)
                                             : clocks.knows(i, thread, use.use.tick, first);
  };
  for (int i = 0; i < owner.thread_count_; ++i)
    if (is_known_by(i)) return true;
  return false;
}

}  // namespace gpusim
