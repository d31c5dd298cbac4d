/// @file
/// Splits Q, K and V, before the pairs of blocks read them. See split.cuh.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "device/attention.cuh"
#include "device/convert.cuh"
#include "device/reduce.cuh"
#include "device/tile.cuh"
#include "split.cuh"

namespace fa::ch12 {

/// A tensor of fp32, and where its halves and exponents go.
struct SplitTensor {
  const float* from;  ///< [batch, heads, rows, cols], with any strides
  Strides strides;
  __half* halves;    ///< [2, batch, heads, rows, cols]: first all high halves
  float* exponents;  ///< [batch, heads, padded_rows]: 2^(e - 13), or e
  bool logarithms;   ///< whether they are e
  int batch, heads, rows, padded_rows, cols;
};
struct SplitTensors {
  SplitTensor qkv[3];
};

/// Splits Q, K and V, a row by each warp. Rows from `rows` on exist in `exponents` alone, and are as if they
/// were zeros.
///
///   grid    (ceil(the most rows of a tensor / kRowsOfBlock), 3)
///   block   32 * kRowsOfBlock
///   HBM     for each tensor, batch * heads * (8 * cols * rows + 4 * padded_rows) bytes: reads 4 and writes 4
///           for each element
constexpr int kRowsOfBlock = 8;
__global__ void __launch_bounds__(32 * kRowsOfBlock)
    split_rows(const __grid_constant__ SplitTensors tensors) {
  const SplitTensor& t = tensors.qkv[blockIdx.y];
  constexpr int kLoads = 8;  // of 4 floats: 1024 columns
  const int number = blockIdx.x * kRowsOfBlock + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (number >= t.batch * t.heads * t.padded_rows) return;
  const int head = number / t.padded_rows, row = number % t.padded_rows;
  const bool exists = row < t.rows;
  const float* from = Attention<float>::rows_of(t.from, t.strides, head / t.heads, head % t.heads)[row];
  float4 x[kLoads] = {};
  float most = 0.0f;
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int col = 4 * (lane + 32 * i);
    if (exists && col < t.cols) x[i] = load_float4(from + col);
    most = fmaxf(most, fmaxf(fmaxf(fabsf(x[i].x), fabsf(x[i].y)), fmaxf(fabsf(x[i].z), fabsf(x[i].w))));
  }
  most = warp_reduce(most, Max());
  const int exponent = max((__float_as_int(most) >> 23) - 127, -64);
  const float factor = power_of_two(kLargestExponent - exponent);
  if (lane == 0)
    t.exponents[number] = t.logarithms ? float(exponent) : power_of_two(exponent - kLargestExponent);
  if (!exists) return;
  __half* high = t.halves + (size_t(head) * t.rows + row) * t.cols;
  __half* low = high + size_t(t.batch) * t.heads * t.rows * t.cols;
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int col = 4 * (lane + 32 * i);
    if (col >= t.cols) break;
    const std::uint32_t first = pack<__half>(x[i].x * factor, x[i].y * factor);
    const std::uint32_t second = pack<__half>(x[i].z * factor, x[i].w * factor);
    const float2 a = unpack<__half>(first), b = unpack<__half>(second);
    *reinterpret_cast<uint2*>(high + col) = make_uint2(first, second);
    *reinterpret_cast<uint2*>(low + col) =
        make_uint2(pack<__half>(x[i].x * factor - a.x, x[i].y * factor - a.y),
                   pack<__half>(x[i].z * factor - b.x, x[i].w * factor - b.y));
  }
}

}  // namespace fa::ch12
