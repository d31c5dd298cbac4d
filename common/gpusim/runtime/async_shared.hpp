/// @file
/// How operations of the asynchronous proxy (the copy engine, products of a warpgroup) use shared memory.
///
/// Such an operation is issued by a thread and goes on by itself. It belongs to a *sequence*: all copies that
/// complete on one mbarrier, all bulk stores of one thread, all products of one warp. Sequences count
/// upwards: phases of the mbarrier, groups of the thread or of the warp. A thread that has waited for number
/// n of a sequence knows that everything up to n is finished, and passes this knowledge on through barriers,
/// like everything that it knows.
///
/// The functions of BlockRunner that take a Completion are called while no code of the kernel runs, and when
/// the accesses that the issuing thread's warp has made so far have been processed: by the functions that
/// resolve_warp(), process_operation() and settle_waits() call.
#pragma once

#include <cstdint>

namespace gpusim {

/// The number of a sequence (see BlockRunner::new_sequence) and the number in the sequence that an operation
/// belongs to.
struct Completion {
  std::uint16_t sequence = 0;
  std::uint32_t number = 0;
};

/// What the operations of a sequence are, and whom it belongs to.
struct Sequence {
  enum class Kind : std::uint8_t {
    kLoad,     ///< copies to shared memory: of an mbarrier
    kStore,    ///< copies from shared memory: of a thread
    kProduct,  ///< products: of a warp
  };
  Kind kind;
  int owner;     ///< the number of the mbarrier, the thread or the warp
  int rank = 0;  ///< of their block in its cluster
};

}  // namespace gpusim
