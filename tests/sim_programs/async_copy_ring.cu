// verdict: clean
// A ring of four stages with the pipeline intrinsics; each warp keeps its own rows, so __syncwarp() is enough.
#include <cuda_pipeline.h>
#include <cstdio>
#include <vector>

template <int STAGES>
__global__ void rolling_sum(const float* __restrict__ in, float* __restrict__ out, int rows) {
  __shared__ __align__(16) float ring[4][STAGES][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const float* src = in + (blockIdx.x * 4 + warp) * rows * 32;
  float sum = 0;
#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) {
    if (lane < 8 && s < rows) __pipeline_memcpy_async(&ring[warp][s][lane * 4], src + s * 32 + lane * 4, 16);
    __pipeline_commit();
  }
  for (int r = 0; r < rows; ++r) {
    const int ahead = r + STAGES - 1;
    __pipeline_wait_prior(STAGES - 2);
    __syncwarp();
    sum += ring[warp][r % STAGES][31 - lane];
    __syncwarp();
    if (lane < 8 && ahead < rows) __pipeline_memcpy_async(&ring[warp][ahead % STAGES][lane * 4], src + ahead * 32 + lane * 4, 16);
    __pipeline_commit();
  }
  out[(blockIdx.x * 4 + warp) * 32 + lane] = sum;
}

int main() {
  const int rows = 11, blocks = 2, n = blocks * 4 * rows * 32;
  std::vector<float> h(n), r(blocks * 128);
  for (int i = 0; i < n; ++i) h[i] = i % 10;
  float *a, *b;
  cudaMalloc(&a, n * sizeof(float));
  cudaMalloc(&b, r.size() * sizeof(float));
  cudaMemcpy(a, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
  rolling_sum<4><<<blocks, 128>>>(a, b, rows);
  cudaMemcpy(r.data(), b, r.size() * sizeof(float), cudaMemcpyDeviceToHost);
  int bad = 0;
  for (int w = 0; w < blocks * 4; ++w)
    for (int l = 0; l < 32; ++l) {
      float s = 0;
      for (int k = 0; k < rows; ++k) s += h[(w * rows + k) * 32 + 31 - l];
      bad += s != r[w * 32 + l];
    }
  printf("ring: %d wrong\n", bad);
  cudaFree(a);
  cudaFree(b);
  return bad;
}
