/// @file
/// The functions that shim/gpusim_inline_ptx.h calls from inside a kernel, besides those of device.hpp and
/// the headers beside it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpusim/runtime/device.hpp"

struct CUtensorMap;

namespace gpusim::device {

/// Numbers of the machine: this multiprocessor's and how many there are, a clock in cycles and one in
/// nanoseconds.
std::uint32_t multiprocessor();
std::uint32_t multiprocessors();
std::uint64_t clock_cycles();
std::uint64_t clock_nanoseconds();
std::uint32_t dynamic_shared_bytes();

/// A product of small matrices by a warp, with operands as the PTX manual says which lane holds what.
enum class Element : std::uint8_t {
  kFloat16,
  kBFloat16,
  kTf32,
  kFloat64,
  kS8,
  kU8,
  kE4m3,
  kE5m2,
  kFloat32,
  kS32
};
struct MmaSpec {
  int m, n, k;
  Element a, b, d;
};
void mma_any(const MmaSpec& spec, void* d, const void* a, const void* b, const void* c);
/// stmatrix: the reverse of load_matrices().
void store_matrices(void* row, int matrices, bool transposed, const std::uint32_t* registers);

/// mbarrier.expect_tx: announces bytes, without an arrival.
void mbarrier_expect_tx(std::uint64_t* barrier, int bytes);
/// The parity of the phase that the barrier is in, for a thread that is about to arrive.
int mbarrier_parity(std::uint64_t* barrier);
/// mbarrier.try_wait: waits as long as other threads go on. @return  whether the phase is complete
bool mbarrier_try_wait(std::uint64_t* barrier, int parity, bool of_cluster);

/// The copies of device_hopper.hpp, for any number of dimensions.
void tensor_load(void* shared, const CUtensorMap* map, std::uint64_t* barrier, const int* at, int rank);
void tensor_store(const CUtensorMap* map, const void* shared, const int* at, int rank);
void tensor_reduce_add(const CUtensorMap* map, const void* shared, const int* at, int rank);

/// wgmma.wait_group, which covers all registers of the products that are finished.
void wgmma_wait_for_all(int pending);
/// The registers of operand A in one array: theirs if they follow each other in memory, and otherwise a copy.
const std::uint32_t* wgmma_operand(const std::uint32_t* const* registers);
/// The accumulators of a product have to be one array, in order. Ends the thread.
[[noreturn]] void refuse_scattered_accumulators();

}  // namespace gpusim::device
