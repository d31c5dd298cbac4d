/// @file
/// The results of one variant: the check, the bytes, the counters, the times.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "attention/refusal.hpp"
#include "attention/tensor.hpp"
#include "attention/traffic.hpp"
#include "diagnosis/compare.hpp"

namespace fa {

/// Shared-memory traffic. A wavefront is one pass over the 32 banks.
struct SharedCounters {
  std::int64_t bytes_per_block = 0;
  std::int64_t load_wavefronts = 0, load_wavefronts_ideal = 0;
  std::int64_t store_wavefronts = 0, store_wavefronts_ideal = 0;

  /// Wavefronts beyond the fewest possible.
  std::int64_t conflicts() const {
    return load_wavefronts - load_wavefronts_ideal + store_wavefronts - store_wavefronts_ideal;
  }
};

/// The counts of one run, from a backend that counts. A sector is 32 aligned bytes of global memory, a
/// request one instruction of a warp, a barrier one __syncthreads() of a warp.
struct Counters {
  Traffic traffic = {};
  std::int64_t read_sectors = 0, write_sectors = 0, atomic_sectors = 0;
  std::int64_t read_requests = 0, write_requests = 0;
  SharedCounters shared = {};
  /// Matrix products, as instructions: mma.m16n8k16 once per warp, wgmma.m64nNk16 once per warpgroup; and all
  /// of them in units of 16 x 8 x 16.
  std::int64_t mma = 0, wgmma = 0, mma_units = 0;
  std::int64_t barriers = 0, shuffles = 0, votes = 0;
  /// Copies by the copy engine, and the bytes that land in shared memory, zeros included; instructions of
  /// warps that wait for an mbarrier, that arrive at one, and that come to a named barrier.
  std::int64_t bulk_loads = 0, bulk_stores = 0, bulk_load_bytes = 0;
  std::int64_t mbarrier_waits = 0, mbarrier_arrivals = 0, named_barriers = 0;
  std::int64_t votes_beside_products = 0;     ///< of the votes, those of warps with a wgmma in flight
  std::int64_t accesses_beside_products = 0;  ///< loads, stores and atomic operations of such warps
  std::int64_t arrivals_beside_products = 0;  ///< of the mbarrier_arrivals, those of such warps
  std::int64_t steps_before_arrivals = 0;     ///< of warps, from their last wait for products to each arrival
  std::int64_t arrivals_before_waits = 0;     ///< of warps at mbarriers, before each of their waits there
  std::int64_t named_barrier_threads = 0;     ///< of the named_barriers, the threads that each is for
  std::int64_t kernels_beside_transfers = 0;  ///< kernels that may run during a transfer enqueued before them
  /// Groups of asynchronous copies, once per warp, that a wait has covered although a later one, before their
  /// first use, would have been enough.
  std::int64_t over_waited = 0;
  std::map<std::string, std::int64_t> early_waits = {};         ///< the same, by the source line of that wait
  std::map<std::string, std::int64_t> blocks_of_function = {};  ///< gpusim::Report's, with GPUSIM_PROFILE=1

  /// The requested share of the bytes of all sectors, 0 .. 1; nothing if there are no sectors.
  std::optional<double> sector_efficiency() const;
};

/// A defect in a kernel, found by the backend's checks.
struct Defect {
  std::string kind;     ///< race, out_of_bounds, uninitialized_read, barrier_divergence, wgmma and others
  std::string message;  ///< one or more lines
  std::int64_t count = 0;
};

/// Device times of individual launches.
struct Timing {
  double median_ms = 0, min_ms = 0, max_ms = 0;
  int repeats = 0;
};

/// What several devices need for parts of a problem that they share: the slowest of them.
struct PartsOfTime {
  double ideal_ms = 0;  ///< the whole problem on one device, divided by their number
  double own_ms = 0;    ///< a device's own share of the queries with its own share of the keys
  double rest_ms = 0;   ///< everything but the kernels of attention
};

/// Timing and the speeds that follow from it.
struct BenchResult {
  Timing time;
  double gb_per_s = 0;       ///< 10^9 bytes a second: every input read once and every output written once
  double share_of_copy = 0;  ///< of the bandwidth of a copy in the same run
  std::optional<double> tflops = std::nullopt;      ///< if the problem counts operations
  std::optional<PartsOfTime> parts = std::nullopt;  ///< if several devices share the problem
};

/// The bytes that a rank has sent to others in one step.
struct LinkBytes {
  std::int64_t predicted = 0;
  std::optional<std::int64_t> counted = std::nullopt;  ///< absent where nothing counts them
};

/// Why a variant did not run: what this device lacks.
struct Skip {
  std::string reason;           ///< "a block needs 131072 bytes of shared memory, this device has 101376"
  bool device_too_old = false;  ///< or too new: another GPU is needed, rather than more memory

  Refusal refusal() const { return {Refusal::Reason::kDevice, reason, {}}; }
};

/// The verdict on a variant, from best to worst; complaints() gives the details.
enum class Verdict { kOk, kFailsAsDeclared, kSkipped, kTrafficDiffers, kWrong, kDefects, kDidNotRun };

/// The results of one run of one variant. Values that a backend cannot determine are absent.
struct VariantResult {
  std::string name;
  std::optional<Skip> skipped = std::nullopt;         ///< if so, nothing else is known
  std::optional<std::string> failure = std::nullopt;  ///< why the kernel did not finish
  std::optional<std::string> fault = std::nullopt;    ///< Variant::fault
  std::optional<Check> check = std::nullopt;          ///< absent with --no-check
  std::optional<std::string> known_failure =
      std::nullopt;                 ///< why the variant is declared to be wrong on these inputs
  std::size_t workspace_bytes = 0;  ///< of the tensors that its kernels leave in HBM for one another
  Traffic predicted = {};
  std::optional<Counters> counted = std::nullopt;
  std::vector<std::vector<LinkBytes>> links = {};  ///< by rank and step; empty if there is one device
  std::vector<std::int64_t> measured_link_bytes =
      {};  ///< that NVLink counters have seen each rank send; may be empty
  std::vector<Defect> defects = {};
  std::optional<BenchResult> bench = std::nullopt;
  TensorMap outputs = {};  ///< empty if the kernel did not finish

  /// The first of these that applies: skipped, did not run, has defects, wrong, traffic differs, fails as
  /// declared, ok.
  Verdict verdict() const;

  /// Whether nothing is wrong except what was declared, so that the exit status does not become 1.
  bool ok() const { return verdict() <= Verdict::kSkipped; }

  /// What is wrong apart from defects, in one sentence each, without the variant's name: why the kernel did
  /// not run, a wrong element of each wrong output, a fault, and both numbers for each tensor whose bytes
  /// differ from the formula.
  std::vector<std::string> complaints() const;

  /// All complaints and the first line of each defect; empty when ok(): `EXPECT_EQ(result.complaint(), "")`.
  std::string complaint() const;
};

/// "y[0, 3] is nan, should be 0.25 (512 of 64000 are wrong; relative error nan, limit 2e-6)".
std::string describe_wrong(const std::string& tensor, const TensorCheck& check);

}  // namespace fa
