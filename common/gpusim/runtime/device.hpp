/// @file
/// The functions that the shim headers call from inside a kernel. Each represents an instruction; its return
/// address gives the source line in reports, so everything between it and the kernel is inlined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace gpusim::device {

struct Index {
  unsigned x, y, z;
};

/// __syncthreads(). @return the sum of all threads' `value`
int sync_threads(int value = 0);

/// Those of a cluster are instructions that all lanes must execute that have not returned. From kMatrixLoad
/// on: those that all lanes must execute at the same place in the program. Those of a warpgroup are issued
/// warp by warp; a kWarpgroupWait may have to wait for the other warps.
enum class WarpOp : std::uint8_t {
  kSync,
  kShuffle,
  kVote,
  kActive,  ///< __activemask(): of no lanes in particular
  kClusterArrive,
  kClusterArriveRelaxed,
  kClusterWait,
  kMatrixLoad,
  kMma,
  kElect,
  kTranspose,
  kWarpgroup,
  kWarpgroupWait
};

/// Waits until all lanes in `mask` have arrived, then computes for all of them at once.
///
/// @param operand  this lane's inputs and outputs
/// @param resolve  called once with the operands of all lanes, nullptr for lanes outside the mask
void warp_rendezvous(unsigned mask, WarpOp op, void* operand, void (*resolve)(void* const* operands));

/// The value that lane `source` of the mask holds; all ones, and a report, if that lane takes no part.
std::uint64_t shuffle(unsigned mask, std::uint64_t value, int source);
/// Bit i: lane i of the mask voted yes.
unsigned ballot(unsigned mask, bool vote);
/// The sum of the values of all lanes in the mask; likewise the minimum, the maximum and the bitwise
/// operations.
enum class Reduction : std::uint8_t { kAdd, kMin, kMax, kAnd, kOr, kXor };
std::int64_t warp_reduce(unsigned mask, std::int64_t value, Reduction how);
/// Bit i: lane i of the mask has the same value as this one.
unsigned match(unsigned mask, std::uint64_t value);
/// Bit i: lane i has come to this call, in the same iteration of the loops around it.
unsigned active_lanes();
int lane();

/// __threadfence(). It orders the accesses of this thread, and waits for no other.
void thread_fence();
/// griddepcontrol.wait and .launch_dependents. Here each kernel begins when the one before it has ended; what
/// may go wrong if it begins earlier is reported.
void depend_on_kernel_before();
void let_next_kernel_begin();
/// Ends the thread, and reports it.
[[noreturn]] void trap();
/// Whether this is an address in the shared memory of this block.
bool is_shared(const void* address);
/// The address in the window that a pointer has, to shared memory of any block of the cluster.
std::uint32_t window_address(const void* pointer);
/// A pointer for such an address, and also for one that is in no variable.
void* pointer_of_window(std::uint32_t address);

/// An atomic operation of the system's scope: the host may use the word at the same time.
void note_system_scope(const void* address);
/// Replaces *address by op(*address, operand) atomically. @return the previous value
std::uint16_t atomic_update(std::uint16_t* address, std::uint16_t operand,
                            std::uint16_t (*op)(std::uint16_t old, std::uint16_t operand));
std::uint32_t atomic_update(std::uint32_t* address, std::uint32_t operand,
                            std::uint32_t (*op)(std::uint32_t old, std::uint32_t operand));
std::uint64_t atomic_update(std::uint64_t* address, std::uint64_t operand,
                            std::uint64_t (*op)(std::uint64_t old, std::uint64_t operand));
/// The same, which releases what is ordered before it to blocks that acquire it later, and acquires.
std::uint32_t atomic_acq_rel(std::uint32_t* address, std::uint32_t operand,
                             std::uint32_t (*op)(std::uint32_t old, std::uint32_t operand));
/// Adds `count` floats, 2 or 4, to adjacent ones in global memory, each atomically: one access, of sm_90.
/// @param values  in: what to add; out: the previous values
void atomic_add_vector(float* address, float* values, int count);
/// Writes `desired` if *address is `expected`. @return the previous value
std::uint16_t atomic_cas(std::uint16_t* address, std::uint16_t expected, std::uint16_t desired);
std::uint32_t atomic_cas(std::uint32_t* address, std::uint32_t expected, std::uint32_t desired);
std::uint64_t atomic_cas(std::uint64_t* address, std::uint64_t expected, std::uint64_t desired);

/// ldmatrix: loads 1, 2 or 4 8 x 8 matrices of 16-bit elements from shared memory, with all 32 lanes.
///
/// @param row         lane 8 * m + r: the address of row r of matrix m, 16 aligned bytes; ignored in other
///   lanes
/// @param registers   one per matrix M. Lane l gets M[l / 4][2 * (l % 4)] in the lower and the next element
///                    of the row in the upper half; if `transposed`, M[2 * (l % 4)][l / 4] and the element
///                    below it
void load_matrices(const void* row, int matrices, bool transposed, std::uint32_t* registers);

/// movmatrix.trans: transposes an 8 x 8 matrix of 16-bit elements, which the 32 lanes hold as load_matrices()
/// would leave it.
std::uint32_t transpose_matrix(std::uint32_t pair);

/// mma.sync.aligned.m16n8k16: d = a * b + c, with a 16 x 16, b 16 x 8, c and d 16 x 8, and all 32 lanes.
///
/// The PTX manual says which lane holds which element. The 16 products are summed in double, in the order of
/// k, then c is added and the result is rounded to fp32 once. A GPU also rounds intermediate results.
enum class MmaType : std::uint8_t { kFloat16, kBFloat16 };
///
/// @param since  the first compute capability that has the instruction which this is or is a part of: 80 for
///   8.0
void mma_m16n8k16(MmaType type, float* d, const std::uint32_t* a, const std::uint32_t* b, const float* c,
                  int since = 80);

/// cp.async: copies `bytes` (4, 8 or 16); the first `source_bytes` are read, the rest become zeros.
/// Nothing reaches shared memory before the wait.
void copy_async(void* shared, const void* global, std::size_t bytes, std::size_t source_bytes);
void copy_commit();
/// Waits until at most `pending` of this thread's groups are unfinished.
void copy_wait(int pending);

/// The mark of a value that is missing yet.
inline constexpr std::uint32_t kMissing = 0xffffffff;
/// Stores a value for blocks with higher numbers in the grid, in place of the mark: st.relaxed.gpu.
void publish(std::uint32_t* to, std::uint32_t bits);
/// cp.async of 4 bytes that may have been published by then. Here they never are: it brings the mark.
void copy_published_async(void* shared, const void* global);
/// Waits until a block with a lower number has published the word: ld.relaxed.gpu, again and again. On a GPU
/// nobody knows how often, so these loads do not count.
std::uint32_t await_published(const std::uint32_t* from);

/// Waits until blocks with lower numbers have passed on all turns before this one: ld.acquire.gpu, again and
/// again. As above, these loads do not count. The counter of turns begins with 0.
void await_turn(const int* counter, int turn);
/// The thread passes its turn on, which it has waited for: st.release.gpu.
void pass_turn(int* counter, int turn);

/// The number of this block in its cluster.
int cluster_rank();
/// The two halves of the cluster's barrier. All lanes of the warp that have not returned execute them
/// together.
/// @param relaxed  releases nothing
void cluster_arrive(bool relaxed);
void cluster_wait();
/// The address that a variable of shared memory has in the block with this rank.
void* map_shared_rank(const void* shared, int rank);

/// memcpy() and memset(), one byte at a time. Outside of kernels they are just that.
void copy_bytes(void* to, const void* from, std::size_t bytes);
void fill_bytes(void* to, int value, std::size_t bytes);

/// A kernel launch: body(arguments) for each thread of the grid.
struct Launch {
  Index grid, block;
  std::size_t dynamic_shared_bytes;
  void (*body)(const void* arguments);
  const void* arguments;
  const void* kernel;                              ///< its address
  std::initializer_list<std::int64_t> parameters;  ///< the arguments; 0 for those that are no integers
  std::size_t argument_bytes = 0;                  ///< at `arguments`
  Index cluster = {0, 0, 0};  ///< blocks in each direction; 0: the launch has no clusters
  const void* stream = nullptr;
  bool cooperative = false;  ///< all blocks are there at once: see ResidentGrid
  bool overlaps = false;     ///< it may begin before the kernel before it in the stream has ended
  /// The blocks from this number on may not have ended when it begins; 0: all have.
  std::uint32_t unfinished_from = 0;
  bool finds_races = true;  ///< otherwise many like it have had none: see KernelTable::is_repetition()
};
/// The most static shared memory of a kernel: ptxas refuses more.
inline constexpr std::size_t kMostStaticShared = 48 * 1024;
/// Returns when all threads are done. @return  bytes of the static shared variables that a block has used, at
///                                             most
std::size_t run(const Launch& launch);

}  // namespace gpusim::device
