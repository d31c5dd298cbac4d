// verdict: clean
// flags: -lcublas
/* A GPT forward pass in one file: embedding, layernorm, attention, MLP, cross entropy. One layer, tiny sizes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <assert.h>
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))
void cudaCheck_(cudaError_t error, const char *file, int line) {
  if (error != cudaSuccess) { printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error)); exit(EXIT_FAILURE); }
};
#define cudaCheck(err) (cudaCheck_(err, __FILE__, __LINE__))
void cublasCheck_(cublasStatus_t status, const char *file, int line) {
  if (status != CUBLAS_STATUS_SUCCESS) { printf("[cuBLAS ERROR]: %d %s %d\n", status, file, line); exit(EXIT_FAILURE); }
}
#define cublasCheck(status) { cublasCheck_((status), __FILE__, __LINE__); }
static cublasHandle_t cublas_handle;

__global__ void encoder_forward_kernel(float4* out, const int* inp, const float4* wte, const float4* wpe, int B, int T, int C) {
  int C4 = C / 4;
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  if (idx < B * T * C4) {
    int bt = idx / C4, b = bt / T, t = bt % T, c4 = idx % C4;
    int ix = inp[b * T + t];
    float4 a = wte[ix * C4 + c4], p = wpe[t * C4 + c4];
    out[b * T * C4 + t * C4 + c4] = make_float4(a.x + p.x, a.y + p.y, a.z + p.z, a.w + p.w);
  }
}
__global__ void layernorm_forward_kernel(float* __restrict__ out, const float* __restrict__ inp, const float* __restrict__ weight, const float* __restrict__ bias, int N, int C) {
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
  int idx = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
  if (idx >= N) return;
  const float* x = inp + idx * C;
  float sum = 0.0f, sq = 0.0f;
  for (int i = warp.thread_rank(); i < C; i += warp.size()) sum += x[i];
  float m = cg::reduce(warp, sum, cg::plus<float>{}) / C;
  for (int i = warp.thread_rank(); i < C; i += warp.size()) sq += (x[i] - m) * (x[i] - m);
  float s = rsqrtf(cg::reduce(warp, sq, cg::plus<float>{}) / C + 1e-5f);
  for (int c = warp.thread_rank(); c < C; c += warp.size()) out[idx * C + c] = s * (x[c] - m) * weight[c] + bias[c];
}
__global__ void add_bias(float* out, const float* bias, int N, int OC) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N * OC) out[i] += bias[i % OC];
}
__global__ void attention_kernel(float* out, const float* qkv, int B, int T, int C, int NH) {
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  if (idx >= B * T * NH) return;
  int h = idx % NH, t = idx / NH % T, b = idx / (NH * T), hs = C / NH;
  const float* q = qkv + (b * T + t) * 3 * C + h * hs;
  float maxval = -10000.0f, sum = 0.0f, acc[8];
  assert(hs == 8);
  for (int i = 0; i < hs; i++) acc[i] = 0.0f;
  for (int t2 = 0; t2 <= t; t2++) {
    const float *k = qkv + (b * T + t2) * 3 * C + h * hs + C, *v = k + C;
    float val = 0.0f;
    for (int i = 0; i < hs; i++) val += q[i] * k[i];
    val /= sqrtf(hs);
    float m = fmaxf(maxval, val), fix = expf(maxval - m), p = expf(val - m);
    sum = sum * fix + p;
    for (int i = 0; i < hs; i++) acc[i] = acc[i] * fix + p * v[i];
    maxval = m;
  }
  for (int i = 0; i < hs; i++) out[(b * T + t) * C + h * hs + i] = acc[i] / sum;
}
__global__ void residual_forward_kernel(float* out, const float* inp1, const float* inp2, int N) {
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  if (idx < N) out[idx] = __ldcs(&inp1[idx]) + __ldcs(&inp2[idx]);
}
#define GELU_SCALING_FACTOR sqrtf(2.0f / 3.14159265f)
__global__ void gelu_kernel(float* out, const float* inp, int N) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) {
    float xi = inp[i], cube = 0.044715f * xi * xi * xi;
    out[i] = 0.5f * xi * (1.0f + tanhf(GELU_SCALING_FACTOR * (xi + cube)));
  }
}
__global__ void crossentropy_kernel(float* losses, const float* logits, const int* targets, int N, int V) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= N) return;
  float m = -INFINITY, s = 0;
  for (int v = 0; v < V; v++) m = fmaxf(m, logits[i * V + v]);
  for (int v = 0; v < V; v++) s += expf(logits[i * V + v] - m);
  losses[i] = logf(s) + m - logits[i * V + targets[i]];
}

void matmul_forward(float* out, const float* inp, const float* weight, const float* bias, int N, int C, int OC) {
  const float alpha = 1.0f, beta = 0.0f;
  cublasCheck(cublasSgemm(cublas_handle, CUBLAS_OP_T, CUBLAS_OP_N, OC, N, C, &alpha, weight, C, inp, C, &beta, out, OC));
  if (bias != NULL) {
    add_bias<<<CEIL_DIV(N * OC, 256), 256>>>(out, bias, N, OC);
    cudaCheck(cudaGetLastError());
  }
}

int main() {
  const int B = 2, T = 8, C = 32, NH = 4, V = 24, N = B * T;
  int n_params[] = {V * C, T * C, C, C, 3 * C * C, 3 * C, C * C, C, C, C, 4 * C * C, 4 * C, 4 * C * C, C, C, C};
  const int kinds = sizeof(n_params) / sizeof(int);
  size_t total = 0;
  for (int i = 0; i < kinds; i++) total += n_params[i];
  float *params = (float*)malloc(total * sizeof(float)), *d_params, *p[kinds];
  unsigned long long rng = 1337;
  for (size_t i = 0; i < total; i++) {
    rng ^= rng >> 12; rng ^= rng << 25; rng ^= rng >> 27;
    params[i] = ((rng * 0x2545F4914F6CDD1Dull >> 40) / 16777216.0f - 0.5f) * 0.2f;
  }
  cudaCheck(cudaMalloc((void**)&d_params, total * sizeof(float)));
  float* at = d_params;
  for (int i = 0; i < kinds; i++) { p[i] = at; at += n_params[i]; }
  cudaCheck(cudaMemcpy(d_params, params, total * sizeof(float), cudaMemcpyHostToDevice));
  int tokens[N], targets[N], *d_tokens, *d_targets;
  for (int i = 0; i < N; i++) { tokens[i] = (i * 5 + 1) % V; targets[i] = (i * 5 + 6) % V; }
  cudaCheck(cudaMalloc((void**)&d_tokens, sizeof tokens));
  cudaCheck(cudaMalloc((void**)&d_targets, sizeof targets));
  cudaCheck(cudaMemcpy(d_tokens, tokens, sizeof tokens, cudaMemcpyHostToDevice));
  cudaCheck(cudaMemcpy(d_targets, targets, sizeof targets, cudaMemcpyHostToDevice));
  float* acts;
  cudaCheck(cudaMalloc((void**)&acts, sizeof(float) * N * (C * 7 + 3 * C + 8 * C + V + 1)));
  float *x = acts, *ln = x + N * C, *qkv = ln + N * C, *att = qkv + N * 3 * C, *proj = att + N * C, *x2 = proj + N * C;
  float *fch = x2 + N * C, *gelu = fch + N * 4 * C, *x3 = gelu + N * 4 * C, *logits = x3 + N * C, *losses = logits + N * V;
  cublasCheck(cublasCreate(&cublas_handle));
  cublasCheck(cublasSetMathMode(cublas_handle, CUBLAS_TF32_TENSOR_OP_MATH));
  cublasCheck(cublasSetMathMode(cublas_handle, CUBLAS_DEFAULT_MATH));

  encoder_forward_kernel<<<CEIL_DIV(N * C / 4, 128), 128>>>((float4*)x, d_tokens, (float4*)p[0], (float4*)p[1], B, T, C);
  layernorm_forward_kernel<<<CEIL_DIV(N * 32, 128), 128>>>(ln, x, p[2], p[3], N, C);
  matmul_forward(qkv, ln, p[4], p[5], N, C, 3 * C);
  attention_kernel<<<CEIL_DIV(N * NH, 64), 64>>>(att, qkv, B, T, C, NH);
  matmul_forward(proj, att, p[6], p[7], N, C, C);
  residual_forward_kernel<<<CEIL_DIV(N * C, 256), 256>>>(x2, x, proj, N * C);
  layernorm_forward_kernel<<<CEIL_DIV(N * 32, 128), 128>>>(ln, x2, p[8], p[9], N, C);
  matmul_forward(fch, ln, p[10], p[11], N, C, 4 * C);
  gelu_kernel<<<CEIL_DIV(N * 4 * C, 128), 128>>>(gelu, fch, N * 4 * C);
  matmul_forward(proj, gelu, p[12], p[13], N, 4 * C, C);
  residual_forward_kernel<<<CEIL_DIV(N * C, 256), 256>>>(x3, x2, proj, N * C);
  layernorm_forward_kernel<<<CEIL_DIV(N * 32, 128), 128>>>(ln, x3, p[14], p[15], N, C);
  matmul_forward(logits, ln, p[0], NULL, N, C, V);
  crossentropy_kernel<<<CEIL_DIV(N, 128), 128>>>(losses, logits, d_targets, N, V);
  cudaCheck(cudaGetLastError());
  float h_losses[N], mean = 0;
  cudaCheck(cudaMemcpy(h_losses, losses, sizeof h_losses, cudaMemcpyDeviceToHost));
  for (int i = 0; i < N; i++) mean += h_losses[i] / N;
  int ok = fabsf(mean - logf(V)) < 0.2f;
  printf("mean loss of an untrained model: %s\n", ok ? "about log(V)" : "strange");
  cublasCheck(cublasDestroy(cublas_handle));
  cudaCheck(cudaFree(d_params)); cudaCheck(cudaFree(acts)); cudaCheck(cudaFree(d_tokens)); cudaCheck(cudaFree(d_targets));
  free(params);
  return !ok;
}
