#include "attention/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace fa {

void parallel_for(std::int64_t count, std::int64_t grain,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& body) {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  const std::int64_t ranges = (count - 1) / grain + 1;
  if (ranges == 1) return body(0, count);

  std::atomic<std::int64_t> next_range = 0;
  std::exception_ptr first_error;
  std::mutex error_mutex;
  const auto work = [&] {
    for (std::int64_t range = next_range++; range < ranges; range = next_range++) {
      try {
        const std::int64_t begin = range * grain;
        body(begin, begin + std::min(grain, count - begin));
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (!first_error) first_error = std::current_exception();
        next_range = ranges;
      }
    }
  };

  {
    const std::int64_t cores = std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::jthread> helpers;  // joined at the end of this block
    for (std::int64_t core = 1; core < std::min(cores, ranges); ++core) helpers.emplace_back(work);
    work();
  }
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace fa
