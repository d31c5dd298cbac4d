/// @file
/// Which operations have to wait for which others, by what they read and write.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

#include "execute.hpp"
#include "operations.hpp"

namespace fa::ch13 {

/// Finds what a unit has to wait for: an operation, or transfers that begin together.
class Order {
 public:
  explicit Order(const Streams& streams)
      : streams_(streams), last_(std::size_t(streams.count()), kNone), waits_(last_.size(), kNone) {}

  /// Adds the next unit. @return  the units of other streams that must be complete before it begins: their
  ///     numbers, which follow the order of these calls
  std::vector<std::size_t> add(const std::vector<const Operation*>& unit, int stream) {
    stream_ = stream;
    std::ranges::fill(waits_, kNone);
    std::vector<Use*> read, written;
    for (const Operation* operation : unit) {
      for (const View& view : operation->reads) read.push_back(&uses_[view.buffer]);
      for (const View& view : operation->writes) written.push_back(&uses_[view.buffer]);
      if (operation->kind == Kind::kAttend || operation->kind == Kind::kDifferentiate)
        written.push_back(&workspace_[operation->lane % 2]);
      begin_lane(operation->lane);
    }
    // What it reads has been written.
    for (Use* use : read) comes_after(use->writer);
    // What it overwrites is no longer in use.
    for (Use* use : written) {
      comes_after(use->writer);
      for (const End& reader : use->readers) comes_after(reader);
    }
    for (Use* use : read) use->readers.push_back({count_, stream_});
    for (Use* use : written) *use = {.writer = {count_, stream_}};
    last_[std::size_t(stream_)] = int(count_++);
    std::vector<std::size_t> waits;
    for (const int wait : waits_) {
      if (wait != kNone) waits.push_back(std::size_t(wait));
    }
    return waits;
  }

  /// The last unit of each stream; kNone if it has none.
  const std::vector<int>& last() const { return last_; }
  static constexpr int kNone = -1;

 private:
  struct End {
    std::size_t unit = 0;
    int stream = kNone;
  };
  struct Use {
    End writer = {};
    std::vector<End> readers = {};  ///< since then
  };

  /// Units of a stream are complete in their order: it is enough to wait for the last one.
  void comes_after(const End& end) {
    if (end.stream == kNone || end.stream == stream_) return;
    int& wait = waits_[std::size_t(end.stream)];
    wait = std::max(wait, int(end.unit));
  }

  /// A GPU has only a few priorities. The lane after the lowest one is in the first stream again, and must
  /// not overtake it.
  void begin_lane(int lane) {
    if (lane <= lane_) return;
    lane_ = lane;
    const int before = lane > 1 ? streams_.number_of(lane - 1) : 0;
    if (streams_.number_of(lane) > before || last_[std::size_t(before)] == kNone) return;
    comes_after({std::size_t(last_[std::size_t(before)]), before});
  }

  const Streams& streams_;
  std::map<Buffer, Use> uses_;
  std::map<int, Use> workspace_;
  std::vector<int> last_, waits_;
  std::size_t count_ = 0;
  int stream_ = 0, lane_ = 0;
};

}  // namespace fa::ch13
