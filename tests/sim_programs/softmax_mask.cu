// verdict: shuffle or divergent or misuse at line 13 or 15
// One warp per row, but the row has 20 columns: only the lanes with a column take part in the shuffles.
#include <cstdio>
#include <cmath>
#include <vector>

__global__ void softmax20(const float* in, float* out, int cols) {
  const int lane = threadIdx.x;
  const float* row = in + blockIdx.x * cols;
  if (lane < cols) {
    float x = row[lane];
    float m = x;
    for (int d = 16; d > 0; d >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
    float e = expf(x - m), s = e;
    for (int d = 16; d > 0; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
    out[blockIdx.x * cols + lane] = e / s;
  }
}

int main() {
  const int rows = 8, cols = 20;
  std::vector<float> h(rows * cols), r(rows * cols);
  for (int i = 0; i < rows * cols; ++i) h[i] = std::sin(float(i));
  float *a, *b;
  cudaMalloc(&a, h.size() * 4);
  cudaMalloc(&b, h.size() * 4);
  cudaMemcpy(a, h.data(), h.size() * 4, cudaMemcpyHostToDevice);
  softmax20<<<rows, 32>>>(a, b, cols);
  cudaMemcpy(r.data(), b, r.size() * 4, cudaMemcpyDeviceToHost);
  int bad = 0;
  for (int i = 0; i < rows; ++i) {
    float s = 0;
    for (int c = 0; c < cols; ++c) s += r[i * cols + c];
    bad += !(std::fabs(s - 1) < 1e-4);
  }
  printf("%d of %d rows do not add up to 1\n", bad, rows);
  cudaFree(a);
  cudaFree(b);
}
