#include "gpusim/runtime/device_hopper.hpp"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "gpusim/runtime/block.hpp"

namespace gpusim::device {
namespace {

#define GPUSIM_CALLER __builtin_return_address(0)

struct ElectOperand {
  bool elected;
};
void resolve_elect(void* const* lanes) {
  for (int i = 0; i < kWarpSize; ++i) {
    if (lanes[i] != nullptr) static_cast<ElectOperand*>(lanes[i])->elected = i == 0;
  }
}

/// @param at  as many coordinates as the instruction has
void copy_box(BulkCopy::Kind kind, const CUtensorMap* map, const void* shared, const void* barrier,
              std::initializer_list<int> at, const char* instruction, const void* pc) {
  current_runner->require(90, instruction, pc);
  BulkCopy copy{.kind = kind};
  std::copy(at.begin(), at.end(), copy.at.begin());
  std::memcpy(static_cast<void*>(&copy.map), map, sizeof copy.map);
  copy.shared = reinterpret_cast<std::uintptr_t>(shared);
  copy.barrier = reinterpret_cast<std::uintptr_t>(barrier);
  current_runner->check_map(copy.map, map, int(at.size()), pc);
  copy.bytes = copy.map.box_bytes();
  current_runner->start_copy(std::move(copy), pc);
}

void copy_bytes(BulkCopy::Kind kind, const void* global, const void* shared, int bytes, const void* barrier,
                const char* instruction, const void* pc) {
  current_runner->require(90, instruction, pc);
  BulkCopy copy{.kind = kind};
  copy.global = reinterpret_cast<std::uintptr_t>(global);
  copy.shared = reinterpret_cast<std::uintptr_t>(shared);
  copy.bytes = std::size_t(std::ptrdiff_t(bytes));
  copy.barrier = reinterpret_cast<std::uintptr_t>(barrier);
  current_runner->start_copy(std::move(copy), pc);
}

constexpr const char* kTensorCopy = "cp.async.bulk.tensor";
constexpr const char* kTensorReduction = "cp.reduce.async.bulk.tensor";
constexpr const char* kCopy = "cp.async.bulk";
constexpr const char* kReduction = "cp.reduce.async.bulk";

}  // namespace

std::uint32_t shared_address(const void* pointer) { return current_runner->shared_address(pointer); }
void* shared_pointer(std::uint32_t address) { return current_runner->shared_pointer(address); }

void mbarrier_init(std::uint64_t* barrier, int arrivals) {
  current_runner->mbarrier_init(barrier, arrivals, GPUSIM_CALLER);
}
void fence_mbarrier_init() { current_runner->fence(Operation::Kind::kFenceInit, GPUSIM_CALLER); }
void mbarrier_arrive(std::uint64_t* barrier) { current_runner->mbarrier_arrive(barrier, 0, GPUSIM_CALLER); }
void mbarrier_arrive_expect_tx(std::uint64_t* barrier, int bytes) {
  current_runner->mbarrier_arrive(barrier, bytes, GPUSIM_CALLER);
}
void mbarrier_wait(std::uint64_t* barrier, int parity) {
  current_runner->mbarrier_wait(barrier, parity, false, GPUSIM_CALLER);
}
bool mbarrier_test_wait(std::uint64_t* barrier, int parity) {
  return current_runner->mbarrier_test_wait(barrier, parity, GPUSIM_CALLER);
}
void mbarrier_wait_cluster(std::uint64_t* barrier, int parity) {
  current_runner->mbarrier_wait(barrier, parity, true, GPUSIM_CALLER);
}

void mbarrier_arrive_cluster(std::uint64_t* barrier, bool relaxed) {
  current_runner->arrive_in_cluster(barrier, relaxed, GPUSIM_CALLER);
}
void store_async(void* to, const void* value, std::size_t bytes, std::uint64_t* barrier) {
  BulkCopy copy{.kind = BulkCopy::Kind::kValue};
  copy.shared = reinterpret_cast<std::uintptr_t>(to);
  copy.source = reinterpret_cast<std::uintptr_t>(value);
  copy.bytes = bytes;
  copy.barrier = reinterpret_cast<std::uintptr_t>(barrier);
  current_runner->start_copy_in_cluster(std::move(copy), GPUSIM_CALLER);
}
void bulk_copy_cluster(void* to, const void* from, int bytes, std::uint64_t* barrier) {
  BulkCopy copy{.kind = BulkCopy::Kind::kToBlock};
  copy.shared = reinterpret_cast<std::uintptr_t>(to);
  copy.source = reinterpret_cast<std::uintptr_t>(from);
  copy.bytes = std::size_t(std::ptrdiff_t(bytes));
  copy.barrier = reinterpret_cast<std::uintptr_t>(barrier);
  current_runner->start_copy_in_cluster(std::move(copy), GPUSIM_CALLER);
}

void prefetch_tensor_map(const CUtensorMap*) {
  current_runner->require(90, "prefetch.tensormap", GPUSIM_CALLER);
}
void tma_load(void* shared, const CUtensorMap* map, std::uint64_t* barrier, int x, int y, int z) {
  copy_box(BulkCopy::Kind::kLoad, map, shared, barrier, {x, y, z}, kTensorCopy, GPUSIM_CALLER);
}
void tma_load(void* shared, const CUtensorMap* map, std::uint64_t* barrier, int x, int y, int z, int w) {
  copy_box(BulkCopy::Kind::kLoad, map, shared, barrier, {x, y, z, w}, kTensorCopy, GPUSIM_CALLER);
}
void tma_load(void* shared, const CUtensorMap* map, std::uint64_t* barrier, int x, int y, int z, int w,
              int v) {
  copy_box(BulkCopy::Kind::kLoad, map, shared, barrier, {x, y, z, w, v}, kTensorCopy, GPUSIM_CALLER);
}
void tma_store(const CUtensorMap* map, const void* shared, int x, int y, int z) {
  copy_box(BulkCopy::Kind::kStore, map, shared, nullptr, {x, y, z}, kTensorCopy, GPUSIM_CALLER);
}
void tma_store(const CUtensorMap* map, const void* shared, int x, int y, int z, int w) {
  copy_box(BulkCopy::Kind::kStore, map, shared, nullptr, {x, y, z, w}, kTensorCopy, GPUSIM_CALLER);
}
void tma_reduce_add(const CUtensorMap* map, const void* shared, int x, int y, int z) {
  copy_box(BulkCopy::Kind::kAdd, map, shared, nullptr, {x, y, z}, kTensorReduction, GPUSIM_CALLER);
}
void bulk_load(void* shared, const void* global, int bytes, std::uint64_t* barrier) {
  copy_bytes(BulkCopy::Kind::kLoad, global, shared, bytes, barrier, kCopy, GPUSIM_CALLER);
}
void bulk_store(void* global, const void* shared, int bytes) {
  copy_bytes(BulkCopy::Kind::kStore, global, shared, bytes, nullptr, kCopy, GPUSIM_CALLER);
}
void bulk_reduce_add(float* global, const float* shared, int bytes) {
  copy_bytes(BulkCopy::Kind::kAdd, global, shared, bytes, nullptr, kReduction, GPUSIM_CALLER);
}
void bulk_commit() {
  current_runner->require(90, kCopy, GPUSIM_CALLER);
  current_runner->bulk_commit(GPUSIM_CALLER);
}
void bulk_wait(int pending, bool read_only) { current_runner->bulk_wait(pending, read_only, GPUSIM_CALLER); }

void fence_proxy_async() { current_runner->fence(Operation::Kind::kFenceProxy, GPUSIM_CALLER); }
void barrier_sync(int id, int threads) { current_runner->barrier_sync(id, threads, GPUSIM_CALLER); }
void barrier_arrive(int id, int threads) { current_runner->barrier_arrive(id, threads, GPUSIM_CALLER); }

bool elect_sync() {
  current_runner->require(90, "elect.sync", GPUSIM_CALLER);
  ElectOperand operand{false};
  current_runner->warp_rendezvous(~0u, WarpOp::kElect, &operand, &resolve_elect, GPUSIM_CALLER);
  return operand.elected;
}

}  // namespace gpusim::device
