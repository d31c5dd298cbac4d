/// @file
/// What the kernels get of the tensors of a call.
#pragma once

#include "attention/attention_backward.hpp"
#include "backward.cuh"
#include "device/attention.cuh"

namespace fa::ch10 {

/// Without the sums of dQ, which not all variants have. @param rows_of_tile  queries
template <class T>
Backward<T> backward_of(const AttentionBackward::Args& a, int rows_of_tile) {
  Backward<T> b;
  static_cast<Attention<T>&>(b) = a.as<T>();
  b.d_o = a.buffer<T>("do");
  b.padded_queries = (a.seq_q + rows_of_tile - 1) / rows_of_tile * rows_of_tile;
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
