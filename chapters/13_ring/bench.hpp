/// @file
/// How long a method takes, beside one GPU with the whole problem.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "harness/result.hpp"
#include "job.hpp"

namespace fa::ch13 {

class Bench {
 public:
  Bench(const Problem& problem, const Device& device) : problem_(problem), device_(device) {}

  /// On all ranks at the same time.
  BenchResult run(const Job& job, int repeats);

 private:
  /// Something to time. @param count  how often it is enqueued in each turn
  struct Work {
    std::function<void()> launch;
    int count = 1;
  };

  std::unique_ptr<Job> alone(const Job& job, std::int64_t tokens) const;
  std::vector<std::vector<double>> times_of(int turns, const std::vector<Work>& works) const;
  std::vector<Timing> time(int turns, const std::vector<Work>& works, double settled_after_ms = 1500) const;
  double time_of_rest(const Job& job, int repeats) const;

  Problem problem_;
  const Device& device_;
  std::unique_ptr<Job> whole_, share_;  ///< attention on one GPU, on all of them at the same time
};

}  // namespace fa::ch13
