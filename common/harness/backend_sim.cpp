#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

#include "gpusim/gpusim.hpp"
#include "harness/backend.hpp"
#include "harness/text.hpp"

namespace fa::backend {

std::string_view name() { return "sim"; }

std::optional<std::string> why_unusable() { return std::nullopt; }

std::optional<std::string> bad_setting() { return gpusim::why_no_device(); }

std::optional<std::vector<std::string>> debug_settings() {
  const auto value_of = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string debugging = value_of("GPUSIM_DEBUG"); !debugging.empty() && debugging != "0")
    return std::nullopt;
  std::vector<std::string> settings;
  for (const char* name : {"GPUSIM_SKIP_BARRIER", "GPUSIM_DEVICE"}) {
    if (const std::string value = value_of(name); !value.empty())
      settings.push_back(std::string(name) + "=" + in_shell(value));
  }
  return settings;
}

std::string device_name() {
  cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, 0);
  const std::string emulated = properties.name;
  return emulated == "gpusim" ? "simulator" : "simulator (" + emulated + ")";
}

bool is_device_missing(cudaError_t /*error*/) { return false; }

int host_bytes_per_device_byte() { return 10; }  // a word of 4 bytes has 33 bytes of shadow

void name_allocation(const void* pointer, const std::string& name) { gpusim::name_allocation(pointer, name); }

void name_tensor(const void* pointer, const std::string& name, const std::vector<std::int64_t>& shape,
                 const std::string& type) {
  gpusim::name_allocation(pointer, name, shape, type);
}

void mark_uninitialized(const void* pointer, std::size_t bytes) {
  gpusim::mark_uninitialized(pointer, bytes);
}

Observation take_observation() {
  const gpusim::Report report = gpusim::take_report();
  const gpusim::GlobalCounters total = report.total();
  Counters counters{.read_sectors = total.read_sectors,
                    .write_sectors = total.write_sectors,
                    .atomic_sectors = total.atomic_sectors,
                    .read_requests = total.read_requests,
                    .write_requests = total.write_requests,
                    .shared = {.bytes_per_block = report.shared.bytes_per_block,
                               .load_wavefronts = report.shared.load_wavefronts,
                               .load_wavefronts_ideal = report.shared.load_wavefronts_ideal,
                               .store_wavefronts = report.shared.store_wavefronts,
                               .store_wavefronts_ideal = report.shared.store_wavefronts_ideal},
                    .mma = report.ops.mma,
                    .wgmma = report.ops.wgmma,
                    .mma_units = report.ops.mma_units,
                    .barriers = report.ops.barriers,
                    .shuffles = report.ops.shuffles,
                    .votes = report.ops.votes,
                    .bulk_loads = report.ops.bulk_loads,
                    .bulk_stores = report.ops.bulk_stores,
                    .bulk_load_bytes = report.ops.bulk_load_bytes,
                    .mbarrier_waits = report.ops.mbarrier_waits,
                    .mbarrier_arrivals = report.ops.mbarrier_arrivals,
                    .named_barriers = report.ops.named_barriers,
                    .votes_beside_products = report.ops.votes_beside_products,
                    .accesses_beside_products = report.ops.accesses_beside_products,
                    .arrivals_beside_products = report.ops.arrivals_beside_products,
                    .steps_before_arrivals = report.ops.steps_before_arrivals,
                    .arrivals_before_waits = report.ops.arrivals_before_waits,
                    .named_barrier_threads = report.ops.named_barrier_threads,
                    .kernels_beside_transfers = report.ops.kernels_beside_transfers,
                    .over_waited = report.ops.over_waited,
                    .early_waits = report.early_waits,
                    .blocks_of_function = report.blocks_of_function};
  for (const auto& [tensor, bytes] : report.tensors) {
    counters.traffic.tensors[tensor] = {.read_bytes = bytes.read_bytes, .write_bytes = bytes.write_bytes};
  }
  Observation observation{.counters = std::move(counters)};
  for (const gpusim::Defect& defect : report.defects) {
    observation.defects.push_back({gpusim::name_of(defect.kind), defect.message, defect.count});
  }
  return observation;
}

std::optional<std::int64_t> take_sent_bytes() {
  std::int64_t bytes = 0;
  for (const auto& [peer, link] : gpusim::take_links()) bytes += link.sent_bytes;
  return bytes;
}

bool can_time() { return false; }

std::size_t l2_bytes() { throw std::logic_error("the simulator has no L2 cache"); }

Timing time_launches(int, const std::function<void(int, cudaStream_t)>&) {
  throw std::logic_error("times on the simulator are meaningless");
}

double copy_gb_per_s(int) { throw std::logic_error("times on the simulator are meaningless"); }

}  // namespace fa::backend
