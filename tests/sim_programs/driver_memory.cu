// verdict: clean
// Contexts and memory through the driver's API, kernels through the runtime's. Handles for other processes.
#include <cuda.h>
#include <cstdio>
#include <vector>

__global__ void triple(float *x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 3.0f;
}

int main() {
  CUdevice device;
  CUcontext context;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS) return 1;
  if (cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS) return 1;
  cuCtxSetCurrent(context);
  const int n = 300;
  std::vector<float> x(n, 2.0f);
  CUdeviceptr d_x;
  if (cuMemAlloc(&d_x, n * sizeof(float)) != CUDA_SUCCESS) return 1;
  cuMemcpyHtoD(d_x, x.data(), n * sizeof(float));
  triple<<<(n + 127) / 128, 128>>>(reinterpret_cast<float *>(d_x), n);
  cuCtxSynchronize();
  cuMemcpyDtoH(x.data(), d_x, n * sizeof(float));
  CUdeviceptr base;
  size_t bytes;
  cuMemGetAddressRange(&base, &bytes, d_x + 40);
  cudaIpcMemHandle_t handle;
  cudaIpcGetMemHandle(&handle, reinterpret_cast<void *>(d_x));  // there may be no such handle
  int wrong = base != d_x || bytes != n * sizeof(float);
  for (float value : x) wrong += value != 6.0f;
  cuMemFree(d_x);
  cuDevicePrimaryCtxRelease(device);
  printf("driver_memory: %d wrong\n", wrong);
  return wrong != 0;
}
