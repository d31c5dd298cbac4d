// verdict: clean
// LSD radix sort, 4 bits a pass: count per block, scan the counts, scatter in order.
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

using u32 = std::uint32_t;
constexpr int RADIX_BITS = 4, RADIX = 1 << RADIX_BITS, BLOCK = 128;

__global__ void count_digits(const u32 *keys, u32 *counts, int n, int shift) {
    __shared__ u32 bins[RADIX];
    if (threadIdx.x < RADIX) bins[threadIdx.x] = 0;
    __syncthreads();
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) atomicAdd(&bins[(keys[i] >> shift) & (RADIX - 1)], 1u);
    __syncthreads();
    if (threadIdx.x < RADIX) counts[threadIdx.x * gridDim.x + blockIdx.x] = bins[threadIdx.x];  // digit-major
}

__global__ void exclusive_scan_one_block(u32 *data, int n) {
    __shared__ u32 warp_total[32];
    __shared__ u32 carry;
    if (threadIdx.x == 0) carry = 0;
    for (int base = 0; base < n; base += blockDim.x) {
        int i = base + threadIdx.x, lane = threadIdx.x & 31, w = threadIdx.x >> 5;
        u32 v = i < n ? data[i] : 0, x = v;
#pragma unroll
        for (int d = 1; d < 32; d <<= 1) {
            u32 y = __shfl_up_sync(~0u, x, d);
            if (lane >= d) x += y;
        }
        if (lane == 31) warp_total[w] = x;
        __syncthreads();
        if (w == 0) {
            u32 t = lane < blockDim.x / 32 ? warp_total[lane] : 0;
            for (int d = 1; d < 32; d <<= 1) {
                u32 y = __shfl_up_sync(~0u, t, d);
                if (lane >= d) t += y;
            }
            warp_total[lane] = t;
        }
        __syncthreads();
        u32 before = carry + (w ? warp_total[w - 1] : 0);
        if (i < n) data[i] = before + x - v;
        __syncthreads();
        if (threadIdx.x == blockDim.x - 1) carry = before + x;
        __syncthreads();
    }
}

__global__ void scatter(const u32 *in, u32 *out, const u32 *offsets, int n, int shift) {
    __shared__ u32 digit_of[BLOCK];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    u32 key = i < n ? in[i] : 0;
    u32 digit = i < n ? (key >> shift) & (RADIX - 1) : RADIX;
    digit_of[threadIdx.x] = digit;
    __syncthreads();
    if (i >= n) return;
    u32 rank = 0;
    for (int t = 0; t < threadIdx.x; ++t) rank += digit_of[t] == digit;
    out[offsets[digit * gridDim.x + blockIdx.x] + rank] = key;
}

int main() {
    const int n = 1500, blocks = (n + BLOCK - 1) / BLOCK;
    std::vector<u32> keys(n);
    std::mt19937 gen(5);
    for (auto &k : keys) k = gen() & 0xffff;
    u32 *a, *b, *counts;
    auto ok = [](cudaError_t e) { assert(e == cudaSuccess); };
    ok(cudaMalloc(&a, n * sizeof(u32)));
    ok(cudaMalloc(&b, n * sizeof(u32)));
    ok(cudaMalloc(&counts, RADIX * blocks * sizeof(u32)));
    ok(cudaMemcpy(a, keys.data(), n * sizeof(u32), cudaMemcpyHostToDevice));
    for (int shift = 0; shift < 16; shift += RADIX_BITS) {
        count_digits<<<blocks, BLOCK>>>(a, counts, n, shift);
        exclusive_scan_one_block<<<1, 256>>>(counts, RADIX * blocks);
        scatter<<<blocks, BLOCK>>>(a, b, counts, n, shift);
        std::swap(a, b);
    }
    std::vector<u32> sorted(n);
    ok(cudaMemcpy(sorted.data(), a, n * sizeof(u32), cudaMemcpyDeviceToHost));
    std::sort(keys.begin(), keys.end());
    puts(keys == sorted ? "sorted" : "NOT sorted");
    cudaFree(a); cudaFree(b); cudaFree(counts);
    return keys != sorted;
}
