// verdict: clean
// A cooperative launch with more threads than a process can have ranges of memory. Streams with attributes.
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

__global__ void next_blocks(int *turn, int *out) {
  cg::grid_group grid = cg::this_grid();
  if (threadIdx.x == 0) turn[blockIdx.x] = blockIdx.x;
  cg::sync(grid);
  if (threadIdx.x == 0) out[blockIdx.x] = turn[(blockIdx.x + 1) % gridDim.x];
}

int main() {
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  int *d_turn, *d_out, least = 0, size = 0, out[34];
  cudaMalloc(&d_turn, sizeof(out));
  cudaMalloc(&d_out, sizeof(out));

  cudaAccessPolicyWindow window = {0};
  window.base_ptr = d_turn;
  window.num_bytes = sizeof(out);
  window.hitRatio = 1.0f;
  window.hitProp = cudaAccessPropertyPersisting;
  window.missProp = cudaAccessPropertyStreaming;
  cudaStreamAttrValue value;
  value.accessPolicyWindow = window;
  const cudaStreamAttrID attribute = cudaStreamAttributeAccessPolicyWindow;
  if (cudaStreamSetAttribute(stream, attribute, &value) != cudaSuccess) return 1;

  if (cudaOccupancyMaxPotentialBlockSize(&least, &size, (void *)next_blocks, 0, 0) != cudaSuccess) return 1;
  void *arguments[] = {&d_turn, &d_out};
  cudaLaunchCooperativeKernel((void *)next_blocks, dim3(34), dim3(size), arguments, 0, stream);
  cudaMemcpyAsync(out, d_out, sizeof(out), cudaMemcpyDeviceToHost, stream);
  if (cudaStreamSynchronize(stream) != cudaSuccess) return 1;
  int wrong = 0;
  for (int i = 0; i < 34; ++i) wrong += out[i] != (i + 1) % 34;
  printf("grid_of_many_threads: %d threads in a block, %d wrong\n", size, wrong);
  return wrong != 0;
}
