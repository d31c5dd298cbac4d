/// @file
/// Makes the tensor maps of chapter 09, on the host.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "copies.cuh"
#include "device/attention.cuh"
#include "device/tensor_map_encoding.hpp"

namespace fa::ch09 {

/// A tensor in global memory: [batch, heads, rows, cols], with any strides that are multiples of 16 bytes.
template <class T>
struct Tensor {
  const T* first;  ///< at a multiple of 16 bytes
  Strides strides;
  int batch, heads, rows, cols;
};

/// The map of a tensor for boxes of 64 columns, swizzled over 128 bytes. @param box_rows  at most 256
/// @throws std::invalid_argument  if the driver would refuse the map; CudaError  if there is no such driver
template <class T>
TensorMap tensor_map(const Tensor<T>& of, int box_rows) {
  constexpr auto type =
      std::is_same_v<T, __nv_bfloat16> ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  // From the innermost dimension: its stride is that of an element, and is not given.
  const cuuint64_t lengths[] = {cuuint64_t(of.cols), cuuint64_t(of.rows), cuuint64_t(of.heads),
                                cuuint64_t(of.batch)};
  const cuuint64_t strides[] = {of.strides.row * sizeof(T), of.strides.head * sizeof(T),
                                of.strides.batch * sizeof(T)};
  const cuuint32_t box[] = {64, cuuint32_t(box_rows), 1, 1}, steps[] = {1, 1, 1, 1};
  TensorMap map;
  map.heads = Divisor(of.heads);
  const auto encode = [&](auto encoder) {
    return encoder(&map, type, 4, const_cast<T*>(of.first), lengths, strides, box, steps,
                   CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  encode_tensor_map(encode, std::to_string(of.batch) + " x " + std::to_string(of.heads) + " x " +
                                std::to_string(of.rows) + " x " + std::to_string(of.cols) +
                                " elements in boxes of " + std::to_string(box[1]) + " x " +
                                std::to_string(box[0]));
  return map;
}

/// A tensor with the shape of Q, O, K or V.
template <class T>
Tensor<T> like_q(const Attention<T>& a, const T* first, const Strides& strides) {
  return {first, strides, a.batch, a.heads, a.seq_q, a.head_dim};
}
template <class T>
Tensor<T> like_o(const Attention<T>& a, const T* first, const Strides& strides) {
  return {first, strides, a.batch, a.heads, a.seq_q, a.head_dim_v};
}
template <class T>
Tensor<T> like_k(const Attention<T>& a, const T* first, const Strides& strides) {
  return {first, strides, a.batch, a.kv_heads, a.seq_k, a.head_dim};
}
template <class T>
Tensor<T> like_v(const Attention<T>& a, const T* first, const Strides& strides) {
  return {first, strides, a.batch, a.kv_heads, a.seq_k, a.head_dim_v};
}

/// The maps of a kernel with these tiles, which may be wider than the tensors. @param q_rows  of a box of Q
template <class Tile>
TensorMaps tensor_maps(const Attention<typename Tile::T>& a, int q_rows) {
  using T = typename Tile::T;
  return {.q = tensor_map(like_q(a, a.q, a.q_strides), q_rows),
          .k = tensor_map(like_k(a, a.k, a.k_strides), Tile::Bc),
          .v = tensor_map(like_v(a, a.v, a.v_strides), Tile::Bc),
          .o = tensor_map(like_o<T>(a, a.o, a.o_strides), 16)};
}

}  // namespace fa::ch09
