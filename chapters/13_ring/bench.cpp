#include "bench.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "attention/attention_backward.hpp"
#include "attention/attention_forward.hpp"
#include "device/launch.cuh"
#include "harness/runner.hpp"
#include "ranks.hpp"

namespace fa::ch13 {

/// For each work, how long it takes the slowest rank once, turn by turn. All ranks begin each work
/// together, and none waits for its host.
std::vector<std::vector<double>> Bench::times_of(int turns, const std::vector<Work>& works) const {
  struct Marks {
    cudaEvent_t begin, end;
  };
  std::vector<Marks> marks(std::size_t(turns) * works.size());
  for (std::size_t i = 0; i < marks.size(); ++i) {
    for (cudaEvent_t* mark : {&marks[i].begin, &marks[i].end}) FA_CUDA_CHECK(cudaEventCreate(mark));
    device_.meet();
    FA_CUDA_CHECK(cudaEventRecord(marks[i].begin, device_.kernels()));
    const Work& work = works[i % works.size()];
    for (int n = 0; n < work.count; ++n) work.launch();
    FA_CUDA_CHECK(cudaEventRecord(marks[i].end, device_.kernels()));
  }
  device_.wait();
  std::vector<double> mine;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    float ms = 0;
    FA_CUDA_CHECK(cudaEventElapsedTime(&ms, marks[i].begin, marks[i].end));
    mine.push_back(ms / float(works[i % works.size()].count));
    for (cudaEvent_t mark : {marks[i].begin, marks[i].end}) FA_CUDA_CHECK(cudaEventDestroy(mark));
  }
  const std::vector<double> all = Ranks::instance().all(mine);
  std::vector<std::vector<double>> times(works.size());
  for (std::size_t i = 0; i < mine.size(); ++i) {
    double slowest = 0;
    for (std::size_t rank = 0; rank < all.size() / mine.size(); ++rank)
      slowest = std::max(slowest, all[rank * mine.size() + i]);
    times[i % works.size()].push_back(slowest);
  }
  return times;
}

/// Their medians, once the clocks have settled: a GPU that has been idle begins too fast, takes more power
/// than it may, and is then too slow for about a second. Works that are to be compared take turns, since a
/// GPU's clock falls while it gets warm.
std::vector<Timing> Bench::time(int turns, const std::vector<Work>& works, double settled_after_ms) const {
  double turn_ms = 0;
  const auto first = times_of(2, works);
  for (std::size_t i = 0; i < works.size(); ++i) turn_ms += first[i].back() * works[i].count;
  const int warm_up = std::clamp(int(settled_after_ms / turn_ms), 0, 1000);
  std::vector<Timing> timings;
  for (std::vector<double> times : times_of(warm_up + turns, works)) {
    times.erase(times.begin(), times.begin() + warm_up);
    std::sort(times.begin(), times.end());
    const std::size_t half = times.size() / 2;
    timings.push_back({.median_ms = times.size() % 2 == 1 ? times[half] : (times[half - 1] + times[half]) / 2,
                       .min_ms = times.front(),
                       .max_ms = times.back(),
                       .repeats = turns});
  }
  return timings;
}

BenchResult Bench::run(const Job& job, int repeats) {
  const int count = Ranks::instance().count();
  if (!whole_) {
    whole_ = alone(job, problem_.shape.seq_q);
    share_ = alone(job, job.share().split.most_tokens());
  }
  const std::vector<Timing> timings = time(
      repeats,
      {{[&] { whole_->enqueue(); }}, {[&] { share_->enqueue(); }, count}, {[&] { job.enqueue(); }, count}});
  std::size_t bytes = 0;
  const auto count_bytes = [&]<class P>(P) {
    for (const auto& specs : {P::inputs(problem_.shape), P::outputs(problem_.shape)}) {
      for (const TensorSpec& spec : specs) bytes += spec.bytes();
    }
  };
  problem_.backward ? count_bytes(AttentionBackward()) : count_bytes(AttentionForward());
  double flops = AttentionForward::flops(problem_.shape);
  if (problem_.backward) flops += AttentionBackward::flops(problem_.shape);
  BenchResult result = evaluate(timings[2], bytes / std::size_t(count), flops / count, 1);
  result.share_of_copy = 0;
  result.parts = {.ideal_ms = timings[0].median_ms / count,
                  .own_ms = timings[1].median_ms,
                  .rest_ms = time_of_rest(job, repeats)};
  return result;
}

/// Transfers and sums, without the calls of attention: what these have to hide.
double Bench::time_of_rest(const Job& job, int repeats) const {
  Engine idle = *problem_.engine;
  idle.forward = [](const Engine::Args&, cudaStream_t) {};
  idle.backward = [](const Engine::Args&, cudaStream_t) {};
  const std::vector<Execution> executions = job.executions(idle);
  const auto launch = [&] {
    for (const Execution& execution : executions) execution.enqueue([] {});
  };
  constexpr double kWarmUpMs = 50;  // it takes little power
  return time(repeats, {{launch}}, kWarmUpMs).front().median_ms;
}

/// @param tokens  those of other ranks are copies of this one's, because kernels are faster on numbers that
///     are all the same, which take less power
std::unique_ptr<Job> Bench::alone(const Job& job, std::int64_t tokens) const {
  Problem problem = problem_;
  problem.shape.seq_q = problem.shape.seq_k = tokens;
  const Method& ring = methods()[1];
  auto alone = std::make_unique<Job>(problem, share_of(problem.shape, 1, 0, false), ring, ring.changes,
                                     device_.streams(ring, 0));
  for (const Name tensor : {Name::kQ, Name::kK, Name::kV, Name::kDo}) {
    if (!job.buffers().has(tensor)) continue;
    const auto bytes = std::size_t(tokens * job.share().row(tensor) * job.share().element_bytes);
    const std::size_t have = bytes / std::size_t(tokens) * std::size_t(job.share().tokens());
    auto* const to = static_cast<std::byte*>(alone->buffers().address(Buffer{tensor}));
    for (std::size_t done = 0; have > 0 && done < bytes; done += have) {
      FA_CUDA_CHECK(cudaMemcpy(to + done, job.buffers().address(Buffer{tensor}), std::min(have, bytes - done),
                               cudaMemcpyDeviceToDevice));
    }
  }
  FA_CUDA_CHECK(cudaStreamSynchronize(nullptr));  // other streams do not wait for its copies
  return alone;
}

}  // namespace fa::ch13
