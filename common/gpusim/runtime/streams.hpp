/// @file
/// What orders the operations of several streams. Those of one stream follow each other; an event that a
/// stream waits for, a synchronisation by the host, and the default stream make others wait.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "gpusim/runtime/access.hpp"
#include "gpusim/runtime/defects.hpp"
#include "gpusim/runtime/grid_races.hpp"
#include "gpusim/runtime/reserved.hpp"

namespace gpusim {

/// Remembers which operation has used each word last. One host thread calls it, and use() the threads that
/// run a kernel.
class Streams {
 public:
  static Streams& instance();

  /// @param blocking  it waits for the default stream, and the default stream for it
  void create(const void* stream, bool blocking);
  void destroy(const void* stream);
  /// From now on, uses are compared, although there may be no second stream: the host uses managed memory.
  void watch();

  void record(const void* event, const void* stream);
  void wait(const void* stream, const void* event);
  void forget_event(const void* event) { events_.erase(event); }

  /// The host waits for what has been enqueued.
  void synchronize(const void* stream);
  void synchronize_event(const void* event);
  void synchronize_all();

  /// An operation begins.
  void begin(const void* stream, const HostCall& call);

  /// The operation that has begun last is a transfer to or from another device.
  void mark_transfer();
  /// Whether the operation that has begun last need not wait for all transfers before it.
  bool is_beside_transfer() const;

  /// Whether the operation before the latest one in its stream is a kernel for which the host has not waited.
  bool follows_kernel() const { return follows_kernel_; }

  /// Whether there is more than one stream: otherwise nothing can go wrong, and nobody needs to call use().
  bool are_several() const { return several_; }

  /// The operation that has begun last uses bytes. Only whole words count: others may belong to two
  /// operations.
  /// @param offset  in the arena    @param site  of an access of a kernel
  void use(std::uintptr_t offset, std::size_t bytes, Use use, std::uint16_t site = 0);

  /// The operation that has begun last, which the host does not wait for, uses memory of the host. Does
  /// nothing unless that is pinned: otherwise the call returns when the bytes have been copied.
  void use_pinned(const void* memory, std::size_t bytes, Use use);

  /// A kernel uses an atomic operation of the system's scope on a word of managed memory, which the host may
  /// use at the same time. Call it from any CPU thread.
  void share_with_host(std::uintptr_t offset);

  /// The host uses a word of managed memory.
  void use_on_host(std::uintptr_t offset, AccessKind kind, const void* pc);
  /// The host uses an address that may be in pinned memory.
  /// @param polls  with a volatile or atomic access, which may wait for what an operation writes
  void use_pinned_on_host(std::uintptr_t address, AccessKind kind, const void* pc, bool polls);

  /// Memory is released.
  void forget(std::uintptr_t offset, std::size_t bytes);

 private:
  /// A vector clock: how many operations of each stream are over.
  using Times = std::vector<std::uint32_t>;
  struct Stream {
    Times times;
    bool blocking = true;
    std::uint32_t last_transfer = 0;  ///< its time; 0: there has been none
    bool ends_with_kernel = false;
  };
  struct Operation {
    std::uint32_t stream, time;
    HostCall call;
  };
  /// Pinned memory that an operation uses for which the host has not waited.
  struct PinnedUse {
    std::uintptr_t begin, end;
    Use use;
    std::size_t operation;
  };
  /// The user of a word: operation (32 bits), whether it was atomic, site. 0: nobody.
  using LastUse = std::atomic<std::uint64_t>;

  Streams();
  Stream& of(const void* stream) { return streams_[numbers_.at(stream)]; }
  /// What is over before an operation begins in a stream.
  Times times_before(std::size_t stream) const;
  /// The host has waited for operations.
  void host_waits_for(const Times& times);
  bool is_over_for_host(const Operation& operation) const;
  bool is_over(std::uint64_t last) const;
  void watch_pinned() const;
  std::uintptr_t pc_of(std::uint64_t user) const;
  void report(std::uintptr_t offset, Use one_use, std::uint64_t one, Use other_use,
              std::uint64_t other) const;

  bool several_ = false, follows_kernel_ = false;
  std::map<const void*, std::size_t> numbers_;  ///< of the streams that exist; nullptr is the default stream
  std::vector<Stream> streams_;
  std::map<const void*, Times> events_;
  Times host_, now_;  ///< what is over for the host, and for the latest operation
  std::vector<Operation> operations_;
  std::vector<PinnedUse> pinned_uses_;
  std::mutex shared_mutex_;
  std::set<std::uintptr_t> shared_with_host_;  ///< words
  Reserved<LastUse> writers_, readers_;        ///< by word
};

}  // namespace gpusim
