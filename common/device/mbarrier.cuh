/// @file
/// Barriers in shared memory that count threads and bytes. Taught by chapter 09; one kernel of chapter 02
/// uses them too.
///
/// Like ptx.cuh, this is a place where GPU code differs from the simulator's code, which has functions of the
/// same names. Devices before sm_90 do not have all of them; see mma_m16n8k16_f16() there.
///
/// Functions take places in shared memory as pointers; an mbarrier is a std::uint64_t in shared memory. A
/// phase of an mbarrier is complete when `arrivals` threads have arrived and as many bytes have landed as
/// expect_tx has announced. Then the next phase begins by itself. Phases have parities 0, 1, 0, ...
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#ifdef GPUSIM
#include <gpusim_hopper.h>
namespace fa {
namespace ptx = gpusim::ptx;
}
#else

namespace fa::ptx {

/// An address in shared memory as the instructions take it: in bytes from the start of the block's window.
__device__ __forceinline__ std::uint32_t shared_address(const void* s) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(s));
}

/// One thread, before any other use. The other threads may use it after fence_mbarrier_init() and a barrier.
__device__ __forceinline__ void mbarrier_init(std::uint64_t* barrier, int arrivals) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
               : "memory");
#else
  __trap();
#endif
}

/// Makes initialised barriers visible to the copy engine, and to the other blocks of the cluster.
__device__ __forceinline__ void fence_mbarrier_init() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#else
  __trap();
#endif
}

/// Counts as one arrival in the current phase.
__device__ __forceinline__ void mbarrier_arrive(std::uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
#else
  __trap();
#endif
}

/// Announces `bytes` that copies will deliver in the current phase, then arrives.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(std::uint64_t* barrier, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(bytes)
               : "memory");
#else
  __trap();
#endif
}

/// Waits until the phase with this parity is complete: returns at once if the current phase has the other
/// parity. What the arriving threads and the copies have written by then is visible.
__device__ __forceinline__ void mbarrier_wait(std::uint64_t* barrier, int parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred complete;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 complete, [%0], %1;\n"
      "@!complete bra again;\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
#else
  __trap();
#endif
}

/// Whether the phase with this parity is complete. If so, this was the wait; if not, nothing has happened.
__device__ __forceinline__ bool mbarrier_test_wait(std::uint64_t* barrier, int parity) {
#if __CUDA_ARCH__ >= 900
  std::uint32_t complete;
  asm volatile(
      "{\n"
      ".reg .pred complete;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 complete, [%1], %2;\n"
      "selp.u32 %0, 1, 0, complete;\n"
      "}"
      : "=r"(complete)
      : "r"(shared_address(barrier)), "r"(parity)
      : "memory");
  return complete != 0;
#else
  __trap();
  return false;
#endif
}

}  // namespace fa::ptx

#endif
