// verdict: clean
// Finds the number whose hash has the most leading zeros: constant tables, rotations, 64-bit packing, early exits.
#include <cstdint>
#include <cstdio>
#define ROTL(x, n) (((x) << (n)) | ((x) >> (32 - (n))))
#define ROUND(a, b, c, d, f, k, w, s) do { uint32_t t_ = (a) + f(b, c, d) + (k) + (w); (a) = (b) + ROTL(t_, s); } while (0)
#define F(x, y, z) ((x & y) | (~x & z))
#define G(x, y, z) ((x & z) | (y & ~z))
#define H(x, y, z) (x ^ y ^ z)

static const __device__ __constant__ uint32_t K[16] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821};
static const uint32_t hK[16] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821};

__host__ __device__ uint32_t digest(uint32_t word, const uint32_t *k) {
    uint32_t a = 0x67452301, b = 0xefcdab89, c = 0x98badcfe, d = 0x10325476;
#pragma unroll
    for (int i = 0; i < 16; i += 4) {
        ROUND(a, b, c, d, F, k[i], word, 7);
        ROUND(d, a, b, c, G, k[i + 1], word ^ 0x5c5c5c5c, 12);
        ROUND(c, d, a, b, H, k[i + 2], word + i, 17);
        ROUND(b, c, d, a, F, k[i + 3], ~word, 22);
    }
    return a ^ b ^ c ^ d;
}

__global__ void search(uint32_t first, uint32_t count, unsigned long long *best) {
    __shared__ unsigned long long block_best;
    if (threadIdx.x == 0) block_best = ~0ULL;
    __syncthreads();
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        unsigned long long packed = (unsigned long long)digest(first + i, K) << 32 | (first + i);
        if (packed < atomicAdd(&block_best, 0ULL)) atomicMin(&block_best, packed);
    }
    __syncthreads();
    if (threadIdx.x == 0) atomicMin(best, block_best);
}

int main() {
    unsigned long long *d, h = ~0ULL, want = ~0ULL;
    cudaMalloc(&d, sizeof h);
    cudaMemcpy(d, &h, sizeof h, cudaMemcpyHostToDevice);
    search<<<4, 64>>>(1000, 2000, d);
    cudaMemcpy(&h, d, sizeof h, cudaMemcpyDeviceToHost);
    for (uint32_t i = 1000; i < 3000; ++i) {
        unsigned long long p = (unsigned long long)digest(i, hK) << 32 | i;
        if (p < want) want = p;
    }
    printf("nonce %u: %s\n", (unsigned)h, h == want ? "ok" : "wrong");
    cudaFree(d);
    return h != want;
}
