/// @file
/// The instructions of compute capability 9.0 that CUDA C++ has only as inline PTX, as functions with similar
/// names. The headers of a kernel include this if GPUSIM is defined, and use the PTX otherwise.
#pragma once

#include <cstdint>

#include "cuda.h"
#include "cuda_runtime.h"
#include "gpusim/runtime/device_hopper.hpp"

namespace gpusim::ptx {

/// An address in shared memory as the instructions take it: in bytes from the start of the block's window.
GPUSIM_INLINE std::uint32_t shared_address(const void* s) { return device::shared_address(s); }

// --- mbarrier ------------------------------------------------------------------------------------------

/// mbarrier.init
GPUSIM_INLINE void mbarrier_init(std::uint64_t* barrier, int arrivals) {
  device::mbarrier_init(barrier, arrivals);
}
/// fence.mbarrier_init
GPUSIM_INLINE void fence_mbarrier_init() { device::fence_mbarrier_init(); }
/// mbarrier.arrive
GPUSIM_INLINE void mbarrier_arrive(std::uint64_t* barrier) { device::mbarrier_arrive(barrier); }
/// mbarrier.arrive.expect_tx
GPUSIM_INLINE void mbarrier_arrive_expect_tx(std::uint64_t* barrier, int bytes) {
  device::mbarrier_arrive_expect_tx(barrier, bytes);
}
/// mbarrier.try_wait.parity, until it succeeds
GPUSIM_INLINE void mbarrier_wait(std::uint64_t* barrier, int parity) {
  device::mbarrier_wait(barrier, parity);
}
/// mbarrier.test_wait.parity
GPUSIM_INLINE bool mbarrier_test_wait(std::uint64_t* barrier, int parity) {
  return device::mbarrier_test_wait(barrier, parity);
}

// --- the copy engine -----------------------------------------------------------------------------------

/// prefetch.tensormap
GPUSIM_INLINE void prefetch_tensor_map(const CUtensorMap* map) { device::prefetch_tensor_map(map); }
/// cp.async.bulk.tensor.3d, from global to shared memory
GPUSIM_INLINE void tma_load(void* s, const CUtensorMap* map, std::uint64_t* barrier, int x, int y, int z) {
  device::tma_load(s, map, barrier, x, y, z);
}
/// cp.async.bulk.tensor.4d, from global to shared memory
GPUSIM_INLINE void tma_load(void* s, const CUtensorMap* map, std::uint64_t* barrier, int x, int y, int z,
                            int w) {
  device::tma_load(s, map, barrier, x, y, z, w);
}
/// cp.async.bulk.tensor.5d, from global to shared memory
GPUSIM_INLINE void tma_load(void* s, const CUtensorMap* map, std::uint64_t* barrier, int x, int y, int z,
                            int w, int v) {
  device::tma_load(s, map, barrier, x, y, z, w, v);
}
/// The same with .L2::cache_hint, which changes nothing here.
GPUSIM_INLINE void tma_load_hint(void* s, const CUtensorMap* map, std::uint64_t* barrier, std::uint64_t,
                                 int x, int y, int z, int w, int v) {
  device::tma_load(s, map, barrier, x, y, z, w, v);
}
/// cp.async.bulk.tensor with .multicast::cluster, which is not modelled.
/// @param blocks  the ctaMask
template <class... Coordinates>
[[gnu::error(
    "multicast::cluster is not simulated: let each block of the cluster load its own copy with "
    "tma_load()")]] void
tma_load_multicast(void* s, const CUtensorMap* map, std::uint64_t* barrier, std::uint16_t blocks,
                   Coordinates... coordinates);
/// cp.async.bulk.tensor.3d, from shared to global memory
GPUSIM_INLINE void tma_store(const CUtensorMap* map, const void* s, int x, int y, int z) {
  device::tma_store(map, s, x, y, z);
}
/// cp.async.bulk.tensor.4d, from shared to global memory
GPUSIM_INLINE void tma_store(const CUtensorMap* map, const void* s, int x, int y, int z, int w) {
  device::tma_store(map, s, x, y, z, w);
}
/// cp.reduce.async.bulk.tensor.3d, add
GPUSIM_INLINE void tma_reduce_add(const CUtensorMap* map, const void* s, int x, int y, int z) {
  device::tma_reduce_add(map, s, x, y, z);
}
/// cp.async.bulk, from global to shared memory
GPUSIM_INLINE void bulk_load(void* s, const void* g, int bytes, std::uint64_t* barrier) {
  device::bulk_load(s, g, bytes, barrier);
}
/// cp.async.bulk, from shared to global memory
GPUSIM_INLINE void bulk_store(void* g, const void* s, int bytes) { device::bulk_store(g, s, bytes); }
/// cp.reduce.async.bulk, add.f32
GPUSIM_INLINE void bulk_reduce_add(float* g, const float* s, int bytes) {
  device::bulk_reduce_add(g, s, bytes);
}
/// cp.async.bulk.commit_group
GPUSIM_INLINE void bulk_commit() { device::bulk_commit(); }
/// cp.async.bulk.wait_group.read
template <int kPending>
GPUSIM_INLINE void bulk_wait_read() {
  device::bulk_wait(kPending, true);
}
/// cp.async.bulk.wait_group
template <int kPending>
GPUSIM_INLINE void bulk_wait() {
  device::bulk_wait(kPending, false);
}

// --- turns ---------------------------------------------------------------------------------------------

/// ld.acquire.gpu.global.s32, until it gives the turn; fence.proxy.async
GPUSIM_INLINE void await_turn(const int* counter, int turn) { device::await_turn(counter, turn); }
/// st.release.gpu.global.s32 of the next turn
GPUSIM_INLINE void pass_turn(int* counter, int turn) { device::pass_turn(counter, turn); }

// --- order ---------------------------------------------------------------------------------------------

/// fence.proxy.async
GPUSIM_INLINE void fence_proxy_async() { device::fence_proxy_async(); }
/// bar.sync
GPUSIM_INLINE void barrier_sync(int id, int threads) { device::barrier_sync(id, threads); }
/// bar.arrive
GPUSIM_INLINE void barrier_arrive(int id, int threads) { device::barrier_arrive(id, threads); }
/// elect.sync
GPUSIM_INLINE bool elect_sync() { return device::elect_sync(); }

}  // namespace gpusim::ptx

#include "gpusim_wgmma.h"
