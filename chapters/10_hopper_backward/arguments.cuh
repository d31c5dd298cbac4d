/// @file
/// What the kernels get of the tensors of a call.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/attention_backward.hpp"
#include "backward.cuh"
#include "device/attention.cuh"

namespace fa::ch10 {

/// How many heads of K and V are interleaved under a causal mask: as many as have room for Q, dO and the sums
/// of dQ of a query head each in two thirds of an H100's L2 cache.
inline int interleaved_heads(const AttentionBackward::Args& a) {
  constexpr std::int64_t kRoom = 32 << 20;
  if (!a.causal) return 0;
  const std::int64_t bytes = std::int64_t(a.seq_q) * a.head_dim * (2 + 2 + 4);
  return int(std::clamp<std::int64_t>(kRoom / bytes, 1, std::int64_t(a.batch) * a.kv_heads));
}

/// Without the sums of dQ, which not all variants have. @param rows_of_tile  queries
template <class T>
Backward<T> backward_of(const AttentionBackward::Args& a, int rows_of_tile) {
  Backward<T> b;
  static_cast<Attention<T>&>(b) = a.as<T>();
  b.d_o = a.buffer<T>("do");
  b.padded_queries = (a.seq_q + rows_of_tile - 1) / rows_of_tile * rows_of_tile;
  b.interleaved = interleaved_heads(a);
  b.log2_sum = a.buffer<float>("log2_sum");
  b.delta = a.buffer<float>("delta");
  b.dq_sum = nullptr;
  b.dq = a.buffer<T>("dq");
  b.do_strides = a.strides.at("do");
  b.dq_strides = a.strides.at("dq");
  b.dk_strides = a.strides.at("dk");
  b.dv_strides = a.strides.at("dv");
  return b;
}

}  // namespace fa::ch10
