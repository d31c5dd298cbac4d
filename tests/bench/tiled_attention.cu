#include "bench/tiled_attention.hpp"

#include "device/launch.cuh"

namespace fa::bench {

/// Attention with an online softmax; S and the statistics of a row pass through shared memory.
///
///   grid    (kSeq / kBr, kHeads)       one tile of queries of one head
///   block   kThreads
///   shared  28.6 KiB
///   HBM     reads Q once, K and V kSeq / kBr times; writes O once
///
/// Has the same statements as tiled_attention.cl, so that both make the same accesses in the same order.
__global__ void __launch_bounds__(kThreads)
    tiled_attention(const float* __restrict__ gQ, const float* __restrict__ gK, const float* __restrict__ gV,
                    float* __restrict__ gO, int seq, float scale) {
  __shared__ float sQ[kBr][kHeadDim];
  __shared__ float sK[kBc][kHeadDim + 1];  // padded, because lanes read a column of it
  __shared__ float sV[kBc][kHeadDim];
  __shared__ float sS[kBr][kBc + 1];  // padded, because the softmax does so too
  __shared__ float sFactor[kBr];      // the factors for the rows of O

  constexpr int kRows = kBr / (kThreads / 32);  // of a warp
  const int thread = threadIdx.x;
  const int lane = thread % 32;
  const int first_row = thread / 32 * kRows;
  const int head = blockIdx.y * seq * kHeadDim;
  const int first_query = head + blockIdx.x * kBr * kHeadDim;

  for (int e = thread; e < kBr * kHeadDim; e += kThreads) {
    sQ[e / kHeadDim][e % kHeadDim] = gQ[first_query + e];
  }

  // A lane holds columns `lane` and `lane + 32` of O; thread t < kBr holds the statistics of row t.
  float rO[kRows][2];
  for (int r = 0; r < kRows; ++r) rO[r][0] = rO[r][1] = 0.0f;
  float m = -INFINITY;
  float l = 0.0f;

  for (int key_tile = 0; key_tile < seq; key_tile += kBc) {
    __syncthreads();  // no warp still reads the previous tile
    const int first_key = head + key_tile * kHeadDim;
    for (int e = thread; e < kBc * kHeadDim; e += kThreads) {
      sK[e / kHeadDim][e % kHeadDim] = gK[first_key + e];
      sV[e / kHeadDim][e % kHeadDim] = gV[first_key + e];
    }
    __syncthreads();

    for (int r = 0; r < kRows; ++r) {
      float score = 0.0f;
      for (int d = 0; d < kHeadDim; ++d) score += sQ[first_row + r][d] * sK[lane][d];
      sS[first_row + r][lane] = score * scale;
    }
    __syncthreads();

    if (thread < kBr) {
      float m_new = m;
      for (int key = 0; key < kBc; ++key) m_new = fmaxf(m_new, sS[thread][key]);
      float sum = 0.0f;
      for (int key = 0; key < kBc; ++key) {
        const float p = expf(sS[thread][key] - m_new);
        sS[thread][key] = p;
        sum += p;
      }
      const float factor = expf(m - m_new);
      l = l * factor + sum;
      m = m_new;
      sFactor[thread] = factor;
    }
    __syncthreads();

    for (int r = 0; r < kRows; ++r) {
      const float factor = sFactor[first_row + r];
      float o0 = rO[r][0] * factor;
      float o1 = rO[r][1] * factor;
      for (int key = 0; key < kBc; ++key) {
        const float p = sS[first_row + r][key];
        o0 += p * sV[key][lane];
        o1 += p * sV[key][lane + 32];
      }
      rO[r][0] = o0;
      rO[r][1] = o1;
    }
  }

  __syncthreads();  // the last tile's factors have been read
  if (thread < kBr) sFactor[thread] = 1.0f / l;
  __syncthreads();
  for (int r = 0; r < kRows; ++r) {
    const float factor = sFactor[first_row + r];
    const int row = first_query + (first_row + r) * kHeadDim;
    gO[row + lane] = rO[r][0] * factor;
    gO[row + lane + 32] = rO[r][1] * factor;
  }
}

void run_tiled_attention(const float* q, const float* k, const float* v, float* o) {
  fa::launch(tiled_attention, dim3(kSeq / kBr, kHeads), dim3(kThreads), 0, nullptr, q, k, v, o, kSeq, kScale);
}

}  // namespace fa::bench
