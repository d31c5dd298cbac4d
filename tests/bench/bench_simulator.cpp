/// @file
/// Times tiled_attention on the simulator with all checks on, and checks its result. Prints one line of JSON.
#include <cuda_runtime.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/tiled_attention.hpp"
#include "device/launch.cuh"
#include "gpusim/gpusim.hpp"
#include "harness/device_buffer.hpp"

namespace fa::bench {
namespace {

constexpr double kTolerance = 1e-5;  // largest absolute error; O is of the order of 1

/// Uniform in [-scale, scale). Multiples of 2^-23, so that bench_simulator.py generates exactly the same
/// numbers.
std::vector<float> make_input(std::uint32_t seed, float scale) {
  std::vector<float> result(kElements);
  for (float& value : result) {
    seed = seed * 1664525u + 1013904223u;
    value = scale * (float(seed >> 8) / 8388608.0f - 1.0f);
  }
  return result;
}

std::vector<double> reference(const std::vector<float>& q, const std::vector<float>& k,
                              const std::vector<float>& v) {
  std::vector<double> o(kElements, 0.0);
  std::vector<double> p(kSeq);
  for (int query = 0; query < kHeads * kSeq; ++query) {
    const int head = query / kSeq * kSeq * kHeadDim;
    for (int key = 0; key < kSeq; ++key) {
      p[key] = 0.0;
      for (int d = 0; d < kHeadDim; ++d) {
        p[key] += double(q[query * kHeadDim + d]) * k[head + key * kHeadDim + d];
      }
    }
    const double m = *std::max_element(p.begin(), p.end());
    double l = 0.0;
    for (double& score : p) l += score = std::exp((score - m) * kScale);
    for (int key = 0; key < kSeq; ++key) {
      for (int d = 0; d < kHeadDim; ++d) {
        o[query * kHeadDim + d] += p[key] / l * v[head + key * kHeadDim + d];
      }
    }
  }
  return o;
}

/// The CPU time of all threads of this process, in seconds.
double cpu_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return double(time.tv_sec) + 1e-6 * double(time.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int run(int repeats, const std::string& output) {
  const std::vector<float> q = make_input(1, 4.0f);
  const std::vector<float> k = make_input(2, 1.0f);
  const std::vector<float> v = make_input(3, 1.0f);
  constexpr std::size_t kBytes = kElements * sizeof(float);
  DeviceBuffer gQ("Q", kBytes);
  DeviceBuffer gK("K", kBytes);
  DeviceBuffer gV("V", kBytes);
  DeviceBuffer gO("O", kBytes);
  gQ.upload(q.data());
  gK.upload(k.data());
  gV.upload(v.data());

  std::vector<double> seconds;
  const double cpu_start = cpu_seconds();
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run_tiled_attention(static_cast<const float*>(gQ.get()), static_cast<const float*>(gK.get()),
                        static_cast<const float*>(gV.get()), static_cast<float*>(gO.get()));
    FA_CUDA_CHECK(cudaDeviceSynchronize());
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  const double cpu = (cpu_seconds() - cpu_start) / repeats;
  const gpusim::Report report = gpusim::take_report();
  if (!report.defects.empty()) {
    std::fprintf(stderr, "%s\n", gpusim::format_defects(report).c_str());
    return 1;
  }

  std::vector<float> o(kElements);
  gO.download(o.data());
  const std::vector<double> expected = reference(q, k, v);
  double max_abs_error = 0.0;
  for (std::int64_t i = 0; i < kElements; ++i) {
    const double error = std::abs(o[i] - expected[i]);
    if (!(error <= kTolerance)) {
      std::fprintf(stderr, "O[%d] is %g, not %g as in float64: off by more than %g\n", int(i), o[i],
                   expected[i], kTolerance);
      return 1;
    }
    max_abs_error = std::max(max_abs_error, error);
  }
  if (!output.empty()) {
    std::ofstream file(output, std::ios::binary);
    file.write(reinterpret_cast<const char*>(o.data()), std::streamsize(o.size() * sizeof(float)));
    if (!file.flush()) throw std::runtime_error("--output " + output + ": cannot be written");
  }

  // Every access of this kernel is by a whole warp, and none to shared memory has a bank conflict. So a
  // wavefront, like a global request, is one access of 32 threads.
  const gpusim::GlobalCounters global = report.total();
  const gpusim::SharedCounters& shared = report.shared;
  const std::int64_t warp_accesses = global.read_requests + global.write_requests +
                                     shared.load_wavefronts_ideal + shared.store_wavefronts_ideal;
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const nlohmann::json result = {
      {"seconds", seconds},
      {"cpu_seconds", cpu},
      {"peak_rss_bytes", std::int64_t(usage.ru_maxrss) * 1024},
      {"global_bytes", {{"read", global.read_bytes / repeats}, {"write", global.write_bytes / repeats}}},
      {"memory_accesses", {{"counted", 32 * warp_accesses / repeats}, {"predicted", memory_accesses()}}},
      {"max_abs_error", max_abs_error},
  };
  std::printf("%s\n", result.dump().c_str());
  return 0;
}

}  // namespace
}  // namespace fa::bench

int main(int argc, char** argv) {
  CLI::App app("Speed of the simulator: tiled fp32 attention, N = 256, 2 heads, d = 64, 128 threads a block");
  int repeats = 5;
  std::string output;
  app.add_option("--repeats", repeats, "launches, each timed")->check(CLI::Range(1, 1000));
  app.add_option("--output", output, "file for O, as raw float32");
  try {
    app.parse(argc, argv);
    return fa::bench::run(repeats, output);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
