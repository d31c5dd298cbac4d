/// @file
/// What the kernels get of the tensors of a call.
#pragma once

#include "attention/attention_backward.hpp"
#include "backward.cuh"
#include "device/attention.cuh"

namespace fa::ch08 {

/// Without the sums of dQ, which not all variants have. delta is null for those that do not store it.
template <class T>
Backward<T> backward_of(const AttentionBackward::Args& a) {
  Backward<T> b;
  static_cast<Attention<T>&>(b) = a.as<T>();
  b.d_o = a.buffer<T>("do");
  b.delta = a.buffers.contains("delta") ? a.buffer<float>("delta") : nullptr;
  b.dq = a.buffer<T>("dq");
  b.dk = a.buffer<T>("dk");
  b.dv = a.buffer<T>("dv");
  b.d_o_strides = a.strides.at("do");
  b.dq_strides = a.strides.at("dq");
  b.dk_strides = a.strides.at("dk");
  b.dv_strides = a.strides.at("dv");
  b.dq_sum = nullptr;
  return b;
}

}  // namespace fa::ch08
