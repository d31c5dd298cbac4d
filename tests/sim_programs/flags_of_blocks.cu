// verdict: clean
// All blocks that find something store the same constant: no order of the stores makes a difference.
#include <cstdio>
#include <cstdlib>

enum { kSettled = 0, MOVED = 1 };

__global__ void smooth(const int *from, int *to, int n, bool *again, int *state, int *rows_with_peak) {
  __shared__ int peak;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x == 0) peak = 0;
  __syncthreads();
  if (i < n) {
    const int left = i > 0 ? from[i - 1] : 0, right = i + 1 < n ? from[i + 1] : 0;
    const int next = max(from[i], (left + right) / 2);
    to[i] = next;
    if (next != from[i]) *again = true;
    if (next != from[i]) { *state = MOVED; }
    if (from[i] > left && from[i] > right) peak = 1;
  }
  __syncthreads();
  if (threadIdx.x == 0) rows_with_peak[blockIdx.x] = peak;
}

int main() {
  const int n = 2000, threads = 128, blocks = (n + threads - 1) / threads;
  int *h = (int *)malloc(n * sizeof(int));
  for (int i = 0; i < n; ++i) h[i] = i * 7919 % 100;
  int *d[2], *d_state, *d_peaks;
  bool *d_again, again = true;
  cudaMalloc(&d[0], n * sizeof(int));
  cudaMalloc(&d[1], n * sizeof(int));
  cudaMalloc(&d_state, sizeof(int));
  cudaMalloc(&d_peaks, blocks * sizeof(int));
  cudaMalloc(&d_again, sizeof(bool));
  cudaMemcpy(d[0], h, n * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemset(d_state, 0, sizeof(int));
  int steps = 0;
  for (; again && steps < 30; ++steps) {
    again = false;
    cudaMemcpy(d_again, &again, sizeof(bool), cudaMemcpyHostToDevice);
    smooth<<<blocks, threads>>>(d[steps % 2], d[1 - steps % 2], n, d_again, d_state, d_peaks);
    cudaMemcpy(&again, d_again, sizeof(bool), cudaMemcpyDeviceToHost);
  }
  int state = kSettled;
  cudaMemcpy(&state, d_state, sizeof(int), cudaMemcpyDeviceToHost);
  printf("flags_of_blocks: %s after %d steps\n", again ? "moves" : "settled", steps);
  return state != MOVED;
}
