// verdict: race at line 33 or 37
// A pipeline over two streams. The host adds up a result that may still be on its way.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void square(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= x[i];
}

int main() {
  const int n = 2048, chunks = 4, part = n / chunks;
  float *in, *out, *d[2];
  cudaStream_t streams[2];
  cudaMallocHost(&in, n * sizeof(float));
  cudaMallocHost(&out, n * sizeof(float));
  double expected = 0;
  for (int i = 0; i < n; i++) {
    in[i] = float(i % 50);
    expected += in[i] * in[i];
  }
  for (int s = 0; s < 2; s++) {
    cudaStreamCreate(&streams[s]);
    cudaMalloc(&d[s], part * sizeof(float));
  }

  double sum = 0;
  for (int c = 0; c < chunks; c++) {
    const int s = c % 2;
    float* to = out + c * part;
    cudaMemcpyAsync(d[s], in + c * part, part * sizeof(float), cudaMemcpyHostToDevice, streams[s]);
    square<<<(part + 127) / 128, 128, 0, streams[s]>>>(d[s], part);
    cudaMemcpyAsync(to, d[s], part * sizeof(float), cudaMemcpyDeviceToHost, streams[s]);
    // the other stream's chunk is complete, but which one is that?
    if (c > 0) cudaStreamSynchronize(streams[s ^ 1]);
    const float* ready = out + c * part;
    for (int i = 0; i < part; i++) sum += ready[i];
  }
  cudaDeviceSynchronize();
  printf("%f of %f\n", sum, expected);
  for (int s = 0; s < 2; s++) {
    cudaStreamDestroy(streams[s]);
    cudaFree(d[s]);
  }
  cudaFreeHost(in);
  cudaFreeHost(out);
  return 0;
}
