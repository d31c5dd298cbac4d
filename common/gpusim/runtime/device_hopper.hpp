/// @file
/// The functions that shim/gpusim_hopper.h calls from inside a kernel: see device.hpp. What each of them does
/// is said there and in the PTX manual, under the instruction's name.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUtensorMap;

namespace gpusim::device {

/// Below 2^18. Its lowest 10 bits are those of the pointer.
std::uint32_t shared_address(const void* pointer);
/// What shared_address() has made of a pointer into the same variable; nullptr if it has not.
void* shared_pointer(std::uint32_t address);

void mbarrier_init(std::uint64_t* barrier, int arrivals);
void fence_mbarrier_init();
void mbarrier_arrive(std::uint64_t* barrier);
void mbarrier_arrive_expect_tx(std::uint64_t* barrier, int bytes);
void mbarrier_wait(std::uint64_t* barrier, int parity);
bool mbarrier_test_wait(std::uint64_t* barrier, int parity);
/// Acquires at cluster scope.
void mbarrier_wait_cluster(std::uint64_t* barrier, int parity);

// Of any block of the cluster:
void mbarrier_arrive_cluster(std::uint64_t* barrier, bool relaxed);
void store_async(void* to, const void* value, std::size_t bytes, std::uint64_t* barrier);
void bulk_copy_cluster(void* to, const void* from, int bytes, std::uint64_t* barrier);

void prefetch_tensor_map(const CUtensorMap* map);
void tma_load(void* shared, const CUtensorMap* map, std::uint64_t* barrier, int x, int y, int z);
void tma_load(void* shared, const CUtensorMap* map, std::uint64_t* barrier, int x, int y, int z, int w);
void tma_load(void* shared, const CUtensorMap* map, std::uint64_t* barrier, int x, int y, int z, int w,
              int v);
void tma_store(const CUtensorMap* map, const void* shared, int x, int y, int z);
void tma_store(const CUtensorMap* map, const void* shared, int x, int y, int z, int w);
void tma_reduce_add(const CUtensorMap* map, const void* shared, int x, int y, int z);
void bulk_load(void* shared, const void* global, int bytes, std::uint64_t* barrier);
void bulk_store(void* global, const void* shared, int bytes);
void bulk_reduce_add(float* global, const float* shared, int bytes);
void bulk_commit();
/// @param read_only  only until the groups have read shared memory
void bulk_wait(int pending, bool read_only);

void fence_proxy_async();
void barrier_sync(int id, int threads);
void barrier_arrive(int id, int threads);
bool elect_sync();

}  // namespace gpusim::device
