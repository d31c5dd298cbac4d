/// @file
/// Makes the tensor maps of chapter 12, on the host: as in chapter 09, but V and O have a width of their own.
#pragma once

#include "09_hopper/tensor_maps.cuh"
#include "backward_tiles.cuh"
#include "device/attention.cuh"
#include "pair_fp32.cuh"

namespace fa::ch12 {

/// The maps of pair_attention().
template <class Tile>
ch09::TensorMaps pair_maps(const Attention<typename Tile::T>& a) {
  using ch09::tensor_map, ch09::Tensor;
  using T = typename Tile::T;
  return {
      .q = tensor_map(Tensor<T>{a.q, a.q_strides, a.batch, a.heads, a.seq_q, a.head_dim}, Tile::Br),
      .k = tensor_map(Tensor<T>{a.k, a.k_strides, a.batch, a.kv_heads, a.seq_k, a.head_dim}, Tile::kKeys),
      .v = tensor_map(Tensor<T>{a.v, a.v_strides, a.batch, a.kv_heads, a.seq_k, a.head_dim_v}, Tile::kStep),
      .o = tensor_map(Tensor<T>{a.o, a.o_strides, a.batch, a.heads, a.seq_q, a.head_dim_v}, 16)};
}

/// The maps of split_attention(): of the tensors of halves, high ones first.
template <class Tile>
SplitMaps split_maps(const Attention<float>& a, const __half* q, const __half* k, const __half* v) {
  const auto map = [](const __half* first, int batch, int heads, int rows, int cols, int box_rows) {
    const std::int64_t head = std::int64_t(rows) * cols;
    return ch09::tensor_map(
        ch09::Tensor<__half>{first, {heads * head, head, cols}, 2 * batch, heads, rows, cols}, box_rows);
  };
  return {.q = map(q, a.batch, a.heads, a.seq_q, a.head_dim, 64),
          .k = map(k, a.batch, a.kv_heads, a.seq_k, a.head_dim, Tile::kKeys),
          .v = map(v, a.batch, a.kv_heads, a.seq_k, a.head_dim_v, Tile::kStep),
          .batch = a.batch};
}

/// The maps of pair_gradients().
template <class Tile>
BackwardMaps backward_maps(const PairBackward<typename Tile::T>& a, typename Tile::T* dk,
                           const Strides& dk_strides, typename Tile::T* dv, const Strides& dv_strides) {
  using T = typename Tile::T;
  const auto of_queries = [&](const T* first, const Strides& strides, int cols, int rows) {
    return ch09::tensor_map(ch09::Tensor<T>{first, strides, a.batch, a.heads, a.seq_q, cols}, rows);
  };
  const auto of_keys = [&](const T* first, const Strides& strides, int cols, int rows) {
    return ch09::tensor_map(ch09::Tensor<T>{first, strides, a.batch, a.kv_heads, a.seq_k, cols}, rows);
  };
  return {.resident = {of_keys(a.k, a.k_strides, a.head_dim, Tile::Bc),
                       of_keys(a.v, a.v_strides, a.head_dim_v, Tile::Bc)},
          .scored = {of_queries(a.q, a.q_strides, a.head_dim, Tile::Br),
                     of_queries(a.d_o, a.do_strides, a.head_dim_v, Tile::Br)},
          .summed = {of_queries(a.d_o, a.do_strides, a.head_dim_v, Tile::kStep),
                     of_queries(a.q, a.q_strides, a.head_dim, Tile::kStep)},
          .gradient = {of_keys(dv, dv_strides, a.head_dim_v, 16), of_keys(dk, dk_strides, a.head_dim, 16)}};
}

}  // namespace fa::ch12
