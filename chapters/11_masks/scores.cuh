/// @file
/// Functions of a score, applied between Q K^T and the softmax, with their derivatives for the backward pass.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

#include "07_multi_stage/softmax.cuh"
#include "device/math.cuh"
#include "device/ptx.cuh"
#include "walk.cuh"

namespace fa::ch11 {

/// A score after a function, and the derivative of the function there.
struct Changed {
  float score, derivative;
};

/// s becomes cap * tanh(s / cap): no score exceeds the cap (Gemma 2).
struct Softcap {
  float cap, inv_cap;  ///< inv_cap = 0: scores stay as they are

  __device__ __forceinline__ Changed change(float s, int, int) const {
    // EXERCISE 9: Return cap * tanh(s / cap) and its derivative. tanh(x) = 1 - 2 / (e^(2 x) + 1).
    if (inv_cap == 0.0f) return {s, 1.0f};
    const float tanh = 1.0f - __fdividef(2.0f, ptx::exp2_approx(2.0f * kLog2e * inv_cap * s) + 1.0f);
    return {cap * tanh, 1.0f - tanh * tanh};
    // END 9
  }
};

/// s loses `slope` for each key between the one that the query stands at and this one (Press et al. 2022).
struct Alibi {
  float slope;  ///< of the head; 0: scores stay as they are
  int shift;    ///< seq_k - seq_q

  __device__ __forceinline__ Changed change(float s, int query, int key) const {
    // EXERCISE 10: Return s minus slope times the distance, and the derivative.
    return {s - slope * float(abs(query + shift - key)), 1.0f};
    // END 10
  }
};

/// One function after the other.
template <class First, class Second>
struct Then : First, Second {
  __device__ __forceinline__ Changed change(float s, int query, int key) const {
    const Changed first = First::change(s, query, key);
    const Changed second = Second::change(first.score, query, key);
    return {second.score, first.derivative * second.derivative};
  }
};

using HeadScores = Then<Softcap, Alibi>;

/// The functions of all heads, passed to a kernel by value.
struct ScoreFunctions {
  int heads, shift;
  float softcap;  ///< infinity: none
  bool alibi;

  /// @param head  counts through all batches
  __device__ __forceinline__ HeadScores of(int head) const {
    const float slope = alibi ? ptx::exp2_approx(-8.0f * float(head % heads + 1) / float(heads)) : 0.0f;
    return {{softcap, softcap == INFINITY ? 0.0f : 1.0f / softcap}, {slope, shift}};
  }
};

/// The scores after a function, for device/unresolved_rows.cuh.
template <class T>
struct ChangedPairs : MaskedPairs<T> {
  const HeadScores& function;

  __device__ __forceinline__ ChangedPairs(const MaskedPairs<T>& pairs, const HeadScores& of_head)
      : MaskedPairs<T>(pairs), function(of_head) {}
  __device__ __forceinline__ float exponent(int query, int key, float product) const {
    return __fmul_rn(function.change(this->a.scale * product, query, key).score, kLog2e);
  }
};

/// Scales a warp's scores and applies a function to them.
template <class Tile, class Function>
__device__ __forceinline__ void change(ch07::Scores<Tile>& rS, const Function& function, float scale,
                                       int first_query, int first_key) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int row = 0; row < Tile::kLaneRows; ++row) {
#pragma unroll
    for (int ni = 0; ni < Tile::kSlice / 8; ++ni) {
      float* pair = ch07::row_pair(rS, row, ni);
      const int query = first_query + 8 * row + lane / 4, key = first_key + 8 * ni + lane % 4 * 2;
#pragma unroll
      for (int i = 0; i < 2; ++i) pair[i] = function.change(scale * pair[i], query, key + i).score;
    }
  }
}

}  // namespace fa::ch11
