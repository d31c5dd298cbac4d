/// @file
/// Instructions for which CUDA C++ has no function. Taught by chapter 06.
///
/// This is the only place where GPU code differs from the simulator's code, which has functions of the same
/// names.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#ifdef GPUSIM
#include <gpusim_ptx.h>
namespace fa {
namespace ptx = gpusim::ptx;
}
#else

namespace fa::ptx {

/// ldmatrix: loads kMatrices 8 x 8 matrices of 16-bit elements from shared memory. All 32 lanes execute it.
///
/// @param row  in lane 8 * i + r: row r of matrix i, 16 aligned bytes of shared memory
template <bool kTransposed, int kMatrices>
__device__ __forceinline__ void ldmatrix(std::uint32_t (&r)[kMatrices], const void* row) {
  static_assert(kMatrices == 1 || kMatrices == 2 || kMatrices == 4);
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kMatrices == 1 && !kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"(address)
                 : "memory");
  } else if constexpr (kMatrices == 1) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
                 : "=r"(r[0])
                 : "r"(address)
                 : "memory");
  } else if constexpr (kMatrices == 2 && !kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(address)
                 : "memory");
  } else if constexpr (kMatrices == 2) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(address)
                 : "memory");
  } else if constexpr (!kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
  }
}

/// mma: c += a * b, with a 16 x 16, b 16 x 8 and c 16 x 8. All 32 lanes execute it. Devices before sm_80 do
/// not have it; a chapter whose other kernels run on these is compiled for them all the same, and the harness
/// skips the ones that use it.
__device__ __forceinline__ void mma_m16n8k16_f16(float (&c)[4], const std::uint32_t (&a)[4],
                                                 const std::uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  __trap();
#endif
}
__device__ __forceinline__ void mma_m16n8k16_bf16(float (&c)[4], const std::uint32_t (&a)[4],
                                                  const std::uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  __trap();
#endif
}

/// movmatrix: transposes an 8 x 8 matrix of 16-bit elements, which the lanes hold as ldmatrix would leave it.
/// All 32 lanes execute it.
__device__ __forceinline__ std::uint32_t movmatrix_transposed(std::uint32_t pair) {
  std::uint32_t transposed;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(pair));
  return transposed;
}

/// st.relaxed.gpu: stores a value that other blocks of the launch wait for. See published.cuh.
__device__ __forceinline__ void publish(std::uint32_t* to, std::uint32_t bits) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(bits) : "memory");
}
/// cp.async of four aligned bytes that another block may not have published yet.
__device__ __forceinline__ void copy_published_async(void* s, const void* g) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(s));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(g) : "memory");
}
/// ld.relaxed.gpu, again and again until another block has published a value: all ones is none.
__device__ __forceinline__ std::uint32_t await_published(const std::uint32_t* from) {
  std::uint32_t bits;
  do {
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(bits) : "l"(from) : "memory");
  } while (bits == 0xffffffff);
  return bits;
}

/// atom.acq_rel: adds n to a counter in global memory. What comes before it in this block, and what other
/// blocks have released there before, is visible to whoever comes after it. @return  the value before
__device__ __forceinline__ std::uint32_t atom_add_acq_rel(std::uint32_t* counter, std::uint32_t n) {
  std::uint32_t old;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(counter), "r"(n) : "memory");
  return old;
}
/// The same, but adds 1, and returns to 0 after `last`: the counter is ready for the next launch.
__device__ __forceinline__ std::uint32_t atom_inc_acq_rel(std::uint32_t* counter, std::uint32_t last) {
  std::uint32_t old;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(counter), "r"(last)
               : "memory");
  return old;
}

/// A policy for lines of the L2 cache that are read once: they make room first. Devices before sm_80 have
/// none.
__device__ __forceinline__ std::uint64_t create_evict_first_policy() {
#if __CUDA_ARCH__ >= 800
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
#else
  return 0;
#endif
}
/// Loads 16 aligned bytes of global memory that are read once, and that nothing writes during the kernel:
/// past the L1 cache, and with a policy for the L2 cache.
__device__ __forceinline__ uint4 load_once(const void* from, std::uint64_t policy) {
#if __CUDA_ARCH__ >= 800
  uint4 x;
  asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(from), "l"(policy));
  return x;
#else
  return *static_cast<const uint4*>(from);
#endif
}

/// 2^x in one instruction, with a relative error of up to 2^-22; results below 2^-126 become 0.
__device__ __forceinline__ float exp2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// prmt: picks the four bytes of the result, each with four bits of `selector`, from the lowest: byte 0 to 3
/// of a, or 4 to 7 for those of b. With 8 added, the result has the byte's sign instead: 0xff or 0.
__device__ __forceinline__ std::uint32_t prmt(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  std::uint32_t r;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector));
  return r;
}

/// Returns x, but the compiler does not know that. What a loop computes from it is computed in every round,
/// instead of once and kept in registers.
__device__ __forceinline__ int unknown(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

}  // namespace fa::ptx

#endif
