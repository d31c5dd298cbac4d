// verdict: clean
// flags: --extended-lambda -std=c++17
// Function pointers on the device, extended lambdas, managed variables, CRTP, recursion.
#include <cstdio>
#include <type_traits>
#include <utility>

__managed__ int counter;
__managed__ float results[64];
__device__ __managed__ double factor = 1.5;

using Op = float (*)(float, float);
__device__ float op_add(float a, float b) { return a + b; }
__device__ float op_mul(float a, float b) { return a * b; }
__device__ Op d_add = op_add;
__device__ Op d_mul = op_mul;
__device__ Op table[2] = {op_add, op_mul};

__global__ void call(Op f, float x) { results[threadIdx.x] = f(threadIdx.x, x); }
__global__ void call_table(int which) { results[threadIdx.x] = table[which](threadIdx.x, 10); }

template <class F> __global__ void for_each(int n, F f) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) f(i);
}
template <class F> void parallel_for(int n, F &&f) {
  for_each<<<(n + 31) / 32, 32>>>(n, std::forward<F>(f));
  cudaDeviceSynchronize();
}

template <class Derived> struct Base {
  __host__ __device__ int value() const { return static_cast<const Derived *>(this)->impl() * 2; }
};
struct Three : Base<Three> { __host__ __device__ int impl() const { return 3; } };
template <class T, std::enable_if_t<std::is_base_of_v<Base<T>, T>, int> = 0>
__device__ int twice(const T &t) { return t.value(); }

__device__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
__device__ __noinline__ int gcd(int a, int b) { return b ? gcd(b, a % b) : a; }

__global__ void misc(int *out) {
  struct Local { int a : 4; unsigned b : 12; } l = {-3, 1000};
  union { float f; unsigned u; } bits;
  bits.f = 1.0f;
  static constexpr int primes[] = {2, 3, 5, 7};
  int sum = 0;
  for (int p : primes) sum += p;
  out[0] = fib(10);
  out[1] = gcd(84, 36);
  out[2] = twice(Three{});
  out[3] = l.a + (int)l.b;
  out[4] = bits.u == 0x3f800000u;
  out[5] = sum;
  auto add = [=](auto... xs) { return (xs + ... + 0); };
  out[6] = add(1, 2, 3);
  switch (threadIdx.x) {
    case 0: out[7] = 70; break;
    default: out[7] = -1;
  }
}

int main() {
  int bad = 0;
  Op h;
  cudaMemcpyFromSymbol(&h, d_mul, sizeof(Op));
  call<<<1, 64>>>(h, 3);
  cudaDeviceSynchronize();
  for (int i = 0; i < 64; i++) bad += results[i] != 3.f * i;
  cudaMemcpyFromSymbol(&h, d_add, sizeof(Op));
  call<<<1, 64>>>(h, 3);
  cudaDeviceSynchronize();
  for (int i = 0; i < 64; i++) bad += results[i] != 3.f + i;
  call_table<<<1, 64>>>(1);
  cudaDeviceSynchronize();
  for (int i = 0; i < 64; i++) bad += results[i] != 10.f * i;

  counter = 0;
  int by = 3;
  parallel_for(50, [=] __device__(int i) { if (i % 2) atomicAdd(&counter, by); });
  bad += counter != 75;
  float *p = results;
  parallel_for(64, [p] __device__(int i) { p[i] = i * factor; });
  bad += results[10] != 15.f;

  int *out, ho[8], want[8] = {55, 12, 6, 997, 1, 17, 6, 70};
  cudaMalloc(&out, sizeof ho);
  misc<<<1, 1>>>(out);
  cudaMemcpy(ho, out, sizeof ho, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 8; i++) bad += ho[i] != want[i];
  printf("callbacks: %d wrong\n", bad);
  cudaFree(out);
  return bad;
}
