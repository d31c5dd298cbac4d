// verdict: clean
// SGEMM, one optimisation at a time.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <random>
#include <stdexcept>
#include <algorithm>
#include <vector>

#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))

__global__ void sgemm_naive(int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C) {
  const uint x = blockIdx.x * blockDim.x + threadIdx.x;
  const uint y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < M && y < N) {
    float tmp = 0.0;
    for (int i = 0; i < K; ++i) tmp += A[x * K + i] * B[i * N + y];
    C[x * N + y] = alpha * tmp + beta * C[x * N + y];
  }
}

template <const uint BLOCKSIZE = 32>
__global__ void sgemm_coalesced(int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C) {
  const int row = blockIdx.x * BLOCKSIZE + (threadIdx.x / BLOCKSIZE);
  const int col = blockIdx.y * BLOCKSIZE + (threadIdx.x % BLOCKSIZE);
  if (row < M && col < N) {
    float tmp = 0.0;
    for (int i = 0; i < K; ++i) tmp += A[row * K + i] * B[i * N + col];
    C[row * N + col] = alpha * tmp + beta * C[row * N + col];
  }
}

template <const int BLOCKSIZE>
__global__ void sgemm_smem(int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C) {
  __shared__ float As[BLOCKSIZE * BLOCKSIZE];
  __shared__ float Bs[BLOCKSIZE * BLOCKSIZE];
  const uint cRow = blockIdx.x, cCol = blockIdx.y;
  const uint threadCol = threadIdx.x % BLOCKSIZE;
  const uint threadRow = threadIdx.x / BLOCKSIZE;
  A += cRow * BLOCKSIZE * K;
  B += cCol * BLOCKSIZE;
  C += cRow * BLOCKSIZE * N + cCol * BLOCKSIZE;
  float tmp = 0.0;
  for (int bkIdx = 0; bkIdx < K; bkIdx += BLOCKSIZE) {
    As[threadRow * BLOCKSIZE + threadCol] = A[threadRow * K + threadCol];
    Bs[threadRow * BLOCKSIZE + threadCol] = B[threadRow * N + threadCol];
    __syncthreads();
    A += BLOCKSIZE;
    B += BLOCKSIZE * N;
    for (int dotIdx = 0; dotIdx < BLOCKSIZE; ++dotIdx)
      tmp += As[threadRow * BLOCKSIZE + dotIdx] * Bs[dotIdx * BLOCKSIZE + threadCol];
    __syncthreads();
  }
  C[threadRow * N + threadCol] = alpha * tmp + beta * C[threadRow * N + threadCol];
}

template <const int BM, const int BN, const int BK, const int TM, const int TN>
__global__ void __launch_bounds__((BM * BN) / (TM * TN), 1)
sgemm_2d_vectorized(int M, int N, int K, float alpha, float *A, float *B, float beta, float *C) {
  __shared__ float As[BM * BK];
  __shared__ float Bs[BK * BN];
  const int threadCol = threadIdx.x % (BN / TN);
  const int threadRow = threadIdx.x / (BN / TN);
  A += blockIdx.y * BM * K;
  B += blockIdx.x * BN;
  C += blockIdx.y * BM * N + blockIdx.x * BN;
  constexpr int threads = (BM * BN) / (TM * TN);
  float threadResults[TM * TN] = {0.0};
  float regM[TM] = {0.0};
  float regN[TN] = {0.0};
  for (int bk = 0; bk < K; bk += BK) {
    for (int i = threadIdx.x; i < BM * BK / 4; i += threads) {
      int r = i / (BK / 4), c = i % (BK / 4);
      float4 tmp = reinterpret_cast<float4 *>(&A[r * K + c * 4])[0];
      As[(c * 4 + 0) * BM + r] = tmp.x;
      As[(c * 4 + 1) * BM + r] = tmp.y;
      As[(c * 4 + 2) * BM + r] = tmp.z;
      As[(c * 4 + 3) * BM + r] = tmp.w;
    }
    for (int i = threadIdx.x; i < BK * BN / 4; i += threads) {
      int r = i / (BN / 4), c = i % (BN / 4);
      reinterpret_cast<float4 *>(&Bs[r * BN + c * 4])[0] = reinterpret_cast<float4 *>(&B[r * N + c * 4])[0];
    }
    __syncthreads();
    A += BK;
    B += BK * N;
    for (uint dotIdx = 0; dotIdx < BK; ++dotIdx) {
      for (uint i = 0; i < TM; ++i) regM[i] = As[dotIdx * BM + threadRow * TM + i];
      for (uint i = 0; i < TN; ++i) regN[i] = Bs[dotIdx * BN + threadCol * TN + i];
      for (uint m = 0; m < TM; ++m)
        for (uint n = 0; n < TN; ++n) threadResults[m * TN + n] += regM[m] * regN[n];
    }
    __syncthreads();
  }
  for (uint m = 0; m < TM; m += 1)
    for (uint n = 0; n < TN; n += 4) {
      float4 tmp = reinterpret_cast<float4 *>(&C[(threadRow * TM + m) * N + threadCol * TN + n])[0];
      tmp.x = alpha * threadResults[m * TN + n] + beta * tmp.x;
      tmp.y = alpha * threadResults[m * TN + n + 1] + beta * tmp.y;
      tmp.z = alpha * threadResults[m * TN + n + 2] + beta * tmp.z;
      tmp.w = alpha * threadResults[m * TN + n + 3] + beta * tmp.w;
      reinterpret_cast<float4 *>(&C[(threadRow * TM + m) * N + threadCol * TN + n])[0] = tmp;
    }
}

void cudaCheck(cudaError_t error, const char *file, int line) {
  if (error != cudaSuccess) {
    printf("[CUDA ERROR] at file %s:%d:\n%s\n", file, line, cudaGetErrorString(error));
    exit(EXIT_FAILURE);
  }
}
#define cudaCheck(err) (cudaCheck(err, __FILE__, __LINE__))

void run_kernel(int num, int M, int N, int K, float alpha, float *A, float *B, float beta, float *C) {
  switch (num) {
    case 0: {
      dim3 gridDim(CEIL_DIV(M, 16), CEIL_DIV(N, 16));
      dim3 blockDim(16, 16);
      sgemm_naive<<<gridDim, blockDim>>>(M, N, K, alpha, A, B, beta, C);
      break;
    }
    case 1: {
      dim3 gridDim(CEIL_DIV(M, 32), CEIL_DIV(N, 32));
      sgemm_coalesced<><<<gridDim, dim3(32 * 32)>>>(M, N, K, alpha, A, B, beta, C);
      break;
    }
    case 2: sgemm_smem<16><<<dim3(M / 16, N / 16), 16 * 16>>>(M, N, K, alpha, A, B, beta, C); break;
    case 3: {
      const uint BM = 32, BN = 32, BK = 8, TM = 4, TN = 4;
      sgemm_2d_vectorized<BM, BN, BK, TM, TN>
          <<<dim3(CEIL_DIV(N, BN), CEIL_DIV(M, BM)), dim3((BM * BN) / (TM * TN))>>>(M, N, K, alpha, A, B, beta, C);
      break;
    }
    default: throw std::invalid_argument("Unknown kernel number");
  }
}

int main() {
  const int M = 64, N = 64, K = 32;
  const float alpha = 0.5f, beta = 3.0f;
  std::mt19937 gen(7);
  std::uniform_real_distribution<float> u(-1, 1);
  std::vector<float> A(M * K), B(K * N), C(M * N), out(M * N);
  for (auto *v : {&A, &B, &C})
    for (float &x : *v) x = u(gen);
  float *dA, *dB, *dC;
  cudaCheck(cudaMalloc((void **)&dA, sizeof(float) * A.size()));
  cudaCheck(cudaMalloc((void **)&dB, sizeof(float) * B.size()));
  cudaCheck(cudaMalloc((void **)&dC, sizeof(float) * C.size()));
  cudaCheck(cudaMemcpy(dA, A.data(), sizeof(float) * A.size(), cudaMemcpyHostToDevice));
  cudaCheck(cudaMemcpy(dB, B.data(), sizeof(float) * B.size(), cudaMemcpyHostToDevice));
  int wrong = 0;
  for (int k = 0; k < 4; ++k) {
    cudaCheck(cudaMemcpy(dC, C.data(), sizeof(float) * C.size(), cudaMemcpyHostToDevice));
    run_kernel(k, M, N, K, alpha, dA, dB, beta, dC);
    cudaCheck(cudaDeviceSynchronize());
    cudaCheck(cudaGetLastError());
    cudaCheck(cudaMemcpy(out.data(), dC, sizeof(float) * C.size(), cudaMemcpyDeviceToHost));
    double worst = 0;
    for (int r = 0; r < M; ++r)
      for (int c = 0; c < N; ++c) {
        double s = 0;
        for (int i = 0; i < K; ++i) s += double(A[r * K + i]) * B[i * N + c];
        worst = std::max(worst, std::abs(alpha * s + beta * C[r * N + c] - out[r * N + c]));
      }
    printf("kernel %d: %s\n", k, worst < 1e-4 ? "ok" : "WRONG");
    wrong += worst >= 1e-4;
  }
  cudaFree(dA); cudaFree(dB); cudaFree(dC);
  return wrong;
}
