// verdict: clean
// __CUDA_ARCH__ picks the code path; the same functions run on the host.
#include <cstdio>
#include <cmath>
#ifdef __CUDACC__
#define HD __host__ __device__
#else
#define HD
#endif
#ifdef __CUDA_ARCH__
#define ON_DEVICE 1
#else
#define ON_DEVICE 0
#endif

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 600
__device__ double atomicAdd(double* address, double val) {
  unsigned long long int* address_as_ull = (unsigned long long int*)address;
  unsigned long long int old = *address_as_ull, assumed;
  do {
    assumed = old;
    old = atomicCAS(address_as_ull, assumed, __double_as_longlong(val + __longlong_as_double(assumed)));
  } while (assumed != old);
  return __longlong_as_double(old);
}
#endif

HD inline int where() {
#ifdef __CUDA_ARCH__
  return 1;
#else
  return 2;
#endif
}
HD inline float inverse_sqrt(float x) {
#if defined(__CUDA_ARCH__)
  return rsqrtf(x);
#else
  return 1.0f / std::sqrt(x);
#endif
}
HD inline unsigned count_bits(unsigned v) {
#if __CUDA_ARCH__ >= 300
  return __popc(v);
#else
  return __builtin_popcount(v);
#endif
}

__global__ void probe(int* at, float* x, unsigned* bits, double* sum, int* arch) {
  int t = threadIdx.x;
  at[t] = where();
  x[t] = inverse_sqrt(t + 1.0f);
  bits[t] = count_bits(t * 2654435761u);
  atomicAdd(sum, 0.5 * t);
#ifdef __CUDA_ARCH__
  if (t == 0) *arch = __CUDA_ARCH__;
#endif
}

int main() {
  const int n = 64;
  int *at, *arch; float* x; unsigned* bits; double* sum;
  cudaMallocManaged(&at, n * sizeof(int));
  cudaMallocManaged(&x, n * sizeof(float));
  cudaMallocManaged(&bits, n * sizeof(unsigned));
  cudaMallocManaged(&sum, sizeof(double));
  cudaMallocManaged(&arch, sizeof(int));
  *sum = 0;
  *arch = 0;
  probe<<<1, n>>>(at, x, bits, sum, arch);
  if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  int bad = where() != 2 || *sum != 0.5 * n * (n - 1) / 2 || *arch < 350;
  for (int i = 0; i < n; i++)
    bad += at[i] != 1 || std::fabs(x[i] - inverse_sqrt(i + 1.0f)) > 1e-6f || bits[i] != count_bits(i * 2654435761u);
  printf("host %d, device %d, %d wrong\n", where(), at[0], bad);
  cudaFree(at); cudaFree(x); cudaFree(bits); cudaFree(sum); cudaFree(arch);
  return bad;
}
