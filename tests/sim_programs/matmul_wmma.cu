// verdict: clean
#include <mma.h>
#include <cuda_fp16.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
using namespace nvcuda;

const int WMMA_M = 16, WMMA_N = 16, WMMA_K = 16;

__global__ void wmma_example(half *a, half *b, float *c, int M, int N, int K, float alpha, float beta) {
   int lda = M, ldb = K, ldc = M;
   int warpM = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
   int warpN = (blockIdx.y * blockDim.y + threadIdx.y);
   if (warpM * WMMA_M >= M || warpN * WMMA_N >= N) return;
   wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> a_frag;
   wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> b_frag;
   wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> acc_frag;
   wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> c_frag;
   wmma::fill_fragment(acc_frag, 0.0f);
   for (int i = 0; i < K; i += WMMA_K) {
      int aRow = warpM * WMMA_M, aCol = i, bRow = i, bCol = warpN * WMMA_N;
      wmma::load_matrix_sync(a_frag, a + aRow + aCol * lda, lda);
      wmma::load_matrix_sync(b_frag, b + bRow + bCol * ldb, ldb);
      wmma::mma_sync(acc_frag, a_frag, b_frag, acc_frag);
   }
   int cRow = warpM * WMMA_M, cCol = warpN * WMMA_N;
   wmma::load_matrix_sync(c_frag, c + cRow + cCol * ldc, ldc, wmma::mem_col_major);
   for (int i = 0; i < c_frag.num_elements; i++) c_frag.x[i] = alpha * acc_frag.x[i] + beta * c_frag.x[i];
   wmma::store_matrix_sync(c + cRow + cCol * ldc, c_frag, ldc, wmma::mem_col_major);
}

int main() {
   const int M = 64, N = 48, K = 32;
   std::vector<half> a(M * K), b(K * N);
   std::vector<float> c(M * N, 1.0f), r(M * N);
   for (int i = 0; i < M * K; i++) a[i] = __float2half((i % 7) - 3.0f);
   for (int i = 0; i < K * N; i++) b[i] = __float2half((i % 5) * 0.5f);
   half *da, *db; float *dc;
   cudaMalloc(&da, a.size() * sizeof(half)); cudaMalloc(&db, b.size() * sizeof(half)); cudaMalloc(&dc, c.size() * sizeof(float));
   cudaMemcpy(da, a.data(), a.size() * sizeof(half), cudaMemcpyHostToDevice);
   cudaMemcpy(db, b.data(), b.size() * sizeof(half), cudaMemcpyHostToDevice);
   cudaMemcpy(dc, c.data(), c.size() * sizeof(float), cudaMemcpyHostToDevice);
   dim3 blockDim(64, 3), gridDim;
   gridDim.x = (M + (WMMA_M * blockDim.x / 32 - 1)) / (WMMA_M * blockDim.x / 32);
   gridDim.y = (N + WMMA_N * blockDim.y - 1) / (WMMA_N * blockDim.y);
   wmma_example <<< gridDim, blockDim >>> (da, db, dc, M, N, K, 2.0f, 3.0f);
   cudaMemcpy(r.data(), dc, r.size() * sizeof(float), cudaMemcpyDeviceToHost);
   int bad = 0;
   for (int m = 0; m < M; m++)
      for (int n = 0; n < N; n++) {
         float s = 0;
         for (int k = 0; k < K; k++) s += __half2float(a[m + k * M]) * __half2float(b[k + n * K]);
         bad += std::fabs(2 * s + 3 - r[m + n * M]) > 1e-3f;
      }
   printf("wmma: %d wrong\n", bad);
   cudaFree(da); cudaFree(db); cudaFree(dc);
   return bad != 0;
}
