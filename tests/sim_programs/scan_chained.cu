// verdict: clean
// Single-pass scan: blocks take a ticket, and each waits for the inclusive prefix of its predecessor.
#include <cstdio>
#include <vector>
#include <numeric>

#define ELEMS 4
#define BLOCK 128

struct State {
    unsigned ticket;
    int flag[64];
    int prefix[64];
};

__global__ void chained_scan(const int *in, int *out, int n, State *state)
{
    __shared__ unsigned bid;
    __shared__ int warp_sums[BLOCK / 32];
    __shared__ int before;
    if (threadIdx.x == 0) bid = atomicAdd(&state->ticket, 1u);
    __syncthreads();

    const int first = (bid * BLOCK + threadIdx.x) * ELEMS;
    int v[ELEMS], sum = 0;
#pragma unroll
    for (int k = 0; k < ELEMS; k++) {
        v[k] = first + k < n ? in[first + k] : 0;
        sum += v[k];
    }
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int incl = sum;
    for (int d = 1; d < 32; d *= 2) {
        int t = __shfl_up_sync(0xffffffffu, incl, d);
        if (lane >= d) incl += t;
    }
    if (lane == 31) warp_sums[warp] = incl;
    __syncthreads();
    int offset = 0, total = 0;
    for (int w = 0; w < BLOCK / 32; w++) {
        if (w < warp) offset += warp_sums[w];
        total += warp_sums[w];
    }
    if (threadIdx.x == 0) {
        int p = 0;
        if (bid > 0) {
            while (atomicAdd(&state->flag[bid - 1], 0) == 0) { }
            __threadfence();
            p = *(volatile int *)&state->prefix[bid - 1];
        }
        *(volatile int *)&state->prefix[bid] = p + total;
        __threadfence();
        atomicExch(&state->flag[bid], 1);
        before = p;
    }
    __syncthreads();
    int run = before + offset + incl - sum;
    for (int k = 0; k < ELEMS; k++) {
        run += v[k];
        if (first + k < n) out[first + k] = run;
    }
}

int main()
{
    const int n = 10000, blocks = (n + BLOCK * ELEMS - 1) / (BLOCK * ELEMS);
    std::vector<int> h(n), r(n), e(n);
    for (int i = 0; i < n; i++) h[i] = i % 11 - 4;
    int *in, *out;
    State *state;
    cudaMalloc(&in, n * sizeof(int));
    cudaMalloc(&out, n * sizeof(int));
    cudaMalloc(&state, sizeof(State));
    cudaMemset(state, 0, sizeof(State));
    cudaMemcpy(in, h.data(), n * sizeof(int), cudaMemcpyHostToDevice);
    chained_scan<<<blocks, BLOCK>>>(in, out, n, state);
    cudaMemcpy(r.data(), out, n * sizeof(int), cudaMemcpyDeviceToHost);
    std::partial_sum(h.begin(), h.end(), e.begin());
    printf("chained scan over %d blocks: %s\n", blocks, r == e ? "ok" : "wrong");
    cudaFree(in); cudaFree(out); cudaFree(state);
    return r != e;
}
