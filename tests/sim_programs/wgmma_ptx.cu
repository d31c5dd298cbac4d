// verdict: clean
// flags: -arch=sm_90a
// One warpgroup multiplies 64 x 64 (K-major, 128-byte swizzle) by 64 x 64 with wgmma; TMA brings both operands.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

typedef __nv_bfloat16 bf16;

static PFN_cuTensorMapEncodeTiled_v12000 encoder()
{
    cudaDriverEntryPointQueryResult status;
    void *fn = nullptr;
    cudaError_t e = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &fn, 12000, cudaEnableDefault, &status);
    if (e != cudaSuccess || status != cudaDriverEntryPointSuccess) { printf("no encoder\n"); exit(1); }
    return (PFN_cuTensorMapEncodeTiled_v12000)fn;
}

static CUtensorMap make_map(void *p, uint64_t rows, uint64_t cols)
{
    CUtensorMap map;
    cuuint64_t dims[2] = {cols, rows}, strides[1] = {cols * sizeof(bf16)};
    cuuint32_t box[2] = {64, 64}, elem[2] = {1, 1};
    CUresult r = encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, p, dims, strides, box, elem, CU_TENSOR_MAP_INTERLEAVE_NONE,
                           CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (r != CUDA_SUCCESS) { printf("encode failed: %d\n", (int)r); exit(1); }
    return map;
}

__device__ inline uint64_t encode(uint64_t x) { return (x & 0x3FFFF) >> 4; }

__device__ uint64_t make_smem_desc(bf16 *ptr)
{
    uint32_t addr = (uint32_t)__cvta_generic_to_shared(ptr);
    uint64_t desc = 0;
    desc |= encode(addr);
    desc |= encode((uint64_t)16) << 16;
    desc |= encode((uint64_t)1024) << 32;
    desc |= 1llu << 62;  // 128-byte swizzle
    return desc;
}

__device__ void tma_load(bf16 *dst, const CUtensorMap *map, uint64_t *bar, int c0, int c1)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 ::"r"((uint32_t)__cvta_generic_to_shared(dst)), "l"((uint64_t)map), "r"((uint32_t)__cvta_generic_to_shared(bar)),
                   "r"(c0), "r"(c1) : "memory");
}

__device__ void wgmma64(float d[32], uint64_t desc_a, uint64_t desc_b)
{
    asm volatile(
        "{\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, 1, 1, 1, 0, 0;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),
          "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),
          "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(desc_a), "l"(desc_b));
}

__global__ void __launch_bounds__(128) gemm(const __grid_constant__ CUtensorMap mapA, const __grid_constant__ CUtensorMap mapB, float *C, int K)
{
    __shared__ __align__(1024) bf16 sA[64 * 64];
    __shared__ __align__(1024) bf16 sB[64 * 64];
    __shared__ __align__(8) uint64_t bar;
    uint32_t bar_addr = (uint32_t)__cvta_generic_to_shared(&bar);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar_addr));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    float d[32];
    for (int i = 0; i < 32; i++) d[i] = 0;
    int phase = 0;
    for (int k = 0; k < K; k += 64) {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar_addr), "r"(2 * 64 * 64 * 2) : "memory");
            tma_load(sA, &mapA, &bar, k, 0);
            tma_load(sB, &mapB, &bar, k, 0);
        }
        uint32_t done = 0;
        while (!done)
            asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n"
                         : "=r"(done) : "r"(bar_addr), "r"(phase) : "memory");
        phase ^= 1;
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int kk = 0; kk < 64; kk += 16) wgmma64(d, make_smem_desc(sA + kk), make_smem_desc(sB + kk));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(0) : "memory");
        __syncthreads();
    }
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int j = 0; j < 8; j++)
        for (int h = 0; h < 2; h++) {
            int row = warp * 16 + lane / 4 + 8 * h, col = j * 8 + lane % 4 * 2;
            C[row * 64 + col] = d[j * 4 + h * 2];
            C[row * 64 + col + 1] = d[j * 4 + h * 2 + 1];
        }
}

int main()
{
    const int M = 64, N = 64, K = 128;
    std::vector<bf16> a(M * K), b(N * K);
    std::vector<float> c(M * N);
    for (int i = 0; i < M * K; i++) a[i] = __float2bfloat16((float)(i * 7 % 9) - 4);
    for (int i = 0; i < N * K; i++) b[i] = __float2bfloat16((float)(i * 5 % 7) - 3);
    bf16 *dA, *dB;
    float *dC;
    cudaMalloc(&dA, a.size() * sizeof(bf16));
    cudaMalloc(&dB, b.size() * sizeof(bf16));
    cudaMalloc(&dC, c.size() * sizeof(float));
    cudaMemcpy(dA, a.data(), a.size() * sizeof(bf16), cudaMemcpyHostToDevice);
    cudaMemcpy(dB, b.data(), b.size() * sizeof(bf16), cudaMemcpyHostToDevice);
    CUtensorMap mapA = make_map(dA, M, K), mapB = make_map(dB, N, K);
    gemm<<<1, 128>>>(mapA, mapB, dC, K);
    cudaError_t e = cudaDeviceSynchronize();
    cudaMemcpy(c.data(), dC, c.size() * sizeof(float), cudaMemcpyDeviceToHost);
    int wrong = 0;
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            float s = 0;
            for (int k = 0; k < K; k++) s += __bfloat162float(a[m * K + k]) * __bfloat162float(b[n * K + k]);
            wrong += s != c[m * N + n];
        }
    printf("wgmma: %s, %d wrong\n", cudaGetErrorString(e), wrong);
    cudaFree(dA); cudaFree(dB); cudaFree(dC);
    return wrong != 0;
}
