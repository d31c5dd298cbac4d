// verdict: clean
/* In-place LU decomposition without pivoting, in tiles: diagonal, perimeter, internal. */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda.h>

#ifndef BLOCK_SIZE
#define BLOCK_SIZE 16
#endif

__global__ void lud_diagonal(float *m, int dim, int offset)
{
  int i, j;
  __shared__ float shadow[BLOCK_SIZE][BLOCK_SIZE];
  int array_offset = offset * dim + offset;
  for (i = 0; i < BLOCK_SIZE; i++) shadow[i][threadIdx.x] = m[array_offset + i * dim + threadIdx.x];
  __syncthreads();
  for (i = 0; i < BLOCK_SIZE - 1; i++) {
    if (threadIdx.x > i) {
      for (j = 0; j < i; j++) shadow[threadIdx.x][i] -= shadow[threadIdx.x][j] * shadow[j][i];
      shadow[threadIdx.x][i] /= shadow[i][i];
    }
    __syncthreads();
    if (threadIdx.x > i) {
      for (j = 0; j < i + 1; j++) shadow[i + 1][threadIdx.x] -= shadow[i + 1][j] * shadow[j][threadIdx.x];
    }
    __syncthreads();
  }
  for (i = 1; i < BLOCK_SIZE; i++) m[array_offset + i * dim + threadIdx.x] = shadow[i][threadIdx.x];
}

__global__ void lud_perimeter(float *m, int dim, int offset)
{
  __shared__ float dia[BLOCK_SIZE][BLOCK_SIZE];
  __shared__ float peri_row[BLOCK_SIZE][BLOCK_SIZE];
  __shared__ float peri_col[BLOCK_SIZE][BLOCK_SIZE];
  int i, j, idx = threadIdx.x % BLOCK_SIZE;
  int row_tile = offset * dim + offset + (blockIdx.x + 1) * BLOCK_SIZE;
  int col_tile = (offset + (blockIdx.x + 1) * BLOCK_SIZE) * dim + offset;
  if (threadIdx.x < BLOCK_SIZE) {
    for (i = 0; i < BLOCK_SIZE; i++) dia[i][idx] = m[(offset + i) * dim + offset + idx];
    for (i = 0; i < BLOCK_SIZE; i++) peri_row[i][idx] = m[row_tile + i * dim + idx];
  } else {
    for (i = 0; i < BLOCK_SIZE; i++) peri_col[i][idx] = m[col_tile + i * dim + idx];
  }
  __syncthreads();
  if (threadIdx.x < BLOCK_SIZE) {
    for (i = 1; i < BLOCK_SIZE; i++)
      for (j = 0; j < i; j++) peri_row[i][idx] -= dia[i][j] * peri_row[j][idx];
  } else {
    for (i = 0; i < BLOCK_SIZE; i++) {
      for (j = 0; j < i; j++) peri_col[idx][i] -= peri_col[idx][j] * dia[j][i];
      peri_col[idx][i] /= dia[i][i];
    }
  }
  __syncthreads();
  if (threadIdx.x < BLOCK_SIZE) {
    for (i = 1; i < BLOCK_SIZE; i++) m[row_tile + i * dim + idx] = peri_row[i][idx];
  } else {
    for (i = 0; i < BLOCK_SIZE; i++) m[col_tile + i * dim + idx] = peri_col[i][idx];
  }
}

__global__ void lud_internal(float *m, int dim, int offset)
{
  __shared__ float peri_row[BLOCK_SIZE][BLOCK_SIZE];
  __shared__ float peri_col[BLOCK_SIZE][BLOCK_SIZE];
  int row = offset + (blockIdx.y + 1) * BLOCK_SIZE;
  int col = offset + (blockIdx.x + 1) * BLOCK_SIZE;
  peri_row[threadIdx.y][threadIdx.x] = m[(offset + threadIdx.y) * dim + col + threadIdx.x];
  peri_col[threadIdx.y][threadIdx.x] = m[(row + threadIdx.y) * dim + offset + threadIdx.x];
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < BLOCK_SIZE; i++) sum += peri_col[threadIdx.y][i] * peri_row[i][threadIdx.x];
  m[(row + threadIdx.y) * dim + col + threadIdx.x] -= sum;
}

extern "C" void lud_cuda(float *m, int matrix_dim)
{
  int i = 0;
  dim3 dimBlock(BLOCK_SIZE, BLOCK_SIZE);
  for (i = 0; i < matrix_dim - BLOCK_SIZE; i += BLOCK_SIZE) {
    lud_diagonal<<<1, BLOCK_SIZE>>>(m, matrix_dim, i);
    lud_perimeter<<<(matrix_dim - i) / BLOCK_SIZE - 1, BLOCK_SIZE * 2>>>(m, matrix_dim, i);
    dim3 dimGrid((matrix_dim - i) / BLOCK_SIZE - 1, (matrix_dim - i) / BLOCK_SIZE - 1);
    lud_internal<<<dimGrid, dimBlock>>>(m, matrix_dim, i);
  }
  lud_diagonal<<<1, BLOCK_SIZE>>>(m, matrix_dim, i);
}

int main(int argc, char *argv[])
{
  int n = 64, i, j, k;
  float *m = (float *)malloc(n * n * sizeof(float)), *a = (float *)malloc(n * n * sizeof(float)), *d_m;
  for (i = 0; i < n; i++)
    for (j = 0; j < n; j++) a[i * n + j] = (i == j ? 2.0f * n : 0) + ((i * 7 + j * 13) % 11) / 11.0f;
  cudaMalloc((void **)&d_m, n * n * sizeof(float));
  cudaMemcpy(d_m, a, n * n * sizeof(float), cudaMemcpyHostToDevice);
  lud_cuda(d_m, n);
  cudaMemcpy(m, d_m, n * n * sizeof(float), cudaMemcpyDeviceToHost);
  double worst = 0;
  for (i = 0; i < n; i++)
    for (j = 0; j < n; j++) {
      double sum = 0;
      for (k = 0; k <= (i < j ? i : j); k++) sum += (k == i ? 1.0 : m[i * n + k]) * m[k * n + j];
      worst = fmax(worst, fabs(sum - a[i * n + j]));
    }
  printf(">>>Verify<<<< LU: %s\n", worst < 1e-3 ? "pass" : "dismatch");
  cudaFree(d_m);
  free(m);
  free(a);
  return worst >= 1e-3;
}
