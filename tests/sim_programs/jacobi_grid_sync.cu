// verdict: clean
// Jacobi iterations in one cooperative launch.
#include <cooperative_groups.h>
#include <cmath>
#include <cstdio>
#include <vector>

namespace cg = cooperative_groups;

__global__ void jacobi(float *a, float *b, int n, int iterations, double *residual) {
  cg::grid_group grid = cg::this_grid();
  for (int it = 0; it < iterations; ++it) {
    double change = 0;
    for (int i = grid.thread_rank(); i < n; i += grid.size()) {
      float left = i ? a[i - 1] : 1.f, right = i < n - 1 ? a[i + 1] : 0.f;
      b[i] = 0.5f * (left + right);
      change += fabsf(b[i] - a[i]);
    }
    if (it == iterations - 1) atomicAdd(residual, change);
    float *t = a;
    a = b;
    b = t;
    grid.sync();
  }
}

int main() {
  int n = 500, iterations = 7, dev = 0, coop = 0;
  cudaDeviceGetAttribute(&coop, cudaDevAttrCooperativeLaunch, dev);
  if (!coop) { printf("no cooperative launch\n"); return 0; }
  cudaDeviceProp prop;
  cudaGetDeviceProperties(&prop, dev);
  int per_sm = 0;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, jacobi, 64, 0);
  if (prop.multiProcessorCount * per_sm < 4) return 1;
  float *a, *b;
  double *res;
  cudaMallocManaged(&a, n * sizeof(float));
  cudaMallocManaged(&b, n * sizeof(float));
  cudaMallocManaged(&res, sizeof(double));
  for (int i = 0; i < n; ++i) a[i] = b[i] = 0;
  *res = 0;
  void *args[] = {&a, &b, &n, &iterations, &res};
  cudaError_t e = cudaLaunchCooperativeKernel((void *)jacobi, dim3(4), dim3(64), args, 0, 0);
  if (e != cudaSuccess) { printf("%s\n", cudaGetErrorString(e)); return 1; }
  cudaDeviceSynchronize();
  std::vector<float> x(n, 0.f), y(n);
  for (int it = 0; it < iterations; ++it) {
    for (int i = 0; i < n; ++i) y[i] = 0.5f * ((i ? x[i - 1] : 1.f) + (i < n - 1 ? x[i + 1] : 0.f));
    x.swap(y);
  }
  float *result = iterations % 2 ? b : a;
  int bad = 0;
  for (int i = 0; i < n; ++i) bad += result[i] != x[i];
  printf("jacobi: %d wrong, residual %s\n", bad, *res > 0 ? "positive" : "zero");
  cudaFree(a); cudaFree(b); cudaFree(res);
  return bad != 0;
}
