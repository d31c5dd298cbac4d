// verdict: race at line 62 or 63 or 30 or 98 or 99
// flags: -arch=sm_90a
// The GEMM of library_tma_gemm.cu without the wait for what TMA brings.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cstdint>
#include <cstdio>
#include <vector>
typedef __nv_bfloat16 bf16;
__device__ static inline uint64_t matrix_descriptor_encode(uint64_t x) { return (((x)&0x3FFFF) >> 0x4); }
__device__ uint64_t make_smem_desc(bf16* ptr) {
  uint32_t addr = static_cast<uint32_t>(__cvta_generic_to_shared(ptr));
  uint64_t desc = 0;
  desc |= matrix_descriptor_encode(addr);
  desc |= matrix_descriptor_encode((uint64_t)16) << 16;
  desc |= matrix_descriptor_encode((uint64_t)1024) << 32;
  desc |= 1llu << 62;
  return desc;
}
__device__ void warpgroup_arrive() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ void warpgroup_commit_batch() { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
template <int N>
__device__ void warpgroup_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(N) : "memory");
}
template <int ScaleD, int ScaleA, int ScaleB, int TransA, int TransB>
__device__ void wgmma64(float d[4][8], bf16* sA, bf16* sB) {
  uint64_t desc_a = make_smem_desc(&sA[0]);
  uint64_t desc_b = make_smem_desc(&sB[0]);
  asm volatile(
      "{\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,   %1,   %2,   %3,   %4,   %5,   %6,   %7,   "
      " %8,   %9,   %10,  %11,  %12,  %13,  %14,  %15,  "
      " %16,  %17,  %18,  %19,  %20,  %21,  %22,  %23,  "
      " %24,  %25,  %26,  %27,  %28,  %29,  %30,  %31},"
      " %32,"
      " %33,"
      " %34, %35, %36, %37, %38;\n"
      "}\n"
      : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[0][4]), "+f"(d[0][5]),
        "+f"(d[0][6]), "+f"(d[0][7]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]),
        "+f"(d[1][4]), "+f"(d[1][5]), "+f"(d[1][6]), "+f"(d[1][7]), "+f"(d[2][0]), "+f"(d[2][1]),
        "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[2][4]), "+f"(d[2][5]), "+f"(d[2][6]), "+f"(d[2][7]),
        "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[3][4]), "+f"(d[3][5]),
        "+f"(d[3][6]), "+f"(d[3][7])
      : "l"(desc_a), "l"(desc_b), "n"(int32_t(ScaleD)), "n"(int32_t(ScaleA)), "n"(int32_t(ScaleB)),
        "n"(int32_t(TransA)), "n"(int32_t(TransB)));
}
__device__ __forceinline__ void init_barrier(uint64_t* bar, int count) {
  uint32_t p = static_cast<uint32_t>(__cvta_generic_to_shared(bar));
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(p), "r"(count));
}
__device__ __forceinline__ void expect_bytes(uint64_t* bar, uint32_t bytes) {
  uint32_t p = static_cast<uint32_t>(__cvta_generic_to_shared(bar));
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(p), "r"(bytes));
}
__device__ __forceinline__ void load_async(bf16* dst, void const* const map, uint64_t* bar, int x, int y) {
  uint64_t tma = reinterpret_cast<uint64_t>(map);
  uint32_t mbar = static_cast<uint32_t>(__cvta_generic_to_shared(bar));
  uint32_t d = static_cast<uint32_t>(__cvta_generic_to_shared(dst));
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4}], [%2];" ::"r"(d),
      "l"(tma), "r"(mbar), "r"(x), "r"(y)
      : "memory");
}
__device__ __forceinline__ void wait_bar(uint64_t* bar, int parity) {
  uint32_t mbar = static_cast<uint32_t>(__cvta_generic_to_shared(bar));
  asm volatile(
      "{\n.reg .pred P1;\nLAB_WAIT:\nmbarrier.try_wait.parity.shared::cta.b64 P1, [%0], %1;\n@P1 bra.uni "
      "DONE;\nbra.uni LAB_WAIT;\nDONE:\n}\n" ::"r"(mbar),
      "r"(parity));
}
__global__ void __launch_bounds__(128)
    gemm(int M, int N, int K, float* C, const __grid_constant__ CUtensorMap A,
         const __grid_constant__ CUtensorMap B) {
  __shared__ __align__(1024) bf16 sA[64 * 64];
  __shared__ __align__(1024) bf16 sB[64 * 64];
  __shared__ uint64_t bar;
  float d[4][8];
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 8; ++j) d[i][j] = 0;
  if (threadIdx.x == 0) {
    init_barrier(&bar, 1);
    asm volatile("fence.proxy.async;");
  }
  __syncthreads();
  int phase = 0;
  for (int k = 0; k < K / 64; ++k) {
    if (threadIdx.x == 0) {
      expect_bytes(&bar, sizeof sA + sizeof sB);
      load_async(sA, &A, &bar, k * 64, blockIdx.y * 64);
      load_async(sB, &B, &bar, k * 64, blockIdx.x * 64);
    }
    phase ^= 1;
    warpgroup_arrive();
    wgmma64<1, 1, 1, 0, 0>(d, sA, sB);
    wgmma64<1, 1, 1, 0, 0>(d, sA + 16, sB + 16);
    wgmma64<1, 1, 1, 0, 0>(d, sA + 32, sB + 32);
    wgmma64<1, 1, 1, 0, 0>(d, sA + 48, sB + 48);
    warpgroup_commit_batch();
    warpgroup_wait<0>();
    __syncthreads();
  }
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int row = blockIdx.y * 64 + warp * 16 + lane / 4;
  for (int w = 0; w < 4; ++w) {
    int col = blockIdx.x * 64 + 16 * w + 2 * (lane % 4);
    C[row * N + col] = d[w][0];
    C[row * N + col + 1] = d[w][1];
    C[(row + 8) * N + col] = d[w][2];
    C[(row + 8) * N + col + 1] = d[w][3];
    C[row * N + col + 8] = d[w][4];
    C[row * N + col + 9] = d[w][5];
    C[(row + 8) * N + col + 8] = d[w][6];
    C[(row + 8) * N + col + 9] = d[w][7];
  }
}
CUtensorMap make(bf16* p, int rows, int cols) {
  CUtensorMap m;
  uint64_t dims[2] = {(uint64_t)cols, (uint64_t)rows}, strides[1] = {sizeof(bf16) * cols};
  uint32_t box[2] = {64, 64}, es[2] = {1, 1};
  CUresult r = cuTensorMapEncodeTiled(&m, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, p, dims, strides, box, es,
                                      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                      CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (r != CUDA_SUCCESS) printf("map %d\n", (int)r);
  return m;
}
int main() {
  const int M = 128, N = 128, K = 192;
  std::vector<bf16> a(M * K), b(N * K);
  for (int i = 0; i < M * K; ++i) a[i] = __float2bfloat16(float(i * 7 % 13) - 6);
  for (int i = 0; i < N * K; ++i) b[i] = __float2bfloat16(float(i * 5 % 11) - 5);
  bf16 *da, *db;
  float* dc;
  cudaMalloc(&da, M * K * 2);
  cudaMalloc(&db, N * K * 2);
  cudaMalloc(&dc, M * N * 4);
  cudaMemcpy(da, a.data(), M * K * 2, cudaMemcpyHostToDevice);
  cudaMemcpy(db, b.data(), N * K * 2, cudaMemcpyHostToDevice);
  gemm<<<dim3(N / 64, M / 64), 128>>>(M, N, K, dc, make(da, M, K), make(db, N, K));
  std::vector<float> c(M * N);
  cudaMemcpy(c.data(), dc, M * N * 4, cudaMemcpyDeviceToHost);
  int bad = 0;
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      float s = 0;
      for (int k = 0; k < K; ++k) s += __bfloat162float(a[i * K + k]) * __bfloat162float(b[j * K + k]);
      if (s != c[i * N + j] && bad++ < 5) printf("%d %d: %g %g\n", i, j, c[i * N + j], s);
    }
  printf(bad ? "FAILED\n" : "PASSED\n");
  return bad != 0;
}
