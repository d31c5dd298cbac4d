// verdict: clean
// Linear textures, bilinear filtering, normalised coordinates, wrapping, and a surface.
#include <cstdio>
#include <cmath>
#include <vector>

template <class T> __global__ void fetch(cudaTextureObject_t t, T *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = tex1Dfetch<T>(t, i);
}
__global__ void rotate(float *out, int w, int h, float theta, cudaTextureObject_t tex) {
  unsigned int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  float u = (float)x - w / 2.f, v = (float)y - h / 2.f;
  float tu = (u * cosf(theta) - v * sinf(theta)) / w, tv = (v * cosf(theta) + u * sinf(theta)) / h;
  out[y * w + x] = tex2D<float>(tex, tu + 0.5f, tv + 0.5f);
}
__global__ void lerp_row(cudaTextureObject_t tex, float *out, int n) {
  int i = threadIdx.x;
  if (i < n) out[i] = tex2D<float>(tex, i * 0.5f + 0.5f, 0.5f);
}
__global__ void invert(cudaSurfaceObject_t s, int w, int h) {
  int x = threadIdx.x, y = threadIdx.y;
  if (x < w && y < h) {
    uchar4 v;
    surf2Dread(&v, s, x * 4, y);
    v.x = 255 - v.x;
    surf2Dwrite(v, s, x * 4, y);
  }
}

int main() {
  int bad = 0;
  const int n = 100;
  std::vector<int> hi(n);
  for (int i = 0; i < n; i++) hi[i] = i * 3;
  int *lin, *lin_out;
  cudaMalloc(&lin, n * sizeof(int));
  cudaMalloc(&lin_out, n * sizeof(int));
  cudaMemcpy(lin, hi.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  cudaResourceDesc rd = {};
  rd.resType = cudaResourceTypeLinear;
  rd.res.linear.devPtr = lin;
  rd.res.linear.desc = cudaCreateChannelDesc<int>();
  rd.res.linear.sizeInBytes = n * sizeof(int);
  cudaTextureDesc td = {};
  td.readMode = cudaReadModeElementType;
  cudaTextureObject_t tl;
  cudaCreateTextureObject(&tl, &rd, &td, nullptr);
  fetch<int><<<1, 128>>>(tl, lin_out, n);
  std::vector<int> got(n);
  cudaMemcpy(got.data(), lin_out, n * sizeof(int), cudaMemcpyDeviceToHost);
  bad += got != hi;

  const int w = 16, h = 8;
  std::vector<float> img(w * h), out(w * h);
  for (int i = 0; i < w * h; i++) img[i] = i % w;
  cudaChannelFormatDesc fd = cudaCreateChannelDesc<float>();
  cudaArray *arr;
  cudaMallocArray(&arr, &fd, w, h);
  cudaMemcpy2DToArray(arr, 0, 0, img.data(), w * 4, w * 4, h, cudaMemcpyHostToDevice);
  cudaResourceDesc ra = {};
  ra.resType = cudaResourceTypeArray;
  ra.res.array.array = arr;
  cudaTextureDesc ta = {};
  ta.addressMode[0] = cudaAddressModeWrap;
  ta.addressMode[1] = cudaAddressModeWrap;
  ta.filterMode = cudaFilterModeLinear;
  ta.readMode = cudaReadModeElementType;
  ta.normalizedCoords = true;
  cudaTextureObject_t tn, tb;
  cudaCreateTextureObject(&tn, &ra, &ta, NULL);
  ta.normalizedCoords = 0;
  ta.addressMode[0] = ta.addressMode[1] = cudaAddressModeClamp;
  cudaCreateTextureObject(&tb, &ra, &ta, NULL);
  float *d;
  cudaMalloc(&d, w * h * 4);
  rotate<<<dim3(2, 2), dim3(8, 8)>>>(d, w, h, 0.0f, tn);
  cudaMemcpy(out.data(), d, w * h * 4, cudaMemcpyDeviceToHost);
  // without rotation each pixel is halfway between two texels, in both directions
  for (int y = 0; y < h; y++)
    for (int x = 0; x < w; x++) {
      float left = (x + w - 1) % w, want = 0.5f * (left + x);
      bad += std::fabs(out[y * w + x] - want) > 0.05f;
    }
  lerp_row<<<1, 32>>>(tb, d, 20);
  cudaMemcpy(out.data(), d, 20 * 4, cudaMemcpyDeviceToHost);
  for (int i = 0; i < 20; i++) bad += std::fabs(out[i] - i * 0.5f) > 0.01f;

  std::vector<uchar4> px(w * h, make_uchar4(10, 20, 30, 40));
  cudaChannelFormatDesc ud = cudaCreateChannelDesc<uchar4>();
  cudaArray_t sa;
  cudaMallocArray(&sa, &ud, w, h, cudaArraySurfaceLoadStore);
  cudaMemcpy2DToArray(sa, 0, 0, px.data(), w * 4, w * 4, h, cudaMemcpyHostToDevice);
  cudaResourceDesc rs = {};
  rs.resType = cudaResourceTypeArray;
  rs.res.array.array = sa;
  cudaSurfaceObject_t surf;
  cudaCreateSurfaceObject(&surf, &rs);
  invert<<<1, dim3(w, h)>>>(surf, w, h);
  cudaMemcpy2DFromArray(px.data(), w * 4, sa, 0, 0, w * 4, h, cudaMemcpyDeviceToHost);
  for (auto p : px) bad += p.x != 245 || p.y != 20;
  printf("textures: %d wrong\n", bad);
  cudaDestroyTextureObject(tl); cudaDestroyTextureObject(tn); cudaDestroyTextureObject(tb);
  cudaDestroySurfaceObject(surf);
  cudaFreeArray(arr); cudaFreeArray(sa);
  cudaFree(lin); cudaFree(lin_out); cudaFree(d);
  return bad;
}
