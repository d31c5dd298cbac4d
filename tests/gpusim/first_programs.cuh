/// @file
/// Kernels of the kind that people write first, in the namespace in which they write them. Plain CUDA: nvcc
/// compiles this file as well, and so does the simulator with each of CUDA's headers.
#pragma once

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>
#include <cuda_runtime_api.h>
#include <device_launch_parameters.h>
#include <driver_types.h>
#include <host_defines.h>
#include <math_constants.h>
#include <mma.h>
#include <vector_functions.h>
#include <vector_types.h>

#include <cmath>
#include <type_traits>

using namespace nvcuda;
namespace cg = cooperative_groups;

// ---- element by element -----------------------------------------------------------------------------------

template <class T>
__device__ T plus_one(T x) {
  return x + T(1);
}

template <class T>
__global__ void add_vectors(const T* a, const T* b, T* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = plus_one(a[i] + b[i]);
}

__global__ void saxpy_strided(float a, const float* x, float* y, unsigned n) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] = fma(a, x[i], y[i]);
}

// ---- minimum, maximum and absolute value, of each mixture of types that CUDA has --------------------------

__constant__ int kMinusOne = -1;

/// out[2 i] and out[2 i + 1] are the i-th minimum and maximum.
__global__ void smallest_and_largest(double* out) {
  const int i = kMinusOne, j = 3;
  const unsigned u = 5;
  const long l = -7;
  const unsigned long ul = 9;
  const long long ll = -11;
  const unsigned long long ull = 13;
  const float f = -1.5f;
  const double d = 2.25;
  int n = 0;
  const auto put = [&](auto smallest, auto largest) {
    out[n++] = double(smallest);
    out[n++] = double(largest);
  };
  put(min(i, j), max(i, j));
  put(min(i, u), max(i, u));  // -1 is 2^32 - 1
  put(min(u, i), max(u, i));
  put(min(u, 3u), max(u, 3u));
  put(min(l, 8L), max(l, 8L));
  put(min(l, ul), max(l, ul));
  put(min(ll, 8LL), max(ll, 8LL));
  put(min(ull, ll), max(ull, ll));
  put(min(f, 1.0f), max(f, 1.0f));
  put(min(f, d), max(f, d));
  put(min(d, f), max(d, f));
  put(min(d, 4.5), max(d, 4.5));
  put(fmin(f, 1.0f), fmax(d, 4.5));
  put(umin(u, 3), umax(u, 3));
  put(abs(f), abs(-2.25));
  put(abs(i), abs(ll));
}

/// Some of the many functions and numbers that CUDA has in the global namespace.
__global__ void arithmetic(double* out) {
  const float x = 0.75f;
  int n = 0;
  const auto put = [&](double value) { out[n++] = value; };
  put(CUDART_PI_F);
  put(CUDART_INF_F > 1e38f && isinf(CUDART_INF_F) && isnan(CUDART_NAN));
  put(rsqrt(4.0));
  put(sinpif(0.5f) + cospif(2.0f));
  put(__float2int_rn(2.5f) + 10 * __float2int_ru(0.25f) + 100 * __float2int_rz(-1.75f));
  put(__umulhi(0x80000000u, 6u) + 10 * __clzll(1LL << 40));
  put(__byte_perm(0x03020100u, 0x07060504u, 0x7531u) == 0x07050301u);
  put(__funnelshift_l(0x80000000u, 1u, 1) == 3u);
  put(__half2float(hexp(__float2half(0.0f))) + __half2float(hsqrt(__int2half_rn(16))));
  put(double(__fsqrt_rn(x * x)) + __fdiv_rn(1.0f, 4.0f));
  put(exp10f(2.0f) + __log10f(1000.0f));
}

// ---- shared memory ----------------------------------------------------------------------------------------

__global__ void transpose(const float* in, float* out, int n) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += blockDim.y)
    if (x < n && y + j < n) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += blockDim.y)
    if (x < n && y + j < n) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

template <int kThreads>
__global__ void reduce(const float* x, float* sum, int n) {
  __shared__ float part[kThreads];
  float mine = 0.0f;
  for (int i = blockIdx.x * kThreads + threadIdx.x; i < n; i += gridDim.x * kThreads) mine += x[i];
  part[threadIdx.x] = mine;
  __syncthreads();
  for (int rest = kThreads / 2; rest > 0; rest /= 2) {
    if (int(threadIdx.x) < rest) part[threadIdx.x] += part[threadIdx.x + rest];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(sum, part[0]);
}

__global__ void histogram(const unsigned char* x, unsigned* bins, int n) {
  __shared__ unsigned counts[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) counts[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd_block(&counts[x[i]], 1);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], counts[i]);
}

__constant__ float kStencil[3];

__global__ void stencil(const float* in, float* out, int n) {
  __shared__ float s[64 + 2];
  const int i = blockIdx.x * 64 + threadIdx.x;
  s[threadIdx.x + 1] = i < n ? in[i] : 0.0f;
  if (threadIdx.x == 0) s[0] = i > 0 ? in[i - 1] : 0.0f;
  if (threadIdx.x == 63) s[65] = i + 1 < n ? in[i + 1] : 0.0f;
  __syncthreads();
  if (i < n)
    out[i] =
        kStencil[0] * s[threadIdx.x] + kStencil[1] * s[threadIdx.x + 1] + kStencil[2] * s[threadIdx.x + 2];
}

/// Running sums of one block.
__global__ void scan(const int* in, int* out, int n) {
  extern __shared__ int scanned[];
  int* from = scanned;
  int* to = scanned + n;
  const int i = threadIdx.x;
  from[i] = in[i];
  __syncthreads();
  for (int distance = 1; distance < n; distance *= 2) {
    to[i] = i >= distance ? from[i] + from[i - distance] : from[i];
    __syncthreads();
    int* const swapped = from;
    from = to;
    to = swapped;
  }
  out[i] = from[i];
}

/// 64 KiB, which ptxas refuses: only the simulator may compile this.
template <int kFloats>
__global__ void large_static_tile(float* out) {
  __shared__ float tile[kFloats];
  tile[threadIdx.x] = 1.0f;
  out[threadIdx.x] = tile[threadIdx.x];
}

// ---- cooperative groups -----------------------------------------------------------------------------------

__global__ void sum_by_groups(const int* x, int* sums, int* before) {
  const cg::thread_block block = cg::this_thread_block();
  const cg::thread_block_tile<16> tile = cg::tiled_partition<16>(block);
  const unsigned i = cg::this_grid().thread_rank();
  const int sum = cg::reduce(tile, x[i], cg::plus<int>());
  if (tile.thread_rank() == 0) sums[blockIdx.x * tile.meta_group_size() + tile.meta_group_rank()] = sum;
  before[i] = cg::exclusive_scan(tile, x[i]);
  block.sync();
}

// ---- atomics ----------------------------------------------------------------------------------------------

__global__ void many_atomics(unsigned* u, long long* ll, __half* h, __half2* h2, __nv_bfloat16* b) {
  atomicInc(&u[0], 9);
  atomicDec(&u[1], 9);
  atomicMax(ll, static_cast<long long>(threadIdx.x));
  atomicAdd(h, __float2half(1.0f));
  atomicAdd(h2, __floats2half2_rn(1.0f, 2.0f));
  atomicAdd(b, __float2bfloat16(1.0f));
  const unsigned same = __match_any_sync(0xffffffffu, threadIdx.x / 8);
  if (__ffs(same) - 1 == int(threadIdx.x)) atomicAdd_system(&u[2], __popc(same));
}

// ---- WMMA -------------------------------------------------------------------------------------------------

/// C = A B for matrices whose sizes are multiples of 16, one tile of C for each warp, straight from global
/// memory.
template <class Sum, class LayoutA, class LayoutB>
__global__ void wmma_product(const half* a, const half* b, Sum* c, int m, int n, int k) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize * 16, col = blockIdx.y * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, LayoutA> fA;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, LayoutB> fB;
  wmma::fragment<wmma::accumulator, 16, 16, 16, Sum> fC;
  wmma::fill_fragment(fC, 0.0f);
  constexpr bool kRowsA = std::is_same_v<LayoutA, wmma::row_major>;
  constexpr bool kRowsB = std::is_same_v<LayoutB, wmma::row_major>;
  for (int i = 0; i < k; i += 16) {
    wmma::load_matrix_sync(fA, kRowsA ? a + row * k + i : a + i * m + row, kRowsA ? k : m);
    wmma::load_matrix_sync(fB, kRowsB ? b + i * n + col : b + col * k + i, kRowsB ? n : k);
    wmma::mma_sync(fC, fA, fB, fC);
  }
  wmma::store_matrix_sync(c + row * n + col, fC, n, wmma::mem_row_major);
}

/// D = A B + 2 C of one tile of another shape, whose C and D are in columns.
template <int kM, int kN, class Element, class Sum>
__global__ void wmma_tile(const Element* a, const Element* b, const Sum* c, Sum* d) {
  wmma::fragment<wmma::matrix_a, kM, kN, 16, Element, wmma::row_major> fA;
  wmma::fragment<wmma::matrix_b, kM, kN, 16, Element, wmma::row_major> fB;
  wmma::fragment<wmma::accumulator, kM, kN, 16, Sum> fC;
  wmma::load_matrix_sync(fA, a, 16);
  wmma::load_matrix_sync(fB, b, kN);
  wmma::load_matrix_sync(fC, c, kM, wmma::mem_col_major);
  for (int i = 0; i < fC.num_elements; ++i) fC.x[i] = fC.x[i] + fC.x[i];
  wmma::mma_sync(fC, fA, fB, fC);
  wmma::store_matrix_sync(d, fC, kM, wmma::mem_col_major);
}
