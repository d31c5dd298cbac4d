/// @file
/// Rows whose exponents fp32 does not resolve are computed a second time. Taught by chapter 06.
///
/// Kernels compute 2^(factor * s - base) with one fmaf(), which rounds once, at the end. `base` is the row's
/// largest factor * s, but rounded. For the largest score, the exponent should be 0 and is the error of that
/// rounding: up to |base| / 2^24. Every term of the row contains this error, so it cancels in O / l and in
/// LSE, unless 2^error itself overflows or vanishes. That takes a base of 2^30 and more, or 2^28 if P is
/// stored as fp16. Rounding the product too would prevent it, at the price of one more instruction for each
/// score. Instead, each row is checked once, when it is stored.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "device/attention.cuh"
#include "device/math.cuh"
#include "device/ptx.cuh"
#include "device/reduce.cuh"

namespace fa {

/// LSE of a row that another kernel must compute again: a NaN that no computation results in, since GPUs
/// compute 0x7fffffff.
inline constexpr std::uint32_t kMarked = 0xffffffff;
__device__ __forceinline__ bool is_marked(float lse) { return __float_as_uint(lse) == kMarked; }

/// Whether the row must be computed again. Below, an exponent is off by less than 4.
/// @param base  -FLT_MAX or -inf: no key so far
__device__ __forceinline__ bool is_unresolved(float base) { return fabsf(base) > 0x1p26f && base > -FLT_MAX; }

/// What attend_again() needs to know of the pairs of a query and a key. This is attention as chapter 03
/// defines it.
template <class T>
struct PlainPairs {
  const Attention<T>& a;
  __device__ __forceinline__ bool exists(int query, int key) const { return key < a.visible_keys(query); }
  /// The exponent of 2, rounded. @param product  q.k
  __device__ __forceinline__ float exponent(int, int, float product) const {
    return __fmul_rn(a.exp2_scale, product);
  }
  /// By what P is multiplied before P V, but not in l.
  __device__ __forceinline__ float kept(int, int) const { return 1.0f; }
  /// What is stored as LSE until repair_rows().
  __device__ __forceinline__ float lse(float lse, float) const { return lse; }
};
template <class T>
PlainPairs(const Attention<T>&) -> PlainPairs<T>;  // for clang before 17

/// Instead of pairs, in a kernel that has no register for attend_again(): rows to be computed again are
/// marked in LSE, for a kernel that follows.
struct MarkedRows {
  /// @param base  as for is_unresolved()
  __device__ __forceinline__ float lse(float lse, float base) const {
    return is_unresolved(base) ? __uint_as_float(kMarked) : lse;
  }
};

/// One row of O, in two passes over the keys as in chapter 03, with exponents that are rounded before the
/// maximum is subtracted. All lanes of a warp work on it. It is slow: a warp takes one key at a time, and
/// computes its score again for every 32 columns.
///
/// @param store  store(col, o) is called for the columns first_col + lane, first_col + lane + 32, ... below
///   end_col
/// @return LSE
template <class T, class Pairs, class Store>
__device__ __forceinline__ float attend_again(const Attention<T>& a, int head, int query, const Pairs& pairs,
                                              int first_col, int end_col, const Store& store) {
  const int lane = threadIdx.x % 32;
  const T* q = a.q_rows(head)[query];
  const HeadRows<const T> k = a.k_rows(head), v = a.v_rows(head);
  const auto exponent = [&](int key) {
    float product = 0.0f;
    for (int col = lane; col < a.head_dim; col += 32) product += float(q[col]) * float(k[key][col]);
    return pairs.exponent(query, key, warp_reduce(product, Sum()));
  };
  float m = -FLT_MAX, l = 0.0f;
  if constexpr (requires { pairs.sink(); }) {  // chapter 11: an exponent without a value
    m = fmaxf(m, pairs.sink());
    l = m > -FLT_MAX ? 1.0f : 0.0f;
  }
  for (int key = 0; key < a.seq_k; ++key) {
    if (!pairs.exists(query, key)) continue;
    const float x = exponent(key), m_new = fmaxf(m, x);
    l = l * exp2f(m - m_new) + exp2f(x - m_new);
    m = m_new;
  }
  const float inv_l = inverse_or_zero(l);
  for (int first = first_col; first < end_col; first += 32) {
    const int col = first + lane;
    float o = 0.0f;
    for (int key = 0; key < a.seq_k; ++key) {
      if (!pairs.exists(query, key)) continue;
      const float p = exp2f(exponent(key) - m) * pairs.kept(query, key);
      if (col < end_col) o += p * float(v[key][col]);
    }
    if (col < end_col) store(col, o * inv_l);
  }
  return l == 0.0f ? -INFINITY : (m + log2f(l)) * kLn2;
}

/// Computes those rows of a warp again that need it. A lane's rows are lane / 4 + 8 * i, as in fragments C.
///
/// @param base         of the lane's rows       @param first_query  of the warp
/// @param with_lse     whether this warp stores LSE, too
/// @param store        store(row, col, o) replaces an element that the warp has stored; row counts from
///   first_query
template <int kLaneRows, class T, class Pairs, class Store>
__device__ __forceinline__ void repair_rows(const float (&base)[kLaneRows], const Attention<T>& a,
                                            int of_head, int first_query, const Pairs& pairs, int first_col,
                                            int end_col, const Store& store, bool with_lse = true) {
  bool any = false;
#pragma unroll
  for (const float b : base) any |= is_unresolved(b);
  if (!__any_sync(kAllLanes, any)) return;
  const int head =
      ptx::unknown(of_head);  // or the addresses of its rows would stay in registers since the kernel began
  __syncwarp();               // the lanes have stored what is replaced here
#pragma unroll
  for (int i = 0; i < kLaneRows; ++i) {
    const unsigned lanes = __ballot_sync(kAllLanes, is_unresolved(base[i]));
    for (int lane_row = 0; lane_row < 8; ++lane_row) {
      const int row = 8 * i + lane_row, query = first_query + row;
      if ((lanes >> 4 * lane_row & 1) == 0 || query < 0 || query >= a.seq_q) continue;
      const float lse = attend_again(a, head, query, pairs, first_col, end_col,
                                     [&](int col, float o) { store(row, col, o); });
      if (with_lse && threadIdx.x % 32 == 0) a.lse[size_t(head) * a.seq_q + query] = lse;
    }
  }
  __syncwarp();
}

/// Marked rows stay as they are.
template <int kLaneRows, class T, class Store>
__device__ __forceinline__ void repair_rows(const float (&)[kLaneRows], const Attention<T>&, int, int,
                                            const MarkedRows&, int, int, const Store&) {}

}  // namespace fa
