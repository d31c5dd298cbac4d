/// @file
/// Thread-block clusters. Each block of a cluster has a BlockRunner on a CPU thread of its own, because its
/// shared memory is in that thread's TLS. But only one of these threads runs at any moment: the blocks take
/// turns, from one barrier of the cluster to the next.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gpusim/runtime/block.hpp"

namespace gpusim {

/// A CPU thread that does what it is told, while the caller waits.
class CpuThread {
 public:
  CpuThread();
  ~CpuThread();
  CpuThread(const CpuThread&) = delete;

  void run(const std::function<void()>& work);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* work_ = nullptr;
  bool stop_ = false;
  std::thread thread_;
};

/// The number in the grid of a block of a cluster. @param cluster  blocks in each direction
std::uint64_t block_in_grid(const Dim3& grid, const Dim3& cluster, std::uint64_t cluster_index, int rank);

/// Runs the clusters given to it, one after the other.
class Cluster {
 public:
  /// @param first  runs the blocks of rank 0, on the CPU thread that calls run()
  explicit Cluster(BlockRunner& first) : blocks_{&first} {}

  void begin_launch(const device::Launch& launch);
  /// @param number  of the cluster, unique among the blocks and clusters of all launches; `index` is that in
  ///   this grid
  void run(std::uint64_t index, std::uint32_t number);

  /// The runners of the current launch, by rank.
  const std::vector<BlockRunner*>& blocks() const { return blocks_; }
  std::uint64_t index() const { return index_; }
  std::uint64_t block_number(int rank) const { return block_in_grid(grid_, dim_, index_, rank); }

  /// The block of the cluster whose shared memory contains the address; null if there is none.
  BlockRunner* owner_of(std::uintptr_t address) const;

  /// Whether an earlier access comes before what a thread of another block does now.
  bool ordered(const ClusterUse& earlier, const BlockRunner& block, int thread) const;

  /// From now on, all blocks have clocks, with the same numbers of components.
  /// @param late  some of them have begun already
  void start_clocks(bool late);
  std::uint16_t new_sequence(Sequence sequence);
  /// How far the cluster's barrier is: "24 of 256 threads of the cluster have arrived".
  std::string arrivals() const;
  /// A thread arrives at the cluster's barrier, and releases what it knows.
  void release(BlockRunner& block, int thread);

 private:
  void on_thread_of(int rank, const std::function<void()>& work);
  bool released(const ClusterUse& use, std::uint32_t phase) const;
  bool open_barrier();
  bool is_complete() const;
  void report_divergence();
  bool report_deadlock();
  void find_ended();
  static bool has_waited_for(const BlockRunner& owner, const RemoteUse& use);
  void give_up();

  struct Helper {
    CpuThread thread;
    std::unique_ptr<BlockRunner> runner;
  };

  std::vector<std::unique_ptr<Helper>> helpers_;  ///< of ranks 1, 2, ..
  std::vector<BlockRunner*> blocks_;
  Dim3 grid_, dim_;
  std::uint64_t index_ = 0;
  std::uint32_t completed_ = 0;  ///< phases of the barrier
  Clock gathered_, complete_;    ///< of the barrier: see Mbarrier
};

}  // namespace gpusim
