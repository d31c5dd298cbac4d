// verdict: clean
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

#define CUDA_CHECK_ERROR(call) \
  { cudaError_t const cuda_status = (call); \
    if (cuda_status != cudaSuccess) { \
      fprintf(stderr, "CUDA error %d (%s) at %s:%d\n", (int)cuda_status, cudaGetErrorString(cuda_status), __FILE__, __LINE__); \
      exit(-1); } }

__global__ void sobel(cudaTextureObject_t tex, float *out, int w, int h)
{
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  float p[3][3];
  for (int j = -1; j <= 1; j++)
    for (int i = -1; i <= 1; i++) p[j + 1][i + 1] = tex2D<float>(tex, x + i + 0.5f, y + j + 0.5f);
  float gx = p[0][2] + 2 * p[1][2] + p[2][2] - p[0][0] - 2 * p[1][0] - p[2][0];
  float gy = p[2][0] + 2 * p[2][1] + p[2][2] - p[0][0] - 2 * p[0][1] - p[0][2];
  out[y * w + x] = fabsf(gx) + fabsf(gy);
}

int main()
{
  const int w = 50, h = 30;
  float img[w * h], got[w * h];
  for (int i = 0; i < w * h; i++) img[i] = (i * 2654435761u >> 24) % 32;
  cudaChannelFormatDesc desc = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
  cudaArray_t cuArray;
  CUDA_CHECK_ERROR(cudaMallocArray(&cuArray, &desc, w, h));
  CUDA_CHECK_ERROR(cudaMemcpy2DToArray(cuArray, 0, 0, img, w * sizeof(float), w * sizeof(float), h, cudaMemcpyHostToDevice));
  struct cudaResourceDesc resDesc;
  memset(&resDesc, 0, sizeof(resDesc));
  resDesc.resType = cudaResourceTypeArray;
  resDesc.res.array.array = cuArray;
  struct cudaTextureDesc texDesc;
  memset(&texDesc, 0, sizeof(texDesc));
  texDesc.addressMode[0] = cudaAddressModeClamp;
  texDesc.addressMode[1] = cudaAddressModeClamp;
  texDesc.filterMode = cudaFilterModePoint;
  texDesc.readMode = cudaReadModeElementType;
  texDesc.normalizedCoords = 0;
  cudaTextureObject_t texObj = 0;
  CUDA_CHECK_ERROR(cudaCreateTextureObject(&texObj, &resDesc, &texDesc, NULL));
  float *d_out;
  CUDA_CHECK_ERROR(cudaMalloc(&d_out, w * h * sizeof(float)));
  dim3 dimBlock(16, 16), dimGrid((w + 15) / 16, (h + 15) / 16);
  sobel<<<dimGrid, dimBlock>>>(texObj, d_out, w, h);
  CUDA_CHECK_ERROR(cudaGetLastError());
  CUDA_CHECK_ERROR(cudaMemcpy(got, d_out, sizeof(got), cudaMemcpyDeviceToHost));
  int bad = 0;
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) {
#define AT(i, j) img[(y + (j) < 0 ? 0 : y + (j) >= h ? h - 1 : y + (j)) * w + (x + (i) < 0 ? 0 : x + (i) >= w ? w - 1 : x + (i))]
      float gx = AT(1, -1) + 2 * AT(1, 0) + AT(1, 1) - AT(-1, -1) - 2 * AT(-1, 0) - AT(-1, 1);
      float gy = AT(-1, 1) + 2 * AT(0, 1) + AT(1, 1) - AT(-1, -1) - 2 * AT(0, -1) - AT(1, -1);
      bad += got[y * w + x] != fabsf(gx) + fabsf(gy);
    }
  printf("sobel: %d pixels differ\n", bad);
  CUDA_CHECK_ERROR(cudaDestroyTextureObject(texObj));
  CUDA_CHECK_ERROR(cudaFreeArray(cuArray));
  CUDA_CHECK_ERROR(cudaFree(d_out));
  return bad != 0;
}
