/// @file
/// Host interface of the simulator: names for allocations, and the report of what kernels did.
///
/// A program that uses only the CUDA runtime API needs none of this: at exit, the simulator then prints the
/// defects to standard error and makes the exit status non-zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gpusim {

/// Traffic between the multiprocessors and global memory, as warps request it.
///
/// Bytes are the distinct bytes that a warp instruction requests: 32 lanes that read the same float request
/// 4 bytes. A sector is 32 aligned bytes; a request is one warp instruction. Atomics count in both bytes
/// (each atomic reads and writes what it changes) and in `atomic_*`, not in the sectors and requests of
/// loads and stores, which is how Nsight Compute divides them.
struct GlobalCounters {
  std::int64_t read_bytes = 0, write_bytes = 0;
  std::int64_t read_sectors = 0, write_sectors = 0;
  std::int64_t read_requests = 0, write_requests = 0;
  std::int64_t atomic_sectors = 0, atomic_requests = 0;

  GlobalCounters& operator+=(const GlobalCounters& other);
};

/// Shared-memory traffic. A wavefront is one pass over the 32 banks; conflicts are wavefronts - ideal.
struct SharedCounters {
  std::int64_t bytes_per_block = 0;  ///< static and dynamic, the largest of all launches
  std::int64_t load_wavefronts = 0, load_wavefronts_ideal = 0;
  std::int64_t store_wavefronts = 0, store_wavefronts_ideal = 0;
  std::int64_t remote_bytes = 0, remote_requests = 0;  ///< accesses to that of other blocks of the cluster
};

/// Warp-wide and block-wide operations. `barriers` counts __syncthreads() once per warp, as a warp issues it.
struct OpCounters {
  std::int64_t barriers = 0, warp_barriers = 0, shuffles = 0, votes = 0;
  std::int64_t cluster_barriers = 0;  ///< arrivals, once per warp
  std::int64_t transposes = 0;        ///< movmatrix, once per warp
  /// Products of 16-bit matrices, as instructions: mma.m16n8k16 once per warp, wgmma.m64nNk16 once per
  /// warpgroup.
  std::int64_t mma = 0, wgmma = 0;
  /// All of them in units of 16 x 8 x 16: an mma counts 1, a wgmma N / 2.
  std::int64_t mma_units = 0;
  /// Copies that the copy engine makes: boxes of tensors, and runs of contiguous bytes.
  std::int64_t bulk_loads = 0, bulk_stores = 0;
  std::int64_t bulk_load_bytes = 0;  ///< that land in shared memory: whole boxes, zeros included
  /// Instructions of warps, in the way of `barriers`. A named barrier counts for those that wait there and
  /// those that only arrive.
  std::int64_t mbarrier_waits = 0, mbarrier_arrivals = 0, named_barriers = 0;
  std::int64_t votes_beside_products = 0;  ///< of the votes, those of warps with a wgmma in flight
  /// Loads, stores and atomic operations of warps with a wgmma in flight, on any memory, once per
  /// instruction.
  std::int64_t accesses_beside_products = 0;
  std::int64_t arrivals_beside_products = 0;  ///< of the mbarrier_arrivals, those of such warps
  /// For each arrival at an mbarrier of a warp that has waited for products: the votes, and the waits at
  /// mbarriers and named barriers, that it has executed since its last wait for products.
  std::int64_t steps_before_arrivals = 0;
  /// For each wait of a warp at an mbarrier: the arrivals at mbarriers that it has executed until then.
  std::int64_t arrivals_before_waits = 0;
  std::int64_t named_barrier_threads = 0;  ///< of the named_barriers, the threads that each is for
  /// Kernels that may run during a transfer to or from another device: one that was enqueued before them, and
  /// for which their stream does not wait.
  std::int64_t kernels_beside_transfers = 0;
  /// Groups of asynchronous copies or of products, once per warp, that have been waited for too early: their
  /// threads have executed another wait that covers them before anything of them was read for the first time.
  /// A group of products counts only if the first wait has finished an older one as well.
  std::int64_t over_waited = 0;
};

enum class DefectKind {
  kRace,
  kOutOfBounds,
  kMisaligned,
  kUninitializedRead,
  kBarrierDivergence,
  kUnsupported,
  kMisuse,        ///< of an mbarrier, a named barrier, the copy engine, the number of registers
  kMissingFence,  ///< between a store and an operation of the asynchronous proxy
  kWgmma,         ///< misuse of the products of a warpgroup and their registers
  kNote           ///< no defect, but worth a look: in Report::notes only
};

/// "race", "out_of_bounds", "misaligned", "uninitialized_read", "barrier_divergence", "unsupported",
/// "misuse", "missing_fence", "wgmma", "note".
const char* name_of(DefectKind kind);

/// One defect: all hazards between the same pair of source lines.
struct Defect {
  DefectKind kind;
  std::string message;     ///< in the words of compute-sanitizer, one or more lines, no trailing newline
  std::int64_t count = 0;  ///< how often it happened
};

/// Everything that kernels have done since the last take_report().
struct Report {
  std::int64_t launches = 0;
  std::map<std::string, GlobalCounters> tensors;  ///< by allocation name
  SharedCounters shared;
  OpCounters ops;
  std::map<std::string, std::int64_t> early_waits;  ///< ops.over_waited, by the source line of the wait
  /// With GPUSIM_PROFILE=1: the basic blocks (code without a jump) that threads have run through in each
  /// function of a kernel and in those that it calls, also if they are inlined, once per thread. Empty
  /// without. Depends on the compiler.
  std::map<std::string, std::int64_t> blocks_of_function;
  std::vector<Defect> defects;
  std::vector<Defect> notes;  ///< of lower rank: they do not change the exit status

  GlobalCounters total() const;
};

/// What a process has exchanged with another one's device.
struct LinkCounters {
  std::int64_t sent_bytes = 0, received_bytes = 0;
};

/// The exchanges with each peer since the last call, by its rank.
std::map<int, LinkCounters> take_links();

/// Counts an exchange. @param peer  the other one's rank
void account_link(int peer, std::int64_t sent_bytes, std::int64_t received_bytes);

/// Returns the report of all launches since the last call, and starts a new one.
Report take_report();

/// The defects as text, with "========= " before every line and the summary line that compute-sanitizer ends
/// with.
std::string format_defects(const Report& report);

/// Gives an allocation the name under which reports show it. @param pointer  what cudaMalloc returned
void name_allocation(const void* pointer, const std::string& name);

/// The same for a tensor that begins at the pointer, whose allocation may be larger: recordings show its
/// elements.
/// @param shape  row-major    @param type  of an element: "f32", "f16", "bf16", "i32", ...
void name_allocation(const void* pointer, const std::string& name, const std::vector<std::int64_t>& shape,
                     const std::string& type);

/// Makes reads of these bytes a defect until something writes them.
void mark_uninitialized(const void* pointer, std::size_t bytes);

/// The rule that the latest call of cuTensorMapEncodeTiled() has broken; empty if it succeeded.
std::string last_tensor_map_error();

/// Why GPUSIM_DEVICE names no device that can be emulated; nothing if it does, or is not set. A program that
/// does not ask ends with this message and status 2 when it uses the device.
std::optional<std::string> why_no_device();

// For library routines that the simulator computes on the host instead of in a kernel.

/// A routine begins, in a stream: what is accounted from now on belongs to it. @param stream  a cudaStream_t
void begin_routine(const void* stream, const std::string& routine);

/// Counts and checks one read of each byte of a range, under the name of its allocation: bytes, sectors, and
/// one request for each 512 bytes, the most that the 32 lanes of a warp can request at once.
///
/// Reading outside an allocation, or what nothing has written, is a defect.
///
/// @param routine  the reader that the report names: "cublasSgemmStridedBatched"
/// @return  whether the host may read there: all of the range is in one allocation
bool account_read(const void* pointer, std::size_t bytes, const std::string& routine);

/// The same for a write of each byte, which then counts as written.
bool account_write(const void* pointer, std::size_t bytes, const std::string& routine);

}  // namespace gpusim
