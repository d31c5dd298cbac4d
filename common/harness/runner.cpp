#include "harness/runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "device/launch.cuh"

namespace fa {

std::optional<Skip> what_device_lacks(const DeviceNeeds& needs) {
  if (backend::why_unusable()) return std::nullopt;
  const auto number = [](int capability) { return fmt::format("{}.{}", capability / 10, capability % 10); };
  const int capability = compute_capability();
  if (capability < needs.compute_capability || (needs.exactly && capability > needs.compute_capability)) {
    return Skip{.reason = fmt::format("needs compute capability {}{}, this device has {}",
                                      number(needs.compute_capability), needs.exactly ? " exactly" : "",
                                      number(capability)),
                .device_too_old = true};
  }
  if (const std::size_t limit = shared_bytes_limit(); limit < needs.shared_bytes) {
    return Skip{.reason = fmt::format("a block needs {} bytes of shared memory, this device has {}",
                                      needs.shared_bytes, limit)};
  }
  return std::nullopt;
}

void execute(const Launch& launch, const DeviceTensors& tensors, VariantResult& result) {
  backend::take_observation();  // discard what happened before this variant
  try {
    launch(nullptr);
    FA_CUDA_CHECK(cudaDeviceSynchronize());
  } catch (const CudaError& error) {
    if (backend::is_device_missing(error.code)) throw DeviceError(error.what());
    cudaGetLastError();  // the failure has been handled
    result.failure = error.what();
  } catch (const std::runtime_error& error) {  // from a library that the launch calls
    result.failure = error.what();
  }
  backend::Observation seen = backend::take_observation();
  result.counted = std::move(seen.counters);
  result.defects = std::move(seen.defects);
  if (result.failure) return;
  if (const std::string tensor = tensors.overrun(); !tensor.empty()) {
    result.failure = "something was written before or after " + tensor;
    return;
  }
  if (const std::string tensor = tensors.overwritten_gap(); !tensor.empty()) {
    result.failure = fmt::format("something was written between the rows of {}", tensor);
    return;
  }
  result.outputs = tensors.download_outputs();
}

std::size_t count_sets(std::size_t bytes_of_set, int launches) {
  const std::size_t to_exceed_l2 = 2 * backend::l2_bytes() / bytes_of_set + 1;
  const std::size_t fit = free_device_bytes() / 10 * 9 / bytes_of_set;
  return std::max<std::size_t>(1, std::min({to_exceed_l2, std::size_t(launches), fit}));
}

BenchResult evaluate(const Timing& time, std::size_t bytes, double flops, double copy_gb_per_s) {
  BenchResult result{.time = time, .gb_per_s = double(bytes) / (time.median_ms * 1e6)};
  result.share_of_copy = result.gb_per_s / copy_gb_per_s;
  if (flops > 0) result.tflops = flops / (time.median_ms * 1e9);
  return result;
}

}  // namespace fa
