/// @file
/// What the harness must do differently on a GPU and on the simulator. backend_cuda.cu and backend_sim.cpp
/// define the same functions; CMake links one of them.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/result.hpp"

namespace fa::backend {

/// "sim" or "cuda".
std::string_view name();

/// The reason why no kernel can run here, and what to do about it; nothing if kernels can run.
std::optional<std::string> why_unusable();

/// Why a variable of the environment that chooses the device is unusable; nothing if there is none, or it is
/// fine.
std::optional<std::string> bad_setting();

/// The variables of the environment, as NAME=value for a shell, that a run of this program in a debugger
/// needs as well; nothing if no debugger can stop at its defects, or if it runs in one.
std::optional<std::vector<std::string>> debug_settings();

/// The device as reports show it: "NVIDIA H100 80GB HBM3", "simulator", "simulator (Tesla T4)".
std::string device_name();

/// Whether a failed call means that the device or the driver is unusable, rather than that a kernel is wrong.
bool is_device_missing(cudaError_t error);

/// Bytes of host memory that each byte of device memory takes: 0 on a GPU; on the simulator, the byte itself
/// and the data recorded about it.
int host_bytes_per_device_byte();

/// Gives an allocation the name under which counters and defects show it.
void name_allocation(const void* pointer, const std::string& name);

/// The same for a tensor, which may begin inside of an allocation. @param type  "f32", "f16" or "bf16"
void name_tensor(const void* pointer, const std::string& name, const std::vector<std::int64_t>& shape,
                 const std::string& type);

/// Makes reading these bytes a defect until something writes them, if the backend checks that.
void mark_uninitialized(const void* pointer, std::size_t bytes);

/// What a backend has observed of the launches since it was last asked.
struct Observation {
  std::optional<Counters> counters = std::nullopt;
  std::vector<Defect> defects = {};
};

/// Returns the observation and starts a new one.
Observation take_observation();

/// Bytes that this process has sent to the devices of others since the last call; nothing if nobody counts
/// them.
std::optional<std::int64_t> take_sent_bytes();

/// Whether times are meaningful here.
bool can_time();

/// Bytes of the L2 cache. Only where can_time().
std::size_t l2_bytes();

/// The number of untimed launches before the timed ones.
constexpr int kWarmUpLaunches = 10;

/// Times launches on the device: a warm-up, the L2 cache overwritten, then `repeats` launches, each between
/// two events, all enqueued without waiting for one another. Only if can_time().
///
/// @param launch  enqueues launch number 0, 1, ... (the warm-up also counts from 0)
Timing time_launches(int repeats, const std::function<void(int number, cudaStream_t stream)>& launch);

/// Bandwidth of a copy from device memory to device memory, in 10^9 bytes a second, read and written bytes
/// together: the faster of cudaMemcpyAsync and a plain copy kernel, timed by time_launches(). Only if
/// can_time().
double copy_gb_per_s(int repeats);

}  // namespace fa::backend
