/// @file
/// The instructions of sm_90a, as functions with the names of PTX. Taught by chapter 09.
///
/// Like ptx.cuh, this is a place where GPU code differs from the simulator's code, which has functions of the
/// same names.
///
/// Functions take places in shared memory as pointers. The mbarriers are in mbarrier.cuh.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "device/mbarrier.cuh"
#include "device/ptx.cuh"

#ifdef GPUSIM
#include <gpusim_hopper.h>
#else

namespace fa::ptx {

// --- the copy engine, TMA ------------------------------------------------------------------------------
// One thread starts a copy of a whole box. The map says how the tensor lies in global memory, how large the
// box is and how its chunks are swizzled in shared memory. Coordinates count elements from the innermost
// dimension. Elements outside the tensor are read as zeros, which count as delivered bytes, and are not
// written.

/// Fetches a map before its first use.
__device__ __forceinline__ void prefetch_tensor_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/// Starts the copy of a box to shared memory. Its bytes count in the current phase of the barrier.
__device__ __forceinline__ void tma_load(void* s, const CUtensorMap* map, std::uint64_t* barrier, int x,
                                         int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
      "[%2];" ::"r"(shared_address(s)),
      "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z)
      : "memory");
}

/// The same in four dimensions.
__device__ __forceinline__ void tma_load(void* s, const CUtensorMap* map, std::uint64_t* barrier, int x,
                                         int y, int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
      "%6}], [%2];" ::"r"(shared_address(s)),
      "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

/// The same in five dimensions.
__device__ __forceinline__ void tma_load(void* s, const CUtensorMap* map, std::uint64_t* barrier, int x,
                                         int y, int z, int w, int v) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
      "%6, %7}], [%2];" ::"r"(shared_address(s)),
      "l"(map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v)
      : "memory");
}

/// The same with a policy for the L2 cache: see create_evict_first_policy().
__device__ __forceinline__ void tma_load_hint(void* s, const CUtensorMap* map, std::uint64_t* barrier,
                                              std::uint64_t policy, int x, int y, int z, int w, int v) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, "
      "{%4, %5, %6, %7, %8}], [%2], %3;" ::"r"(shared_address(s)),
      "l"(map), "r"(shared_address(barrier)), "l"(policy), "r"(x), "r"(y), "r"(z), "r"(w), "r"(v)
      : "memory");
}

/// Starts the copy of a box from shared memory, in the thread's current bulk group.
__device__ __forceinline__ void tma_store(const CUtensorMap* map, const void* s, int x, int y, int z) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
               "r"(shared_address(s)), "r"(x), "r"(y), "r"(z)
               : "memory");
}

/// The same in four dimensions.
__device__ __forceinline__ void tma_store(const CUtensorMap* map, const void* s, int x, int y, int z, int w) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
      "r"(shared_address(s)), "r"(x), "r"(y), "r"(z), "r"(w)
      : "memory");
}

/// tma_store(), but adds to what is there.
__device__ __forceinline__ void tma_reduce_add(const CUtensorMap* map, const void* s, int x, int y, int z) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
      "r"(shared_address(s)), "r"(x), "r"(y), "r"(z)
      : "memory");
}

/// Starts a copy of contiguous bytes to shared memory: addresses and size are multiples of 16.
__device__ __forceinline__ void bulk_load(void* s, const void* g, int bytes, std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          shared_address(s)),
      "l"(g), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

/// Starts a copy of contiguous bytes from shared memory, in the thread's current bulk group.
__device__ __forceinline__ void bulk_store(void* g, const void* s, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(g), "r"(shared_address(s)),
               "r"(bytes)
               : "memory");
}

/// The same for floats, which are added to what is there.
__device__ __forceinline__ void bulk_reduce_add(float* g, const float* s, int bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(g),
               "r"(shared_address(s)), "r"(bytes)
               : "memory");
}

/// Closes a bulk group: the stores that this thread has started since its last group.
__device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

/// Waits until at most the newest kPending groups of this thread are still reading shared memory.
template <int kPending>
__device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

/// Waits until at most the newest kPending groups of this thread are incomplete; the others' writes are
/// visible to it.
template <int kPending>
__device__ __forceinline__ void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

// --- turns ---------------------------------------------------------------------------------------------
// Blocks that change the same memory one after the other. A counter says whose turn it is. Taught by chapter
// 10.

/// Waits until it is `turn`'s turn: blocks with lower numbers have passed on all turns before. What they had
/// written is then visible to this thread, and to the copies that it starts.
__device__ __forceinline__ void await_turn(const int* counter, int turn) {
  int now;
  do {
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
  } while (now != turn);
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

/// Passes the turn on to the next one. Visible before that is what this thread has written, or copies that it
/// has waited for with bulk_wait(), and what other threads wrote before a barrier.
__device__ __forceinline__ void pass_turn(int* counter, int turn) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(counter), "r"(turn + 1) : "memory");
}

// --- order ---------------------------------------------------------------------------------------------

/// What this thread has written to shared memory with ordinary stores is visible to wgmma and to the copy
/// engine; other threads' operations see it after a barrier.
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Named barriers: `threads` of the block, a multiple of 32, take part in barrier `id`, 1 to 15.
__device__ __forceinline__ void barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Arrives without waiting.
__device__ __forceinline__ void barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// True in one lane of the warp, always the same. All 32 lanes execute it.
__device__ __forceinline__ bool elect_sync() {
  std::uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred elected;\n"
      "elect.sync _|elected, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, elected;\n"
      "}"
      : "=r"(elected));
  return elected != 0;
}

// --- registers -----------------------------------------------------------------------------------------

/// Gives registers back: this warpgroup's threads keep kRegisters each. All its warps execute it.
template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

/// Waits until the block has enough free registers, then takes them.
template <int kRegisters>
__device__ __forceinline__ void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// --- wgmma: the products of a warpgroup ----------------------------------------------------------------
// Four warps multiply a 64 x 16 matrix A by a 16 x kN matrix B, and add to 64 x kN accumulators. B is in
// shared memory, A there or in registers. The products run asynchronously: registers of A and accumulators
// must not be touched before the wait.
//
// Accumulator i of lane l of warp w: row 16 * w + l / 4 + 8 * (i / 2 % 2), column 8 * (i / 4) + 2 * (l % 4) +
// i % 2. A in registers: as for mma.m16n8k16, each warp with the 16 rows of its accumulators.

/// Before the first product, and after other instructions have written accumulators or registers of A.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

/// Closes a group: the products that the warpgroup has issued since its last group.
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// The compiler may neither move earlier accesses to these registers below this line nor later ones above it.
template <int kSize>
__device__ __forceinline__ void keep_in_place(float (&registers)[kSize]) {
#pragma unroll
  for (int i = 0; i < kSize; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}

/// Waits until at most the newest kPending groups are in flight. `finished`: the accumulators that may be
/// used from here on, because the compiler does not know which ones the wait changes.
template <int kPending, int... kSizes>
__device__ __forceinline__ void wgmma_wait(float (&... finished)[kSizes]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
  (keep_in_place(finished), ...);
}

// A product names all its accumulators, so there is a text for each number of them.
#define FA_NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define FA_NAMES_16 FA_NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define FA_NAMES_24 FA_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define FA_NAMES_32 FA_NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define FA_NAMES_40 FA_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define FA_NAMES_48 FA_NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define FA_NAMES_56 FA_NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define FA_NAMES_64 FA_NAMES_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define FA_NAMES_72 FA_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define FA_NAMES_80 FA_NAMES_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define FA_NAMES_88 FA_NAMES_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define FA_NAMES_96 FA_NAMES_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define FA_NAMES_104 FA_NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define FA_NAMES_112 FA_NAMES_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define FA_NAMES_120 FA_NAMES_112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define FA_NAMES_128 FA_NAMES_120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define FA_PLACES_8(access, d, i)                                                                         \
  access(d[i]), access(d[i + 1]), access(d[i + 2]), access(d[i + 3]), access(d[i + 4]), access(d[i + 5]), \
      access(d[i + 6]), access(d[i + 7])
#define FA_REGISTERS_8(access, d) FA_PLACES_8(access, d, 0)
#define FA_REGISTERS_16(access, d) FA_REGISTERS_8(access, d), FA_PLACES_8(access, d, 8)
#define FA_REGISTERS_24(access, d) FA_REGISTERS_16(access, d), FA_PLACES_8(access, d, 16)
#define FA_REGISTERS_32(access, d) FA_REGISTERS_24(access, d), FA_PLACES_8(access, d, 24)
#define FA_REGISTERS_40(access, d) FA_REGISTERS_32(access, d), FA_PLACES_8(access, d, 32)
#define FA_REGISTERS_48(access, d) FA_REGISTERS_40(access, d), FA_PLACES_8(access, d, 40)
#define FA_REGISTERS_56(access, d) FA_REGISTERS_48(access, d), FA_PLACES_8(access, d, 48)
#define FA_REGISTERS_64(access, d) FA_REGISTERS_56(access, d), FA_PLACES_8(access, d, 56)
#define FA_REGISTERS_72(access, d) FA_REGISTERS_64(access, d), FA_PLACES_8(access, d, 64)
#define FA_REGISTERS_80(access, d) FA_REGISTERS_72(access, d), FA_PLACES_8(access, d, 72)
#define FA_REGISTERS_88(access, d) FA_REGISTERS_80(access, d), FA_PLACES_8(access, d, 80)
#define FA_REGISTERS_96(access, d) FA_REGISTERS_88(access, d), FA_PLACES_8(access, d, 88)
#define FA_REGISTERS_104(access, d) FA_REGISTERS_96(access, d), FA_PLACES_8(access, d, 96)
#define FA_REGISTERS_112(access, d) FA_REGISTERS_104(access, d), FA_PLACES_8(access, d, 104)
#define FA_REGISTERS_120(access, d) FA_REGISTERS_112(access, d), FA_PLACES_8(access, d, 112)
#define FA_REGISTERS_128(access, d) FA_REGISTERS_120(access, d), FA_PLACES_8(access, d, 120)
// R registers of D, which the product changes or overwrites; then the operands' numbers: A and B, or A's four
// registers and B; whether to add; which are transposed.
#define FA_CHANGES "+f"
#define FA_OVERWRITES "=f"
#define FA_WGMMA(N, R, ACCESS, ADD, TYPE, P0, P1, P2, P3)                                        \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" FA_NAMES_##R \
               "}, %" #P0 ", %" #P1 ", " ADD ", 1, 1, %" #P2 ", %" #P3 ";"                       \
               : FA_REGISTERS_##R(ACCESS, d)                                                     \
               : "l"(a), "l"(b), "n"(kTransposedA), "n"(kTransposedB))
#define FA_WGMMA_REGISTERS(N, R, ACCESS, ADD, TYPE, P0, P1, P2, P3, P4, P5)                      \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" FA_NAMES_##R \
               "}, {%" #P0 ", %" #P1 ", %" #P2 ", %" #P3 "}, %" #P4 ", " ADD ", 1, 1, %" #P5 ";" \
               : FA_REGISTERS_##R(ACCESS, d)                                                     \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kTransposedB))
#define FA_WGMMA_OF(FORM, N, R, ...)                    \
  if constexpr (std::is_same_v<T, __half> && kAdd)      \
    FORM(N, R, FA_CHANGES, "1", "f16", __VA_ARGS__);    \
  else if constexpr (std::is_same_v<T, __half>)         \
    FORM(N, R, FA_OVERWRITES, "0", "f16", __VA_ARGS__); \
  else if constexpr (kAdd)                              \
    FORM(N, R, FA_CHANGES, "1", "bf16", __VA_ARGS__);   \
  else                                                  \
    FORM(N, R, FA_OVERWRITES, "0", "bf16", __VA_ARGS__)

/// Issues d = a * b, or d += a * b if kAdd. All 128 threads of the warpgroup execute it.
///
/// @tparam T  of A and B: __half or __nv_bfloat16
/// @tparam kTransposedA, kTransposedB  whether the matrix lies in shared memory with its rows (A) or columns
///   (B) contiguous
/// @param d  64 x 2 * kSize    @param a, b  descriptors: how the matrices lie in shared memory
template <class T, bool kAdd, bool kTransposedA, bool kTransposedB, int kSize>
__device__ __forceinline__ void wgmma(float (&d)[kSize], std::uint64_t a, std::uint64_t b) {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
  if constexpr (kSize == 8) {
    FA_WGMMA_OF(FA_WGMMA, 16, 8, 8, 9, 10, 11);
  } else if constexpr (kSize == 16) {
    FA_WGMMA_OF(FA_WGMMA, 32, 16, 16, 17, 18, 19);
  } else if constexpr (kSize == 32) {
    FA_WGMMA_OF(FA_WGMMA, 64, 32, 32, 33, 34, 35);
  } else if constexpr (kSize == 40) {
    FA_WGMMA_OF(FA_WGMMA, 80, 40, 40, 41, 42, 43);
  } else if constexpr (kSize == 48) {
    FA_WGMMA_OF(FA_WGMMA, 96, 48, 48, 49, 50, 51);
  } else if constexpr (kSize == 56) {
    FA_WGMMA_OF(FA_WGMMA, 112, 56, 56, 57, 58, 59);
  } else if constexpr (kSize == 64) {
    FA_WGMMA_OF(FA_WGMMA, 128, 64, 64, 65, 66, 67);
  } else if constexpr (kSize == 80) {
    FA_WGMMA_OF(FA_WGMMA, 160, 80, 80, 81, 82, 83);
  } else if constexpr (kSize == 88) {
    FA_WGMMA_OF(FA_WGMMA, 176, 88, 88, 89, 90, 91);
  } else if constexpr (kSize == 96) {
    FA_WGMMA_OF(FA_WGMMA, 192, 96, 96, 97, 98, 99);
  } else if constexpr (kSize == 128) {
    FA_WGMMA_OF(FA_WGMMA, 256, 128, 128, 129, 130, 131);
  } else {
    static_assert(kSize == 0, "no such product");
  }
}

/// The same with A in registers, which must not change before the wait.
template <class T, bool kAdd, bool kTransposedB, int kSize>
__device__ __forceinline__ void wgmma(float (&d)[kSize], const std::uint32_t (&a)[4], std::uint64_t b) {
  static_assert(std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>);
  if constexpr (kSize == 8) {
    FA_WGMMA_OF(FA_WGMMA_REGISTERS, 16, 8, 8, 9, 10, 11, 12, 13);
  } else if constexpr (kSize == 16) {
    FA_WGMMA_OF(FA_WGMMA_REGISTERS, 32, 16, 16, 17, 18, 19, 20, 21);
  } else if constexpr (kSize == 32) {
    FA_WGMMA_OF(FA_WGMMA_REGISTERS, 64, 32, 32, 33, 34, 35, 36, 37);
  } else if constexpr (kSize == 40) {
    FA_WGMMA_OF(FA_WGMMA_REGISTERS, 80, 40, 40, 41, 42, 43, 44, 45);
  } else if constexpr (kSize == 48) {
    FA_WGMMA_OF(FA_WGMMA_REGISTERS, 96, 48, 48, 49, 50, 51, 52, 53);
  } else if constexpr (kSize == 56) {
    FA_WGMMA_OF(FA_WGMMA_REGISTERS, 112, 56, 56, 57, 58, 59, 60, 61);
  } else if constexpr (kSize == 64) {
    FA_WGMMA_OF(FA_WGMMA_REGISTERS, 128, 64, 64, 65, 66, 67, 68, 69);
  } else if constexpr (kSize == 80) {
    FA_WGMMA_OF(FA_WGMMA_REGISTERS, 160, 80, 80, 81, 82, 83, 84, 85);
  } else if constexpr (kSize == 88) {
    FA_WGMMA_OF(FA_WGMMA_REGISTERS, 176, 88, 88, 89, 90, 91, 92, 93);
  } else if constexpr (kSize == 96) {
    FA_WGMMA_OF(FA_WGMMA_REGISTERS, 192, 96, 96, 97, 98, 99, 100, 101);
  } else if constexpr (kSize == 128) {
    FA_WGMMA_OF(FA_WGMMA_REGISTERS, 256, 128, 128, 129, 130, 131, 132, 133);
  } else {
    static_assert(kSize == 0, "no such product");
  }
}

}  // namespace fa::ptx

#endif
