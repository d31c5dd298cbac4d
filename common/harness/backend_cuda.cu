#include <algorithm>
#include <memory>
#include <type_traits>
#include <vector>

#include "device/launch.cuh"
#include "harness/backend.hpp"
#include "harness/device_buffer.hpp"

namespace fa::backend {
namespace {

/// to[i] = from[i]: the simplest kernel that moves bytes as fast as memory allows.
///
///   grid   ceil(count / 256)      block   256
///   HBM    reads 16 * count bytes, writes 16 * count bytes
__global__ void __launch_bounds__(256)
    copy(const float4* __restrict__ from, float4* __restrict__ to, size_t count) {
  const size_t index = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index < count) to[index] = from[index];
}

struct EventDeleter {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, EventDeleter>;

Event make_event() {
  cudaEvent_t event = nullptr;
  FA_CUDA_CHECK(cudaEventCreate(&event));
  return Event(event);
}

struct StreamDeleter {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, StreamDeleter>;

Stream make_stream() {
  cudaStream_t stream = nullptr;
  FA_CUDA_CHECK(cudaStreamCreate(&stream));
  return Stream(stream);
}

cudaDeviceProp properties() {
  int device = 0;
  FA_CUDA_CHECK(cudaGetDevice(&device));
  cudaDeviceProp found = {};
  FA_CUDA_CHECK(cudaGetDeviceProperties(&found, device));
  return found;
}

}  // namespace

std::string_view name() { return "cuda"; }

std::optional<std::vector<std::string>> debug_settings() { return std::nullopt; }

std::optional<std::string> why_unusable() {
  int devices = 0;
  cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices == 0) status = cudaErrorNoDevice;
  // If the program was built for other architectures, this finds no kernel, before the first launch.
  cudaFuncAttributes attributes = {};
  if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, copy);
  if (status == cudaSuccess) return std::nullopt;
  cudaGetLastError();  // the failure has been handled
  return std::string("no usable CUDA device: ") + cudaGetErrorString(status) +
         " (the preset sim needs no GPU: cmake --preset sim)";
}

std::optional<std::string> bad_setting() { return std::nullopt; }

std::string device_name() { return properties().name; }

bool is_device_missing(cudaError_t error) {
  switch (error) {
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorDeviceUninitialized: return true;
    default: return false;
  }
}

int host_bytes_per_device_byte() { return 0; }

void name_allocation(const void*, const std::string&) {}
void name_tensor(const void*, const std::string&, const std::vector<std::int64_t>&, const std::string&) {}

void mark_uninitialized(const void*, std::size_t) {}

Observation take_observation() { return {}; }

std::optional<std::int64_t> take_sent_bytes() { return std::nullopt; }

bool can_time() { return true; }

std::size_t l2_bytes() { return std::size_t(properties().l2CacheSize); }

Timing time_launches(int repeats, const std::function<void(int number, cudaStream_t stream)>& launch) {
  const Stream stream = make_stream();
  const DeviceBuffer scratch("scratch", 2 * l2_bytes());
  std::vector<Event> before, after;
  for (int number = 0; number < repeats; ++number) {
    before.push_back(make_event());
    after.push_back(make_event());
  }

  for (int number = 0; number < kWarmUpLaunches; ++number) launch(number, stream.get());
  FA_CUDA_CHECK(cudaMemsetAsync(scratch.get(), 0, scratch.bytes(), stream.get()));
  for (int number = 0; number < repeats; ++number) {
    FA_CUDA_CHECK(cudaEventRecord(before[number].get(), stream.get()));
    launch(number, stream.get());
    FA_CUDA_CHECK(cudaEventRecord(after[number].get(), stream.get()));
  }
  FA_CUDA_CHECK(cudaStreamSynchronize(stream.get()));

  std::vector<double> times_ms;
  for (int number = 0; number < repeats; ++number) {
    float ms = 0;
    FA_CUDA_CHECK(cudaEventElapsedTime(&ms, before[number].get(), after[number].get()));
    times_ms.push_back(ms);
  }
  std::sort(times_ms.begin(), times_ms.end());
  const std::size_t half = times_ms.size() / 2;
  const double median = times_ms.size() % 2 == 1 ? times_ms[half] : (times_ms[half - 1] + times_ms[half]) / 2;
  return {.median_ms = median, .min_ms = times_ms.front(), .max_ms = times_ms.back(), .repeats = repeats};
}

double copy_gb_per_s(int repeats) {
  constexpr std::size_t kBytes = 512 << 20;
  const std::size_t quarter_of_free = free_device_bytes() / 4 / sizeof(float4) * sizeof(float4);
  const std::size_t bytes = std::min(kBytes, quarter_of_free);
  DeviceBuffer from("from", bytes);
  const DeviceBuffer to("to", bytes);
  from.poison();

  const Timing by_driver = time_launches(repeats, [&](int, cudaStream_t stream) {
    FA_CUDA_CHECK(cudaMemcpyAsync(to.get(), from.get(), bytes, cudaMemcpyDeviceToDevice, stream));
  });
  const Timing by_kernel = time_launches(repeats, [&](int, cudaStream_t stream) {
    const std::size_t count = bytes / sizeof(float4);
    fa::launch(copy, dim3(unsigned((count + 255) / 256)), dim3(256), 0, stream,
               static_cast<const float4*>(from.get()), static_cast<float4*>(to.get()), count);
  });
  const double fastest_ms = std::min(by_driver.median_ms, by_kernel.median_ms);
  return 2.0 * double(bytes) / (fastest_ms * 1e6);
}

}  // namespace fa::backend
