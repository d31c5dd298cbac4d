/// @file
/// Makes the tensor maps of chapter 09, on the host.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "copies.cuh"
#include "device/attention.cuh"
#include "device/launch.cuh"
#include "device/tensor_map_rules.hpp"

namespace fa::ch09 {

/// The map of a tensor [heads][rows][cols] for boxes of 64 columns, swizzled over 128 bytes.
///
/// @param tensor  at a multiple of 16 bytes    @param box_rows  at most 256
/// @throws std::invalid_argument  if the driver would refuse the map; CudaError  if there is no such driver
template <class T>
CUtensorMap tensor_map(const T* tensor, std::int64_t heads, std::int64_t rows, int cols, int box_rows) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  FA_CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                 cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess)
    throw std::runtime_error("the driver has no cuTensorMapEncodeTiled: it must be of CUDA 12 or newer");
  constexpr auto type =
      std::is_same_v<T, __nv_bfloat16> ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  // From the innermost dimension: its stride is that of an element, and is not given.
  const cuuint64_t lengths[] = {cuuint64_t(cols), cuuint64_t(rows), cuuint64_t(heads)};
  const cuuint64_t strides[] = {cols * sizeof(T), rows * cols * sizeof(T)};
  const cuuint32_t box[] = {64, cuuint32_t(box_rows), 1}, steps[] = {1, 1, 1};
  CUtensorMap map;
  const auto encode = [&](auto encoder) {
    return encoder(&map, type, 3, const_cast<T*>(tensor), lengths, strides, box, steps,
                   CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  std::string reason = encode(broken_tensor_map_rule);
  if (reason.empty()) {
    const CUresult status = encode(reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function));
    if (status == CUDA_SUCCESS) return map;
    reason = "the driver refuses it with error " + std::to_string(int(status));
  }
  throw std::invalid_argument("no tensor map for " + std::to_string(heads) + " x " + std::to_string(rows) +
                              " x " + std::to_string(cols) + " elements in boxes of " +
                              std::to_string(box[1]) + " x " + std::to_string(box[0]) + ": " + reason);
}

/// The maps of a kernel with these tiles, which may be wider than the tensors. @param q_rows  of a box of Q
template <class Tile>
TensorMaps tensor_maps(const Attention<typename Tile::T>& a, int head_dim, int q_rows) {
  const std::int64_t heads = std::int64_t(a.batch) * a.heads, kv_heads = std::int64_t(a.batch) * a.kv_heads;
  return {.q = tensor_map(a.q, heads, a.seq_q, head_dim, q_rows),
          .k = tensor_map(a.k, kv_heads, a.seq_k, head_dim, Tile::Bc),
          .v = tensor_map(a.v, kv_heads, a.seq_k, head_dim, Tile::Bc),
          .o = tensor_map(a.o, heads, a.seq_q, head_dim, 16)};
}

}  // namespace fa::ch09
