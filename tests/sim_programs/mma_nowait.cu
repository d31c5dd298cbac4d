// verdict: race at line 28 or 31 or 37 or 39
// A warp multiplies 16x16 by 16x8 with mma.sync; cp.async brings the tiles, ldmatrix takes them to registers.
#include <cstdint>
#include <cstdio>
#include <cmath>
#include <cuda_fp16.h>

#define LDMATRIX_X4(R0, R1, R2, R3, addr) \
    asm volatile("ldmatrix.sync.aligned.x4.m8n8.shared.b16 {%0, %1, %2, %3}, [%4];\n" \
                 : "=r"(R0), "=r"(R1), "=r"(R2), "=r"(R3) : "r"(addr))
#define LDMATRIX_X2(R0, R1, addr) \
    asm volatile("ldmatrix.sync.aligned.x2.m8n8.shared.b16 {%0, %1}, [%2];\n" : "=r"(R0), "=r"(R1) : "r"(addr))
#define HMMA16816F32(D, A, B) \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n" \
                 : "+f"(D[0]), "+f"(D[1]), "+f"(D[2]), "+f"(D[3]) : "r"(A[0]), "r"(A[1]), "r"(A[2]), "r"(A[3]), "r"(B[0]), "r"(B[1]))
#define CP_ASYNC_CG(dst, src, bytes) asm volatile("cp.async.cg.shared.global [%0], [%1], %2;\n" ::"r"(dst), "l"(src), "n"(bytes))
#define CP_ASYNC_COMMIT_GROUP() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT_GROUP(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))

__global__ void mma16816(const half* __restrict__ A, const half* __restrict__ B, float* __restrict__ C, int K)
{
    __shared__ __align__(16) half sA[16][16];
    __shared__ __align__(16) half sB[8][16];  // B is K x 8, column-major
    const int lane = threadIdx.x;
    float acc[4] = {0.f, 0.f, 0.f, 0.f};
    for (int k0 = 0; k0 < K; k0 += 16) {
        uint32_t a_dst = __cvta_generic_to_shared(&sA[lane / 2][lane % 2 * 8]);
        CP_ASYNC_CG(a_dst, A + lane / 2 * K + k0 + lane % 2 * 8, 16);
        if (lane < 16) {
            uint32_t b_dst = __cvta_generic_to_shared(&sB[lane / 2][lane % 2 * 8]);
            CP_ASYNC_CG(b_dst, B + lane / 2 * K + k0 + lane % 2 * 8, 16);
        }
        CP_ASYNC_COMMIT_GROUP();
        __syncthreads();
        uint32_t RA[4], RB[2];
        uint32_t aLane = __cvta_generic_to_shared(&sA[lane % 16][lane / 16 * 8]);
        LDMATRIX_X4(RA[0], RA[1], RA[2], RA[3], aLane);
        uint32_t bLane = __cvta_generic_to_shared(&sB[lane % 8][lane / 8 % 2 * 8]);
        LDMATRIX_X2(RB[0], RB[1], bLane);
        HMMA16816F32(acc, RA, RB);
        __syncthreads();
    }
    const int row = lane / 4, col = lane % 4 * 2;
    C[row * 8 + col] = acc[0];
    C[row * 8 + col + 1] = acc[1];
    C[(row + 8) * 8 + col] = acc[2];
    C[(row + 8) * 8 + col + 1] = acc[3];
}

int main()
{
    const int K = 64;
    half hA[16 * K], hB[8 * K];
    float hC[16 * 8];
    for (int i = 0; i < 16 * K; ++i) hA[i] = __float2half(float(i * 5 % 13) - 6);
    for (int i = 0; i < 8 * K; ++i) hB[i] = __float2half(float(i * 3 % 11) - 5);
    half *A, *B; float *C;
    cudaMalloc(&A, sizeof hA); cudaMalloc(&B, sizeof hB); cudaMalloc(&C, sizeof hC);
    cudaMemcpy(A, hA, sizeof hA, cudaMemcpyHostToDevice);
    cudaMemcpy(B, hB, sizeof hB, cudaMemcpyHostToDevice);
    mma16816<<<1, 32>>>(A, B, C, K);
    cudaMemcpy(hC, C, sizeof hC, cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int m = 0; m < 16; ++m)
        for (int n = 0; n < 8; ++n) {
            float s = 0;
            for (int k = 0; k < K; ++k) s += __half2float(hA[m * K + k]) * __half2float(hB[n * K + k]);
            wrong += s != hC[m * 8 + n];
        }
    printf("mma: %d wrong\n", wrong);
    cudaFree(A); cudaFree(B); cudaFree(C);
    return wrong;
}
