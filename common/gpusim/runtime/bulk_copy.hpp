/// @file
/// What the threads of a block ask of the copy engine and of barriers in shared memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "gpusim/runtime/async_shared.hpp"
#include "gpusim/runtime/clocks.hpp"
#include "gpusim/runtime/tensor_map.hpp"

namespace gpusim {

/// A copy between global and shared memory: of a box of a tensor, or of contiguous bytes. Or one to the
/// shared memory of a block of the cluster: of bytes in that of the issuer's block, or of a value.
struct BulkCopy {
  enum class Kind : std::uint8_t { kLoad, kStore, kAdd, kToBlock, kValue };
  Kind kind = Kind::kLoad;
  TensorMap map;  ///< not valid: contiguous
  std::array<std::int32_t, TensorMap::kMaxRank> at{};
  std::uintptr_t global = 0;  ///< contiguous: the address
  std::uintptr_t source = 0;  ///< kToBlock: the address
  std::uintptr_t shared = 0;
  std::size_t bytes = 0;  ///< in shared memory
  std::uintptr_t barrier = 0;
  int rank = 0;  ///< kToBlock, kValue: of the issuer's block
  int thread = 0;
  const void* pc = nullptr;
  Completion completion;        ///< loads: of the barrier
  std::uint32_t group = 0;      ///< stores
  const int* turn = nullptr;    ///< stores: the counter of the turn that they are made in; null: in no turn
  bool has_read = false;        ///< a store: `data` holds what was in shared memory
  std::vector<std::byte> data;  ///< without swizzle

  bool is_tensor() const { return map.is_valid(); }
  bool is_in_cluster() const { return kind == Kind::kToBlock || kind == Kind::kValue; }

  /// Calls f(global, offset, bytes) for each run of bytes inside the tensor; `offset` is in the unswizzled
  /// box.
  template <class F>
  void for_each_run(F&& f) const {
    if (!is_tensor()) return f(global, std::size_t(0), bytes);
    for_each_row(map, at, [&](const BoxRow& row) {
      if (row.bytes != 0) f(row.global, row.offset + row.begin, row.bytes);
    });
  }
  /// Calls f(address, offset) for each 16 bytes in shared memory.
  template <class F>
  void for_each_chunk(F&& f) const {
    for (std::size_t offset = 0; offset < bytes; offset += 16)
      f(is_tensor() ? map.swizzled(shared + offset) : shared + offset, offset);
  }

  /// Calls f(address) for each word in shared memory.
  template <class F>
  void for_each_word(F&& f) const {
    for_each_chunk([&](std::uintptr_t address, std::size_t offset) {
      for (std::size_t i = 0; i < std::min<std::size_t>(16, bytes - offset); i += 4) f(address + i);
    });
  }

  /// The bytes in the order of the unswizzled box: out of shared memory, ...
  void take_from_shared();
  void put_into_shared() const;
  /// ... and of global memory, with the fill for elements outside.
  void take_from_global();
  void put_into_global() const;
  /// To a block of the cluster.
  void copy_in_cluster();
};

/// A turn that a thread has waited for and not passed on: see device::await_turn().
struct Turn {
  const int* counter = nullptr;
  int number = 0;
};

/// The bulk stores of a thread.
struct BulkGroups {
  std::vector<std::shared_ptr<BulkCopy>> pending;  ///< not yet written to global memory, in order
  std::uint32_t committed = 0;                     ///< groups
  std::vector<Turn> turns;                         ///< in which it stores now; the latest is the last
  // As far as the log has been processed:
  std::uint16_t reads = 0,
                writes = 0;  ///< sequences: reading shared memory, writing global memory; 0: none yet
};

/// What another block of the cluster has added to a phase of an mbarrier.
struct FromBlock {
  const void* pc = nullptr;  ///< null: nothing
  int rank = 0;
};

/// An mbarrier. The phase is the number of phases that are complete.
struct Mbarrier {
  std::uintptr_t address = 0;
  std::uint32_t expected = 0;  ///< arrivals
  std::uint32_t missing = 0;   ///< arrivals, in this phase
  std::int64_t bytes = 0;      ///< announced in this phase
  bool has_excess = false;     ///< more than that are in flight, which has been reported
  std::uint32_t phase = 0;
  std::uint16_t sequence = 0;
  bool fenced = false;            ///< the copy engine sees the initialisation
  std::uint32_t fence_phase = 0;  ///< of the cluster's barrier: after it, other blocks see the initialisation
  std::uint32_t init_tick = 0;
  int initializer = 0;
  const void* init_pc = nullptr;
  const void* arrive_pc = nullptr;  ///< of the latest arrival
  const void* expect_pc = nullptr;  ///< of the latest announcement
  std::vector<std::shared_ptr<BulkCopy>> in_flight;
  std::vector<std::shared_ptr<BulkCopy>> landed;  ///< with the last phase
  Clock gathered;                                 ///< what those who have arrived know
  Clock complete;                                 ///< the same when the last phase was complete
  FromBlock from_block, complete_from_block;      ///< of this phase, and of the last one

  std::int64_t bytes_in_flight() const {
    std::int64_t sum = 0;
    for (const auto& copy : in_flight) sum += std::int64_t(copy->bytes);
    return sum;
  }
};

/// The latest wait of a thread for an mbarrier.
struct LastWait {
  std::uintptr_t barrier = 0;
  std::uint32_t phase = 0;  ///< how many phases were complete when it returned
  const void* pc = nullptr;
  bool repeats = false;  ///< the thread had waited for the same phase before

  /// It has returned at once, and what comes after it may be too early.
  bool is_idle() const { return repeats || (phase == 0 && pc != nullptr); }
};

/// A barrier with a number: bar.sync, bar.arrive.
struct NamedBarrier {
  int threads = 0;  ///< that have to come; 0: none has come
  int arrived = 0;
  const void* pc = nullptr;  ///< of the first one
  std::vector<int> waiting;
  Clock gathered;
};

/// An operation that does not make its thread wait. It stands in the log among the accesses of its thread.
struct Operation {
  enum class Kind : std::uint8_t {
    kInit,
    kFenceInit,
    kArrive,
    kExpect,
    kLoad,
    kStore,
    kWaitRead,
    kWaitWrite,
    kFenceProxy,
    kNamedArrive,
    kBulkCommit,  // only for recordings
    // By a thread of another block of the cluster:
    kArriveInCluster,
    kStoreInCluster,
    kCopyInCluster,
  };
  Kind kind;
  std::uintptr_t barrier = 0;  ///< address or number
  int value = 0;               ///< arrivals, bytes, groups or threads
  bool relaxed = false;        ///< an arrival that releases only what the thread has read
  int steps = 0;               ///< an arrival: of the thread since its last wait for products
  std::vector<std::shared_ptr<BulkCopy>> copies = {};
};

}  // namespace gpusim
