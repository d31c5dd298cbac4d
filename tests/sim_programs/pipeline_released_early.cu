// verdict: race at line 20 or 24
// A ring of two stages; the consumer's wait is missing.
#include <cooperative_groups.h>
#include <cuda/pipeline>
#include <cstdio>

namespace cg = cooperative_groups;

__global__ void sum(const int* in, int* out, int tiles) {
  __shared__ int s[2][64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  int total = 0;
  for (int tile = 0; tile <= tiles; ++tile) {
    if (tile < tiles) {
      pipe.producer_acquire();
      // each thread brings a part
      const auto bytes = sizeof(int) * 64;
      cuda::memcpy_async(block, s[tile % 2], in + 64 * tile, bytes, pipe);
      pipe.producer_commit();
    }
    if (tile == 0) continue;
    total += s[(tile - 1) % 2][63 - threadIdx.x];
    pipe.consumer_release();
  }
  out[threadIdx.x] = total;
}

int main() {
  int host[256], *in, *out;
  for (int i = 0; i < 256; ++i) host[i] = i;
  cudaMalloc(&in, sizeof host);
  cudaMalloc(&out, 64 * sizeof(int));
  cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice);
  sum<<<1, 64>>>(in, out, 4);
  cudaMemcpy(host, out, 64 * sizeof(int), cudaMemcpyDeviceToHost);
  printf("%d\n", host[0]);
  cudaFree(in);
  cudaFree(out);
  return 0;
}
