/// @file
/// A whole Hopper program: S = Q K^T for one query tile per head.
/// A warp copies, a warpgroup multiplies, and the host checks every score.
#include <cstdio>
#include <exception>
#include <vector>

#include "device/launch.cuh"
#include "device/tensor_map_encoding.hpp"
#include "products.cuh"

namespace fa::ch09 {

using T = __nv_bfloat16;
constexpr int kHeads = 2, kQueries = 64, kKeys = 320, kDim = 64;
constexpr int kTile = 64, kTiles = kKeys / kTile;  // keys per tile, tiles per head
constexpr int kStages = 2;                         // tiles of K in shared memory
constexpr int kThreads = 128 + 32;                 // a warpgroup multiplies, a warp copies

struct __align__(1024) Shared {
  T q[kQueries * kDim], k[kStages][kTile * kDim];
  std::uint64_t q_full, full[kStages], empty[kStages];
};

/// A tensor [heads, rows, kDim] in boxes of 64 rows, swizzled over 128 bytes.
CUtensorMap map_of(T* tensor, int rows) {
  // From the innermost dimension, whose stride is that of an element and is not given.
  const cuuint64_t lengths[] = {kDim, cuuint64_t(rows), kHeads};
  const cuuint64_t strides[] = {kDim * sizeof(T), rows * kDim * sizeof(T)};
  const cuuint32_t box[] = {kDim, 64, 1}, steps[] = {1, 1, 1};
  CUtensorMap map;
  const auto encode = [&](auto encoder) {  // the driver's cuTensorMapEncodeTiled
    return encoder(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, tensor, lengths, strides, box, steps,
                   CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                   CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  encode_tensor_map(encode, "a tensor of the first program");
  return map;
}

/// scores[head, query, key] = q . k      grid  kHeads      block  kThreads
__global__ void __launch_bounds__(kThreads)
    scores_of_heads(const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
                    float* scores) {
  __shared__ Shared s;
  const int head = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&s.q_full, 1);  // arrivals per phase
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::mbarrier_init(&s.full[stage], 1);   // the producer
      ptx::mbarrier_init(&s.empty[stage], 4);  // a lane of each consumer warp
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  if (warp == 4) {  // the producer: one thread
    if (!ptx::elect_sync()) return;
    ptx::mbarrier_arrive_expect_tx(&s.q_full, sizeof s.q);
    ptx::tma_load(s.q, &q_map, &s.q_full, 0, 0, head);
    for (int tile = 0; tile < kTiles; ++tile) {
      const int stage = tile % kStages, round = tile / kStages;
      // The tile that was here before has been read.
      if (round > 0) ptx::mbarrier_wait(&s.empty[stage], (round - 1) % 2);
      ptx::mbarrier_arrive_expect_tx(&s.full[stage], sizeof s.k[stage]);
      ptx::tma_load(s.k[stage], &k_map, &s.full[stage], 0, tile * kTile, head);
    }
    return;
  }

  ptx::mbarrier_wait(&s.q_full, 0);  // the consumer: a warpgroup
  const std::uint64_t q = descriptor(s.q, 16);
  for (int tile = 0; tile < kTiles; ++tile) {
    const int stage = tile % kStages, round = tile / kStages;
    const std::uint64_t k = descriptor(s.k[stage], 16);
    float rS[kTile / 2];
    ptx::mbarrier_wait(&s.full[stage], round % 2);  // the tile has landed
    ptx::wgmma_fence();
    ptx::wgmma<T, false, false, false>(rS, q, k);  // columns 0 to 15 of Q and K
#pragma unroll
    for (int step = 1; step < kDim / 16; ++step)  // 16 columns are 32 bytes
      ptx::wgmma<T, true, false, false>(rS, moved(q, 32 * step), moved(k, 32 * step));
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>(rS);
    if (lane == 0) ptx::mbarrier_arrive(&s.empty[stage]);
#pragma unroll
    for (int i = 0; i < kTile / 2; ++i) {
      const int query = 16 * warp + lane / 4 + 8 * (i / 2 % 2);
      const int key = tile * kTile + 8 * (i / 4) + 2 * (lane % 4) + i % 2;
      scores[(head * kQueries + query) * kKeys + key] = rS[i];
    }
  }
}

/// Small integers: every sum is exact, whatever the order of its terms.
float number(int i) { return float((i * 7 + i / 64 * 5) % 9 - 4); }

/// A copy on the device, which lives as long as the program.
template <class Number>
Number* to_device(const std::vector<Number>& from) {
  Number* g = nullptr;
  FA_CUDA_CHECK(cudaMalloc(&g, sizeof(Number) * from.size()));
  FA_CUDA_CHECK(cudaMemcpy(g, from.data(), sizeof(Number) * from.size(), cudaMemcpyHostToDevice));
  return g;
}

int run() {
  std::vector<T> q(kHeads * kQueries * kDim), k(kHeads * kKeys * kDim);
  for (int i = 0; i < int(q.size()); ++i) q[i] = __float2bfloat16(number(i));
  for (int i = 0; i < int(k.size()); ++i) k[i] = __float2bfloat16(number(i + 1));
  std::vector<float> scores(kHeads * kQueries * kKeys, -1.0f);
  float* gScores = to_device(scores);
  launch(scores_of_heads, kHeads, kThreads, 0, nullptr, map_of(to_device(q), kQueries),
         map_of(to_device(k), kKeys), gScores);
  const size_t bytes = sizeof(float) * scores.size();
  // This copy waits for the kernel.
  FA_CUDA_CHECK(cudaMemcpy(scores.data(), gScores, bytes, cudaMemcpyDeviceToHost));

  int right = 0;
  for (int i = 0; i < int(scores.size()); ++i) {
    const int head = i / kKeys / kQueries, row = i / kKeys, key = head * kKeys + i % kKeys;
    float dot = 0.0f;
    for (int d = 0; d < kDim; ++d) dot += number(row * kDim + d) * number(key * kDim + d + 1);
    right += scores[i] == dot;
  }
  std::printf("%d of %d scores are right; the first is %g\n", right, int(scores.size()), scores[0]);
  return right == int(scores.size()) ? 0 : 1;
}

}  // namespace fa::ch09

int main() {
  try {
    return fa::ch09::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
