/// @file
/// What the shim headers call from inside a kernel. Each function takes the place of an instruction; its
/// return address is the source line that reports name, so everything between it and the kernel is inlined.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpusim::device {

struct Index {
  unsigned x, y, z;
};

/// __syncthreads(). @return the sum of all threads' `value`
int sync_threads(int value = 0);

/// kMatrixLoad and kMma are instructions that all lanes have to execute at the same place of the program.
enum class WarpOp : std::uint8_t { kSync, kShuffle, kVote, kMatrixLoad, kMma };

/// Waits until all lanes in `mask` are here, then computes for all of them at once.
///
/// @param operand  this lane's inputs and outputs
/// @param resolve  called once with the operands of all lanes, nullptr where a lane is not in the mask
void warp_rendezvous(unsigned mask, WarpOp op, void* operand, void (*resolve)(void* const* operands));

/// The value that lane `source` of the mask holds; all ones if that lane takes no part.
std::uint64_t shuffle(unsigned mask, std::uint64_t value, int source);
/// Bit i: lane i of the mask voted yes.
unsigned ballot(unsigned mask, bool vote);
/// The sum of all the mask's values; likewise the least, the largest and the bitwise ones.
enum class Reduction : std::uint8_t { kAdd, kMin, kMax, kAnd, kOr, kXor };
std::int64_t warp_reduce(unsigned mask, std::int64_t value, Reduction how);
/// Bit i: lane i goes on from the warp's last synchronisation, in this branch or another.
unsigned active_lanes();
int lane();

/// Replaces *address by op(*address, operand) in one step. @return what was there before
std::uint32_t atomic_update(std::uint32_t* address, std::uint32_t operand,
                            std::uint32_t (*op)(std::uint32_t old, std::uint32_t operand));
std::uint64_t atomic_update(std::uint64_t* address, std::uint64_t operand,
                            std::uint64_t (*op)(std::uint64_t old, std::uint64_t operand));
/// Writes `desired` if *address is `expected`. @return what was there before
std::uint32_t atomic_cas(std::uint32_t* address, std::uint32_t expected, std::uint32_t desired);
std::uint64_t atomic_cas(std::uint64_t* address, std::uint64_t expected, std::uint64_t desired);

/// ldmatrix: loads 1, 2 or 4 matrices of 8 x 8 elements of 16 bits from shared memory, with all 32 lanes.
///
/// @param row         lane 8 * m + r: the address of row r of matrix m, 16 aligned bytes; of other lanes unused
/// @param registers   one per matrix M. Lane l gets M[l / 4][2 * (l % 4)] in the lower and the element behind it in
///                    the upper half; if `transposed`, M[2 * (l % 4)][l / 4] and the element below it
void load_matrices(const void* row, int matrices, bool transposed, std::uint32_t* registers);

/// mma.sync.aligned.m16n8k16: d = a * b + c, with a 16 x 16, b 16 x 8, c and d 16 x 8, and all 32 lanes.
///
/// Elements lie in the lanes as the PTX manual says. The sum of the 16 products is taken in double, in the order of k,
/// then c is added and the result is rounded to fp32 once. A GPU rounds somewhere on the way.
enum class MmaType : std::uint8_t { kFloat16, kBFloat16 };
void mma_m16n8k16(MmaType type, float* d, const std::uint32_t* a, const std::uint32_t* b, const float* c);

/// cp.async: `bytes` of 4, 8 or 16, of which the first `source_bytes` are read and the rest set to zero.
/// Nothing reaches shared memory before the wait.
void copy_async(void* shared, const void* global, std::size_t bytes, std::size_t source_bytes);
void copy_commit();
/// Waits until at most `pending` of this thread's groups are unfinished.
void copy_wait(int pending);

/// A kernel launch: runs body(arguments) for each thread of the grid and returns when all are done.
struct Launch {
  Index grid, block;
  std::size_t dynamic_shared_bytes;
  void (*body)(const void* arguments);
  const void* arguments;
};
void run(const Launch& launch);

}  // namespace gpusim::device
