/// @file
/// What the kernels get of the tensors of a call.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/attention_backward.hpp"
#include "backward.cuh"
#include "device/attention.cuh"

namespace fa::ch10 {

/// How many heads of K and V have room for Q, dO and the sums of dQ of a query head each in two thirds of an
/// H100's L2 cache.
inline std::int64_t heads_with_room(const AttentionBackward::Args& a) {
  constexpr std::int64_t kRoom = 32 << 20;
  const std::int64_t bytes = std::int64_t(a.seq_q) * a.head_dim * (2 + 2 + 4);
  return std::clamp<std::int64_t>(kRoom / bytes, 1, std::int64_t(a.batch) * a.kv_heads);
}

/// How many heads of K and V are interleaved: under a causal mask, as many as have room there.
inline int interleaved_heads(const AttentionBackward::Args& a) {
  return a.causal ? int(heads_with_room(a)) : 0;
}

/// For `deterministic`: the heads of a group. All of them have room there, or there are 16: with fewer heads,
/// more blocks of a head run at the same time, and the first turn of the last of them comes later. Groups are
/// as even as possible.
inline int heads_of_group(const AttentionBackward::Args& a) {
  const std::int64_t heads = std::int64_t(a.batch) * a.kv_heads;
  const std::int64_t most = std::max<std::int64_t>(heads_with_room(a), 16);
  const std::int64_t groups = (heads + most - 1) / most;
  return int((heads + groups - 1) / groups);
}

/// Without the sums of dQ, which not all variants have. @param rows_of_tile  queries
template <class T>
Backward<T> backward_of(const AttentionBackward::Args& a, int rows_of_tile) {
  Backward<T> b;
  static_cast<Attention<T>&>(b) = a.as<T>();
  b.d_o = a.buffer<T>("do");
  b.padded_queries = (a.seq_q + rows_of_tile - 1) / rows_of_tile * rows_of_tile;
  b.interleaved = interleaved_heads(a);
  b.zero_rows = b.padded_queries;
  b.log2_sum = a.buffer<float>("log2_sum");
  b.delta = a.buffer<float>("delta");
  b.dq_sum = nullptr;
  b.turns = nullptr;
  b.dq = a.buffer<T>("dq");
  b.do_strides = a.strides.at("do");
  b.dq_strides = a.strides.at("dq");
  b.dk_strides = a.strides.at("dk");
  b.dv_strides = a.strides.at("dv");
  return b;
}

}  // namespace fa::ch10
