/// @file
/// A record of who waits for whom: with GPUSIM_TRACE=FILE, a line of JSON for each event of a block that uses
/// the barriers or the copy engine of compute capability 9.0.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "gpusim/runtime/array_names.hpp"
#include "gpusim/runtime/defects.hpp"

namespace gpusim {

/// One event; if the lanes of a warp share it, that of the first of them. `order` counts the events of a
/// block: the simulator runs one thread at a time.
struct TraceEvent {
  std::uint64_t block = 0;
  std::uint64_t order = 0;
  int thread = 0;
  const void* pc = nullptr;    ///< the instruction
  const char* name = nullptr;  ///< "wait", "go on", "arrive", "load", "land", ...
  std::vector<Piece> barrier;  ///< empty, or the name of the mbarrier, or the number of a named barrier
  ThreadNumbers numbers;       ///< for the names of barriers
  std::int64_t phase = -1;     ///< of the mbarrier, or the group of bulk stores or products; -1: none
};

/// Collects events, and writes them when the program ends: only then are source lines looked up.
class EventTrace {
 public:
  /// nullptr unless the environment variable is set.
  static EventTrace* instance();

  void add(TraceEvent&& event);

 private:
  explicit EventTrace(std::string path) : path_(std::move(path)) {}
  void write();

  static constexpr std::size_t kMost = 1 << 20;  ///< later ones are dropped

  std::string path_;
  std::mutex mutex_;
  std::vector<TraceEvent> events_;
};

}  // namespace gpusim
