/// @file
/// Instructions that CUDA C++ has only as inline PTX, as functions with similar names.
/// The headers of a kernel include this if GPUSIM is defined, and use the PTX otherwise.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda_runtime.h"

namespace gpusim::ptx {

/// ldmatrix.sync.aligned.m8n8.x{kMatrices}[.trans].shared.b16
template <bool kTransposed, int kMatrices>
GPUSIM_INLINE void ldmatrix(std::uint32_t (&registers)[kMatrices], const void* row) {
  static_assert(kMatrices == 1 || kMatrices == 2 || kMatrices == 4);
  device::load_matrices(row, kMatrices, kTransposed, registers);
}

/// mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32: c += a * b
GPUSIM_INLINE void mma_m16n8k16_f16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  device::mma_m16n8k16(device::MmaType::kFloat16, c, a, b, c);
}
/// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32: c += a * b
GPUSIM_INLINE void mma_m16n8k16_bf16(float (&c)[4], const std::uint32_t (&a)[4],
                                     const std::uint32_t (&b)[2]) {
  device::mma_m16n8k16(device::MmaType::kBFloat16, c, a, b, c);
}

/// movmatrix.sync.aligned.m8n8.trans.b16
GPUSIM_INLINE std::uint32_t movmatrix_transposed(std::uint32_t pair) {
  return device::transpose_matrix(pair);
}

/// st.relaxed.gpu.global.u32
GPUSIM_INLINE void publish(std::uint32_t* to, std::uint32_t bits) { device::publish(to, bits); }
/// cp.async.ca.shared.global, 4 bytes
GPUSIM_INLINE void copy_published_async(void* s, const void* g) { device::copy_published_async(s, g); }
/// ld.relaxed.gpu.global.u32, until it gives a value
GPUSIM_INLINE std::uint32_t await_published(const std::uint32_t* from) {
  return device::await_published(from);
}

/// atom.acq_rel.gpu.global.add.u32
GPUSIM_INLINE std::uint32_t atom_add_acq_rel(std::uint32_t* counter, std::uint32_t n) {
  return device::atomic_acq_rel(counter, n, [](std::uint32_t old, std::uint32_t by) { return old + by; });
}
/// atom.acq_rel.gpu.global.inc.u32
GPUSIM_INLINE std::uint32_t atom_inc_acq_rel(std::uint32_t* counter, std::uint32_t last) {
  return device::atomic_acq_rel(
      counter, last, [](std::uint32_t old, std::uint32_t most) { return old >= most ? 0 : old + 1; });
}

/// createpolicy.fractional.L2::evict_first: there is no cache here.
GPUSIM_INLINE std::uint64_t create_evict_first_policy() { return 0; }
/// ld.global.nc.L1::no_allocate.L2::cache_hint.v4.u32
GPUSIM_INLINE uint4 load_once(const void* from, std::uint64_t) { return *static_cast<const uint4*>(from); }

/// ex2.approx.ftz.f32
GPUSIM_INLINE float exp2_approx(float x) { return __builtin_exp2f(x); }

/// prmt.b32
GPUSIM_INLINE std::uint32_t prmt(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
  const std::uint64_t bytes = std::uint64_t(b) << 32 | a;
  std::uint32_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t choice = selector >> 4 * i;
    std::uint32_t byte = std::uint32_t(bytes >> 8 * (choice & 7)) & 0xff;
    if (choice & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << 8 * i;
  }
  return result;
}

/// No instruction.
GPUSIM_INLINE int unknown(int x) { return x; }

}  // namespace gpusim::ptx
