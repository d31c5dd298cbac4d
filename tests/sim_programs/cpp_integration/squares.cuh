#ifndef SQUARES_CUH
#define SQUARES_CUH
// A header with a kernel and its launch.
template <typename T>
__global__ void square_kernel(T *v, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) v[i] *= v[i];
}
template <typename T>
void square_all(T *host, int n) {
  T *d;
  cudaMalloc(&d, n * sizeof(T));
  cudaMemcpy(d, host, n * sizeof(T), cudaMemcpyHostToDevice);
  square_kernel<<<1, 32>>>(d, n);
  cudaMemcpy(host, d, n * sizeof(T), cudaMemcpyDeviceToHost);
  cudaFree(d);
}
#endif
