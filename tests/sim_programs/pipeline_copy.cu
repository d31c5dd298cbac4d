// verdict: clean
// Double buffering with cuda::pipeline and cuda::barrier.
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cstdio>
#include <vector>
namespace cg = cooperative_groups;

constexpr int kThreads = 64;

__global__ void with_pipeline(const int* in, int* out, int batches) {
  auto block = cg::this_thread_block();
  __shared__ int shared[2][kThreads];
  constexpr cuda::thread_scope scope = cuda::thread_scope_block;
  __shared__ cuda::pipeline_shared_state<scope, 2> shared_state;
  auto pipeline = cuda::make_pipeline(block, &shared_state);
  for (int compute = 0, fetch = 0; compute < batches; ++compute) {
    for (; fetch < batches && fetch < compute + 2; ++fetch) {
      pipeline.producer_acquire();
      cuda::memcpy_async(block, shared[fetch % 2], in + fetch * kThreads, sizeof(int) * kThreads, pipeline);
      pipeline.producer_commit();
    }
    pipeline.consumer_wait();
    out[compute * kThreads + threadIdx.x] = shared[compute % 2][kThreads - 1 - threadIdx.x] + 1;
    pipeline.consumer_release();
  }
}

__global__ void with_barrier(const int* in, int* out) {
  auto block = cg::this_thread_block();
  __shared__ int tile[kThreads];
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  if (block.thread_rank() == 0) init(&bar, block.size());
  block.sync();
  cuda::memcpy_async(block, tile, in + blockIdx.x * kThreads, cuda::aligned_size_t<4>(sizeof(int) * kThreads), bar);
  bar.arrive_and_wait();
  out[blockIdx.x * kThreads + threadIdx.x] = 2 * tile[kThreads - 1 - threadIdx.x];
}

__global__ void with_cg(const int* in, int* out) {
  auto block = cg::this_thread_block();
  __shared__ int tile[kThreads];
  cg::memcpy_async(block, tile, in + blockIdx.x * kThreads, sizeof(tile));
  cg::wait(block);
  out[blockIdx.x * kThreads + threadIdx.x] = -tile[threadIdx.x ^ 1];
}

int main() {
  const int batches = 5, n = batches * kThreads;
  std::vector<int> h(n), r(n);
  for (int i = 0; i < n; ++i) h[i] = i * i % 31;
  int *in, *out, bad = 0;
  cudaMalloc(&in, n * sizeof(int));
  cudaMalloc(&out, n * sizeof(int));
  cudaMemcpy(in, h.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  with_pipeline<<<1, kThreads>>>(in, out, batches);
  cudaMemcpy(r.data(), out, n * sizeof(int), cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; ++i) bad += r[i] != h[i / kThreads * kThreads + kThreads - 1 - i % kThreads] + 1;
  with_barrier<<<batches, kThreads>>>(in, out);
  cudaMemcpy(r.data(), out, n * sizeof(int), cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; ++i) bad += r[i] != 2 * h[i / kThreads * kThreads + kThreads - 1 - i % kThreads];
  with_cg<<<batches, kThreads>>>(in, out);
  cudaMemcpy(r.data(), out, n * sizeof(int), cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; ++i) bad += r[i] != -h[i ^ 1];
  printf("pipelines: %d wrong\n", bad);
  cudaFree(in);
  cudaFree(out);
  return bad != 0;
}
