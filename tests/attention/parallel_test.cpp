#include "attention/parallel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

namespace fa {
namespace {

TEST(ParallelFor, CoversEveryItemOnce) {
  for (const std::int64_t count : {1, 2, 63, 64, 65, 1000}) {
    std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
    parallel_for(count, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t item = begin; item < end; ++item) ++visits[std::size_t(item)];
    });
    EXPECT_TRUE(std::all_of(visits.begin(), visits.end(), [](const auto& n) { return n == 1; })) << count;
  }
}

TEST(ParallelFor, CutsIntoRangesThatDependOnTheGrainOnly) {
  std::mutex mutex;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
  parallel_for(10, 4, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    ranges.emplace_back(begin, end);
  });
  std::sort(ranges.begin(), ranges.end());
  EXPECT_EQ(ranges, (std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 4}, {4, 8}, {8, 10}}));
}

TEST(ParallelFor, CallsNothingForNothing) {
  parallel_for(0, 1, [](std::int64_t, std::int64_t) { FAIL(); });
  parallel_for(-5, 1, [](std::int64_t, std::int64_t) { FAIL(); });
}

TEST(ParallelFor, PassesAnExceptionOn) {
  const auto fails_at_500 = [](std::int64_t begin, std::int64_t) {
    if (begin == 500) throw std::runtime_error("500");
  };
  EXPECT_THROW(parallel_for(1000, 1, fails_at_500), std::runtime_error);
}

}  // namespace
}  // namespace fa
