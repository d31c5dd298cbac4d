// verdict: clean
// Every way to spell a launch.
#include <cstdio>
#include <cuda_runtime.h>

template <typename T, int STEP = 1> __global__ void bump(T* p, T by = T(1)) { atomicAdd(p, T(by * STEP)); }
template <class F, class... Args> __global__ void apply(F f, Args... args) { f(args...); }
template <int N> struct Ladder { static __device__ void climb(int* p) { atomicAdd(p, N); Ladder<N - 1>::climb(p); } };
template <> struct Ladder<0> { static __device__ void climb(int*) {} };
template <int N> __global__ void ladder(int* p) { Ladder<N>::climb(p); }
extern "C" __global__ void plain_c(int* p) { atomicAdd(p, 1000); }
static __global__ void internal(int *p, const int a, int b = 7) { if (a < b) atomicAdd(p, a > b ? 1 : 2); }
namespace ns { namespace inner { __global__ void in_namespace(int* p) { atomicAdd(p, 3); } } }
struct Add { int* p; __device__ void operator()(int a, int b) const { atomicAdd(p, a + b); } };
struct Solver {
  int* p;
  dim3 grid = dim3(2), block = dim3(4, 2);
  void run() { bump<<<grid, block>>>(p); }
  template <int M> void step() { bump<int, M> <<<1, 1, 0, stream()>>>(this->p, 5); }
  static cudaStream_t stream() { return 0; }
};
#define CONFIG(n) ((n) + 3) / 4, 4
#define RUN(k, ...) k<<<CONFIG(8)>>>(__VA_ARGS__)
#define FOR_EACH(X) X(1) X(2)
using Kernel = void (*)(int*);

int main() {
  int *p, h = 0, want = 0;
  cudaMalloc(&p, sizeof(int));
  cudaMemset(p, 0, sizeof(int));

  bump<<<1, 1>>>(p);                                      want += 1;
  bump<int><<<1, 2>>>(p, 10);                             want += 20;
  bump<int, 3> <<< 1, 1 >>> (p, 2);                       want += 6;
  bump<int, (2 > 1 ? 4 : 5)><<<dim3(1, 1, 1), dim3(1)>>>(p); want += 4;
  bump <<<1, 1, 0>>>(p, 1 << 3 >> 1);                     want += 4;
  bump<<<(h < 1 ? 1 : 2), 1 >> 0>>>(p);                   want += 1;
  apply<<<1, 1>>>(Add{p}, 4, 5);                          want += 9;
  ladder<4><<<1, 1>>>(p);                                 want += 10;
  plain_c<<<1, 1>>>(p);                                   want += 1000;
  ::plain_c << <1, 1 >> >(p);                             want += 1000;
  internal<<<1, 1>>>(p, 1);                               want += 2;
  ns::inner::in_namespace<<<2, 1>>>(p);                   want += 6;
  RUN(bump, p);                                           want += 8;
#define X(n) ladder<n><<<1, n>>>(p);
  FOR_EACH(X)                                             want += 1 + 2 * 3;
#undef X
  Solver s{p};
  s.run();                                                want += 16;
  s.step<2>();                                            want += 10;
  const Kernel table[2][2] = {{plain_c, ladder<1>}, {ns::inner::in_namespace, &ladder<3>}};
  for (auto& row : table) for (Kernel k : row) k<<<1, 1>>>(p);
  want += 1000 + 1 + 3 + 6;
  table[1][1]<<<1, 2>>>(p);                               want += 12;
  (*table[0][1])<<<1, 1>>>(p);                            want += 1;
  if (h == 0) plain_c<<<1, 1>>>(p); else ladder<2><<<1, 1>>>(p);
  want += 1000;
  auto launch = [&](auto k, int n) { k<<<n, 1>>>(p); };
  launch(plain_c, 2);                                     want += 2000;
  int by = 11;
  void* args[] = {&p, &by};
  cudaLaunchKernel((const void*)bump<int, 2>, dim3(1), dim3(1), args, 0, nullptr); want += 22;
  void* args1[] = {(void*)&p};
  cudaLaunchKernel((void*)&plain_c, 1, 1, args1);         want += 1000;
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  plain_c<<<1, 1, 0, stream>>>(p);                        want += 1000;
  cudaStreamSynchronize(stream);
  cudaStreamDestroy(stream);
  const char* text = "kernel<<<1, 1>>>(p); is only text /* here */";
  // and this<<<1, 1>>>(p) is a comment

  cudaMemcpy(&h, p, sizeof(int), cudaMemcpyDeviceToHost);
  printf("%d, expected %d (%c)\n", h, want, text[0]);
  cudaFree(p);
  return h != want;
}
