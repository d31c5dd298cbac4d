// verdict: clean
// flags: -std=c++17
// libcu++ atomics: a counter, a maximum, and a message that one block leaves for another.
#include <cuda/atomic>
#include <cstdio>

struct Mailbox {
  cuda::atomic<int, cuda::thread_scope_device> flag;
  int message[32];
};

__global__ void count(int* counter, unsigned* top) {
  cuda::atomic_ref<int, cuda::thread_scope_device> c(*counter);
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> t(*top);
  c.fetch_add(1, cuda::memory_order_relaxed);
  t.fetch_max(threadIdx.x * 3 + blockIdx.x);
}

__global__ void send_and_receive(Mailbox* box, int* out) {
  if (blockIdx.x == 0) {
    box->message[threadIdx.x] = 100 + threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) box->flag.store(1, cuda::memory_order_release);
  } else {
    if (threadIdx.x == 0)
      while (box->flag.load(cuda::memory_order_acquire) == 0) { }
    __syncthreads();
    out[threadIdx.x] = box->message[threadIdx.x];
  }
}

int main() {
  int *counter, *out, c, r[32], bad = 0;
  unsigned *top, t;
  Mailbox* box;
  cudaMalloc(&counter, sizeof(int));
  cudaMalloc(&top, sizeof(unsigned));
  cudaMalloc(&box, sizeof(Mailbox));
  cudaMalloc(&out, sizeof r);
  cudaMemset(counter, 0, sizeof(int));
  cudaMemset(top, 0, sizeof(unsigned));
  cudaMemset(box, 0, sizeof(Mailbox));
  count<<<3, 64>>>(counter, top);
  send_and_receive<<<2, 32>>>(box, out);
  cudaMemcpy(&c, counter, sizeof c, cudaMemcpyDeviceToHost);
  cudaMemcpy(&t, top, sizeof t, cudaMemcpyDeviceToHost);
  cudaMemcpy(r, out, sizeof r, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 32; ++i) bad += r[i] != 100 + i;
  printf("count %d, top %u, %d messages lost\n", c, t, bad);
  cudaFree(counter); cudaFree(top); cudaFree(box); cudaFree(out);
  return c != 192 || t != 191 || bad;
}
