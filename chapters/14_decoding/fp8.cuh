/// @file
/// What a warp does with a tile of an fp8 cache: the products of columns.cuh in fp16, which has every e4m3
/// number.
///
/// A product does not change if its inner dimension is permuted in both operands, nor do the rows of a result
/// have to be neighbours. Each lane therefore takes whole chunks of 16 bytes of K and V from shared memory,
/// and converts them in registers: nothing moves between lanes.
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "columns.cuh"
#include "decoding.cuh"
#include "device/convert.cuh"
#include "device/hopper.cuh"
#include "device/ptx.cuh"
#include "device/tensor_core.cuh"
#include "tiles.cuh"

namespace fa::ch14 {

/// Where TMA puts chunk `chunk` (16 bytes) of key `row` of a group of 16, in rows of 64 or 128 bytes.
template <class Tile>
__device__ __forceinline__ int chunk_offset(int row, int chunk) {
  if constexpr (Tile::kPanel == 128) {
    return chunk / 8 * 16 * 128 + row * 128 + (chunk % 8 ^ row % 8) * 16;
  } else {
    return row * 64 + (chunk ^ row / 2 % 4) * 16;
  }
}

/// The two e4m3 numbers in the lower half of a register as two __half, the first in the lower half again.
__device__ __forceinline__ std::uint32_t half2_from_fp8(std::uint32_t pair) {
  const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t(pair), __NV_E4M3);
  std::uint32_t bits;
  memcpy(&bits, &halves, sizeof bits);
  return bits;
}

/// A warp at work on a unit of an fp8 cache. Lane 4 * g + t.
///
/// Step 4 * j + w of K Q^T has, as inner indices 2 * t, 2 * t + 1, 2 * t + 8 and 2 * t + 9, the four columns
/// of word w of the lane's chunk j. V^T has, as rows g and g + 8 of fragment mi, columns mi and mi + d / 16
/// of the d / 8 neighbouring columns of the lane.
template <class Tile>
struct Fp8Warp {
  using T = typename Tile::T;
  static constexpr int d = Tile::kHeadDim, kN = Tile::kRows / 8, kChunks = d / 64;  ///< of a key in each lane
  std::uint32_t q[4 * kChunks][kN][2];                                              ///< Q^T in fp16
  WarpOutput<Tile> acc;
  float factor;

  /// The lane's chunk j of a key: neighbours of a key, and neighbouring keys, are in different banks.
  __device__ __forceinline__ static int chunk(int j) {
    const int t = int(threadIdx.x) % 4;
    if constexpr (kChunks == 1) return t;
    return j / 2 * 8 + 2 * t + j % 2;
  }

  __device__ __forceinline__ Fp8Warp(const Decoding<T>& a, const Unit& unit, SharedTiles<Tile>&)
      : factor(a.score_factor(unit.kv_head)) {
    const T* gQ = a.q + unit.row_in(a) * d;
#pragma unroll
    for (int ni = 0; ni < kN; ++ni) {
      const int row = 8 * ni + threadIdx.x % 32 / 4;
#pragma unroll
      for (int step = 0; step < 4 * kChunks; ++step) {
        uint2 four = {0, 0};
        if (row < unit.rows)
          four = *reinterpret_cast<const uint2*>(gQ + row * d + 16 * chunk(step / 4) + step % 4 * 4);
        const float2 low = unpack<T>(four.x), high = unpack<T>(four.y);
        q[step][ni][0] = pack<__half>(low.x, low.y);
        q[step][ni][1] = pack<__half>(high.x, high.y);
      }
    }
  }

  __device__ __forceinline__ void multiply(Stage<Tile>& s, const Decoding<T>& a, const Unit& unit,
                                           int first_key) {
    if (first_key + Tile::kKeys > unit.length) {
      zero_after<Tile>(s, unit.length - first_key);
      __syncwarp();
    }
    ColumnScores<Tile> rS = {};
#pragma unroll
    for (int ki = 0; ki < Tile::kKeys / 16; ++ki) multiply_kq(rS[ki], s.k + ki * 16 * d);
    if (first_key + Tile::kKeys > unit.length - a.seq_q + 1) mask<Tile>(rS, a, unit, first_key);
    rescale<Tile>(acc, rS, factor);
#pragma unroll
    for (int ki = 0; ki < Tile::kKeys / 16; ++ki) multiply_vp(rS[ki], s.v + ki * 16 * d);
  }

  __device__ __forceinline__ void store(SharedTiles<Tile>& s) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int ni = 0; ni < kN; ++ni) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int row = 8 * ni + lane % 4 * 2 + e;
        float l = acc.l[ni][e];
#pragma unroll
        for (int distance = 4; distance < 32; distance *= 2) l += shuffle_xor(l, distance);
        if (lane / 4 == 0) s.state[warp][row] = {acc.m[ni][e], l};
#pragma unroll
        for (int mi = 0; mi < d / 16; ++mi) {
          s.o[warp][row][lane / 4 * (d / 8) + mi] = acc.o[mi][ni][e];
          s.o[warp][row][lane / 4 * (d / 8) + d / 16 + mi] = acc.o[mi][ni][2 + e];
        }
      }
    }
  }

 private:
  /// S^T += K Q^T for 16 keys.
  __device__ __forceinline__ void multiply_kq(float (&rS)[kN][4], const Fp8* sK) const {
    const int g = threadIdx.x % 32 / 4;
#pragma unroll
    for (int j = 0; j < kChunks; ++j) {
      const uint4 upper = *reinterpret_cast<const uint4*>(sK + chunk_offset<Tile>(g, chunk(j)));
      const uint4 lower = *reinterpret_cast<const uint4*>(sK + chunk_offset<Tile>(g + 8, chunk(j)));
      const std::uint32_t words[2][4] = {{upper.x, upper.y, upper.z, upper.w},
                                         {lower.x, lower.y, lower.z, lower.w}};
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const std::uint32_t k[4] = {half2_from_fp8(words[0][w]), half2_from_fp8(words[1][w]),
                                    half2_from_fp8(words[0][w] >> 16), half2_from_fp8(words[1][w] >> 16)};
#pragma unroll
        for (int ni = 0; ni < kN; ++ni) mma<__half>(rS[ni], k, q[4 * j + w][ni]);
      }
    }
  }

  /// The d / 8 bytes of a key that this lane multiplies, as words.
  __device__ __forceinline__ static void load_values(std::uint32_t (&words)[d / 32], const Fp8* sV, int key) {
    const int g = threadIdx.x % 32 / 4;
    if constexpr (d == 64) {
      const uint2 two = *reinterpret_cast<const uint2*>(sV + chunk_offset<Tile>(key, g / 2) + g % 2 * 8);
      words[0] = two.x, words[1] = two.y;
    } else {
#pragma unroll
      for (int j = 0; j < d / 128; ++j) {
        const uint4 four = *reinterpret_cast<const uint4*>(sV + chunk_offset<Tile>(key, d / 128 * g + j));
        words[4 * j] = four.x, words[4 * j + 1] = four.y;
        words[4 * j + 2] = four.z, words[4 * j + 3] = four.w;
      }
    }
  }

  /// O^T += V^T P^T for 16 keys. A byte of a key and one of the next become a pair of fp16.
  __device__ __forceinline__ void multiply_vp(const float (&rS)[kN][4], const Fp8* sV) {
    constexpr int kWords = d / 64;  // of one half of the lane's columns
    std::uint32_t p[kN][2];
    exponentiate<Tile, __half>(p, acc, rS, factor);
    const int key = threadIdx.x % 4 * 2;
    std::uint32_t keys[4][d / 32];
    load_values(keys[0], sV, key);
    load_values(keys[1], sV, key + 1);
    load_values(keys[2], sV, key + 8);
    load_values(keys[3], sV, key + 9);
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
#pragma unroll
      for (int two = 0; two < 2; ++two) {  // two columns of the word's four
        const std::uint32_t order = two == 0 ? 0x5140 : 0x7362;
        std::uint32_t pairs[4];  // as the registers of A: upper and lower rows, then the other keys
#pragma unroll
        for (int i = 0; i < 4; ++i)
          pairs[i] =
              ptx::prmt(keys[i / 2 * 2][w + i % 2 * kWords], keys[i / 2 * 2 + 1][w + i % 2 * kWords], order);
#pragma unroll
        for (int column = 0; column < 2; ++column) {
          std::uint32_t v[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) v[i] = half2_from_fp8(column == 0 ? pairs[i] : pairs[i] >> 16);
#pragma unroll
          for (int ni = 0; ni < kN; ++ni) mma<__half>(acc.o[4 * w + 2 * two + column][ni], v, p[ni]);
        }
      }
    }
  }
};

}  // namespace fa::ch14
