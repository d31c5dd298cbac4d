/// @file
/// Products of a warpgroup: S = Q K^T and O += P V by wgmma.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "device/hopper.cuh"

namespace fa::ch09 {

/// A warp's share of the scores, 16 rows of a tile's Bc columns: element i of a lane is in row lane / 4 + 8 *
/// (i / 2 % 2), column 8 * (i / 4) + 2 * (lane % 4) + i % 2.
template <class Tile>
using Scores = float[Tile::Bc / 2];
/// P in 16 bits, as operand A: registers of 16 columns at a time.
template <class Tile>
using Probabilities = std::uint32_t[Tile::Bc / 16][4];
/// The same rows of O, with the columns of V.
template <class Tile>
using Output = float[Tile::kHeadDimV / 2];

/// Describes where wgmma finds a matrix: in panels of rows of 128 bytes, swizzled as TMA does it. The fields
/// are the start address from bit 0, the leading distance from bit 16 and the stride from bit 32, each in
/// units of 16 bytes, and the swizzle from bit 62: 1 stands for 128 bytes.
///
/// @param s  the first row, at a multiple of 1024 bytes
/// @param panel_bytes  from a panel to the next; ignored if the products' inner dimension runs along the rows
__device__ __forceinline__ std::uint64_t descriptor(const void* s, int panel_bytes) {
  // EXERCISE 3: Decide which number each field holds, and put the fields together.
  return std::uint64_t(ptx::shared_address(s) / 16) | std::uint64_t(panel_bytes / 16) << 16 |
         std::uint64_t(8 * 128 / 16) << 32 | std::uint64_t(1) << 62;
  // END 3
}

/// Moves a descriptor by a number of bytes, a multiple of 16.
__device__ __forceinline__ std::uint64_t moved(std::uint64_t descriptor, int bytes) {
  return descriptor + bytes / 16;
}

/// Issues S = Q K^T for the 64 rows of a warpgroup.
/// @param q  its first row in a tile of Br rows    @param k  a tile of Bc rows
/// @param q_panel_bytes  from a panel of q to the next
template <class Tile>
__device__ __forceinline__ void issue_qk(Scores<Tile>& rS, std::uint64_t q, std::uint64_t k,
                                         int q_panel_bytes = Tile::Br * 128) {
  using T = typename Tile::T;
  ptx::wgmma<T, false, false, false>(rS, q, k);  // columns 0 to 15 of Q and K
#pragma unroll
  for (int step = 1; step < Tile::kHeadDim / 16; ++step) {  // 16 columns are 32 bytes, 64 are a panel
    const int panel = step / 4, in_panel = step % 4 * 32;
    ptx::wgmma<T, true, false, false>(rS, moved(q, panel * q_panel_bytes + in_panel),
                                      moved(k, panel * Tile::Bc * 128 + in_panel));
  }
}

/// Issues O += P V.
template <class Tile>
__device__ __forceinline__ void issue_pv(Output<Tile>& rO, const Probabilities<Tile>& rP, std::uint64_t v) {
#pragma unroll
  for (int step = 0; step < Tile::Bc / 16; ++step)  // 16 keys are 16 rows of 128 bytes
    ptx::wgmma<typename Tile::T, true, true>(rO, rP[step], moved(v, step * 16 * 128));
}

}  // namespace fa::ch09
