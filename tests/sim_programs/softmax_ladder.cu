// verdict: clean
// softmax kernels from slow to fast; usage: ./softmax_ladder [kernel number]
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

template <class T>
__host__ __device__ T ceil_div(T dividend, T divisor) { return (dividend + divisor - 1) / divisor; }

inline void cuda_check(cudaError_t error, const char *file, int line) {
  if (error != cudaSuccess) {
    printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
    exit(EXIT_FAILURE);
  }
}
#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))

__global__ void softmax_forward_kernel1(float* out, const float* inp, int N, int C) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) {
    const float* inp_row = inp + i * C;
    float* out_row = out + i * C;
    float maxval = -INFINITY;
    for (int j = 0; j < C; j++) if (inp_row[j] > maxval) maxval = inp_row[j];
    double sum = 0.0;
    for (int j = 0; j < C; j++) {
      out_row[j] = expf(inp_row[j] - maxval);
      sum += out_row[j];
    }
    for (int j = 0; j < C; j++) out_row[j] /= (float)sum;
  }
}

__global__ void softmax_forward_kernel2(float* out, const float* inp, int N, int C) {
  extern __shared__ float shared[];
  int idx = blockIdx.x, tid = threadIdx.x, block_size = blockDim.x;
  const float* x = inp + idx * C;
  float maxval = -INFINITY;
  for (int i = tid; i < C; i += block_size) maxval = fmaxf(maxval, x[i]);
  shared[tid] = maxval;
  for (int stride = block_size / 2; stride >= 1; stride /= 2) {
    __syncthreads();
    if (tid < stride) shared[tid] = fmaxf(shared[tid], shared[tid + stride]);
  }
  __syncthreads();
  float offset = shared[0];
  for (int i = tid; i < C; i += block_size) out[idx * C + i] = expf(x[i] - offset);
  __syncthreads();
  float sumval = 0.0f;
  for (int i = tid; i < C; i += block_size) sumval += out[idx * C + i];
  shared[tid] = sumval;
  for (int stride = block_size / 2; stride >= 1; stride /= 2) {
    __syncthreads();
    if (tid < stride) shared[tid] += shared[tid + stride];
  }
  __syncthreads();
  float sum = shared[0];
  for (int i = tid; i < C; i += block_size) out[idx * C + i] = out[idx * C + i] / sum;
}

__device__ float warpReduceMax(float val) {
  for (int offset = 16; offset > 0; offset /= 2) val = fmaxf(val, __shfl_down_sync(0xFFFFFFFF, val, offset));
  return val;
}

__global__ void softmax_forward_kernel3(float* out, const float* inp, int N, int C) {
  int idx = blockIdx.x, tid = threadIdx.x;
  const float* x = inp + idx * C;
  float maxval = -INFINITY;
  for (int i = tid; i < C; i += blockDim.x) maxval = fmaxf(maxval, x[i]);
  maxval = warpReduceMax(maxval);
  float offset = __shfl_sync(0xFFFFFFFF, maxval, 0);
  for (int i = tid; i < C; i += blockDim.x) out[idx * C + i] = expf(x[i] - offset);
  float sumval = 0.0f;
  for (int i = tid; i < C; i += blockDim.x) sumval += out[idx * C + i];
  for (int o = 16; o > 0; o /= 2) sumval += __shfl_xor_sync(0xFFFFFFFF, sumval, o);
  for (int i = tid; i < C; i += blockDim.x) out[idx * C + i] = out[idx * C + i] / sumval;
}

struct __align__(8) SumMax {
  float maxval;
  float sum;
};
__device__ __forceinline__ SumMax reduce_sum_max_op(SumMax a, SumMax b) {
  bool a_bigger = (a.maxval > b.maxval);
  SumMax bigger_m = a_bigger ? a : b;
  SumMax smaller_m = a_bigger ? b : a;
  SumMax res;
  res.maxval = bigger_m.maxval;
  res.sum = bigger_m.sum + smaller_m.sum * expf(smaller_m.maxval - bigger_m.maxval);
  return res;
}

__global__ void softmax_forward_online_kernel4(float* out, const float* inp, int N, int C) {
  namespace cg = cooperative_groups;
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  int idx = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
  if (idx >= N) return;
  const float* x = inp + idx * C;
  SumMax sm_partial;
  sm_partial.maxval = -INFINITY;
  sm_partial.sum = 0.0f;
  for (int i = warp.thread_rank(); i < C; i += warp.size()) sm_partial = reduce_sum_max_op(sm_partial, {x[i], 1.0f});
  SumMax sm_total = cg::reduce(warp, sm_partial, reduce_sum_max_op);
  for (int i = warp.thread_rank(); i < C; i += warp.size()) __stcs(out + idx * C + i, expf(__ldcs(&x[i]) - sm_total.maxval) / sm_total.sum);
}

void softmax_forward(int kernel_num, float* out, const float* inp, int N, int C, const int block_size) {
  switch (kernel_num) {
    case 1: softmax_forward_kernel1<<<ceil_div(N, block_size), block_size>>>(out, inp, N, C); break;
    case 2: softmax_forward_kernel2<<<N, block_size, block_size * sizeof(float)>>>(out, inp, N, C); break;
    case 3: softmax_forward_kernel3<<<N, 32>>>(out, inp, N, C); break;
    case 4: softmax_forward_online_kernel4<<<ceil_div(N * 32, block_size), block_size>>>(out, inp, N, C); break;
    default: printf("Invalid kernel number\n"); exit(1);
  }
  cudaCheck(cudaGetLastError());
}

int main(int argc, char **argv) {
  const int N = 24, C = 200;
  float* inp = (float*)malloc(N * C * sizeof(float));
  float* out = (float*)malloc(N * C * sizeof(float));
  for (int i = 0; i < N * C; i++) inp[i] = sinf(i * 0.37f) * 5.0f;
  for (int j = 0; j < N; j++) inp[j * C + j * 3] = 20.0f;
  float *d_out, *d_inp;
  cudaCheck(cudaMalloc(&d_out, N * C * sizeof(float)));
  cudaCheck(cudaMalloc(&d_inp, N * C * sizeof(float)));
  cudaCheck(cudaMemcpy(d_inp, inp, N * C * sizeof(float), cudaMemcpyHostToDevice));
  int first = 1, last = 4;
  if (argc > 1) first = last = atoi(argv[1]);
  for (int k = first; k <= last; k++) {
    int block_sizes[] = {32, 128};
    for (int j = 0; j < sizeof(block_sizes) / sizeof(int); j++) {
      cudaCheck(cudaMemset(d_out, 0, N * C * sizeof(float)));
      softmax_forward(k, d_out, d_inp, N, C, block_sizes[j]);
      cudaCheck(cudaMemcpy(out, d_out, N * C * sizeof(float), cudaMemcpyDeviceToHost));
      for (int i = 0; i < N; i++) {
        double m = -1e30, s = 0;
        for (int c = 0; c < C; c++) m = fmax(m, inp[i * C + c]);
        for (int c = 0; c < C; c++) s += exp(inp[i * C + c] - m);
        for (int c = 0; c < C; c++)
          if (fabs(out[i * C + c] - exp(inp[i * C + c] - m) / s) > 1e-5) {
            printf("Mismatch of kernel %d at %d, %d\n", k, i, c);
            exit(EXIT_FAILURE);
          }
      }
    }
    printf("kernel %d: results match\n", k);
  }
  free(inp); free(out);
  cudaCheck(cudaFree(d_out)); cudaCheck(cudaFree(d_inp));
  return 0;
}
