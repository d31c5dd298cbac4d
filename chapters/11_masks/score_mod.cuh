/// @file
/// score_mod: functions of a score, applied between Q K^T and the softmax, with their derivatives for the
/// backward pass.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

#include "07_multi_stage/softmax.cuh"
#include "device/attention.cuh"
#include "device/math.cuh"
#include "device/ptx.cuh"

namespace fa::ch11 {

/// A score after a function, and the derivative of the function there.
struct ModifiedScore {
  float score, derivative;
};

/// s becomes cap * tanh(s / cap): no score exceeds the cap (Gemma 2).
struct Softcap {
  float cap, inv_cap;  ///< inv_cap = 0: scores stay as they are

  __device__ __forceinline__ ModifiedScore operator()(float s, int, int) const {
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

  __device__ __forceinline__ ModifiedScore operator()(float s, int query, int key) const {
    // EXERCISE 10: Return s minus slope times the distance, and the derivative.
    return {s - slope * float(abs(query + shift - key)), 1.0f};
    // END 10
  }
};

/// One function after the other.
template <class First, class Second>
struct Then : First, Second {
  __device__ __forceinline__ ModifiedScore operator()(float s, int query, int key) const {
    const ModifiedScore first = First::operator()(s, query, key);
    const ModifiedScore second = Second::operator()(first.score, query, key);
    return {second.score, first.derivative * second.derivative};
  }
};

/// Of one head: score_mod(scale * q.k, query, key).
using ScoreMod = Then<Softcap, Alibi>;

/// The functions of all heads, passed to a kernel by value.
struct ScoreMods {
  int heads, shift;
  Softcap softcap;
  bool alibi;
  const float* slopes;  ///< [heads]; null: those of Press et al.

  /// @param head  counts through all batches
  __device__ __forceinline__ ScoreMod of(int head) const {
    return {softcap, {alibi ? slope(head % heads) : 0.0f, shift}};
  }

  __device__ __forceinline__ float slope(int head) const {
    return slopes ? slopes[head] : ptx::exp2_approx(-8.0f * float(head + 1) / float(heads));
  }

  /// The scores of a warp, as fragments C. After the function they are logits: only log2 e is missing in the
  /// exponent.
  template <class Tile>
  struct OfWarp {
    const Attention<typename Tile::T>& a;
    ScoreMod score_mod;
    int first_query;

    __device__ __forceinline__ float factor() const { return kLog2e; }
    /// Scales the scores and applies the function. @param first_key  of the slice
    __device__ __forceinline__ void operator()(ch07::Scores<Tile>& rS, int first_key) const {
      const int lane = ptx::unknown(threadIdx.x) % 32;
#pragma unroll
      for (int row = 0; row < Tile::kLaneRows; ++row) {
#pragma unroll
        for (int ni = 0; ni < Tile::kSlice / 8; ++ni) {
          float* pair = ch07::row_pair(rS, row, ni);
          const int query = first_query + 8 * row + lane / 4, key = first_key + 8 * ni + lane % 4 * 2;
#pragma unroll
          for (int i = 0; i < 2; ++i) pair[i] = score_mod(a.scale * pair[i], query, key + i).score;
        }
      }
    }
  };
  template <class Tile>
  __device__ __forceinline__ OfWarp<Tile> of_warp(const Attention<typename Tile::T>& a, int head,
                                                  int first_query) const {
    return {a, of(head), first_query};
  }
  /// The exponent of 2 of a pair, rounded. @param product  q.k
  template <class T>
  __device__ __forceinline__ float exponent(const Attention<T>& a, int head, int query, int key,
                                            float product) const {
    return __fmul_rn(of(head)(a.scale * product, query, key).score, kLog2e);
  }
};

}  // namespace fa::ch11
