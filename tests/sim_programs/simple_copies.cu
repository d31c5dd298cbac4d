// verdict: clean
// cudaMemcpy in all its forms: 2D, 3D, to and from symbols, arrays, async, device to device, default kinds.
#include <cassert>
#include <cstdio>
#include <cstring>
#include <vector>

struct Params { float scale; int shift[3]; };
__constant__ Params params;
__constant__ float weights[8];
__device__ float grid[4][8];
__device__ int *pointer_in_global;

template <typename T> class DevPtr {
    T *p_ = nullptr;
public:
    explicit DevPtr(size_t n) { cudaMalloc((void **)&p_, n * sizeof(T)); }
    DevPtr(const DevPtr &) = delete;
    DevPtr(DevPtr &&o) noexcept : p_(o.p_) { o.p_ = nullptr; }
    ~DevPtr() { if (p_) cudaFree(p_); }
    operator T *() const { return p_; }
};

__global__ void use(float *out) {
    int t = threadIdx.x;
    out[t] = params.scale * weights[t % 8] + params.shift[t % 3];
    grid[t / 8][t % 8] += t;
    if (t == 0) atomicAdd(pointer_in_global, 5);
}

int main() {
    Params p = {2.f, {1, 2, 3}};
    float w[8], g[4][8], o[32];
    for (int i = 0; i < 8; i++) w[i] = i;
    for (int i = 0; i < 32; i++) (&g[0][0])[i] = 100 + i;
    cudaMemcpyToSymbol(params, &p, sizeof p);
    cudaMemcpyToSymbol(weights, w, 4 * sizeof(float));
    cudaMemcpyToSymbol(weights, w + 4, 4 * sizeof(float), 4 * sizeof(float));
    cudaMemcpyToSymbolAsync(grid, g, sizeof g, 0, cudaMemcpyHostToDevice, 0);
    DevPtr<int> five(1);
    int *raw = five, value = 10;
    cudaMemcpy(raw, &value, sizeof(int), cudaMemcpyDefault);
    cudaMemcpyToSymbol(pointer_in_global, &raw, sizeof raw);
    DevPtr<float> out(32), copy(32);
    use<<<1, 32>>>(out);
    cudaMemcpy(copy, out, sizeof o, cudaMemcpyDeviceToDevice);
    cudaMemcpy(o, copy, sizeof o, cudaMemcpyDeviceToHost);
    cudaMemcpyFromSymbol(g, grid, sizeof g, 0, cudaMemcpyDeviceToHost);
    cudaMemcpy(&value, five, sizeof value, cudaMemcpyDeviceToHost);
    int bad = value != 15;
    for (int t = 0; t < 32; t++) bad += o[t] != 2.f * (t % 8) + 1 + t % 3 || (&g[0][0])[t] != 100 + 2 * t;

    // a 2D block out of a larger matrix
    const int W = 20, H = 10;
    std::vector<int> big(W * H), small(5 * 4, -1);
    for (int i = 0; i < W * H; i++) big[i] = i;
    int *pitched;
    size_t pitch;
    cudaMallocPitch((void **)&pitched, &pitch, 5 * sizeof(int), 4);
    assert(pitch >= 5 * sizeof(int));
    cudaMemset2D(pitched, pitch, 0, 5 * sizeof(int), 4);
    cudaMemcpy2DAsync(pitched, pitch, &big[2 * W + 3], W * sizeof(int), 5 * sizeof(int), 4, cudaMemcpyHostToDevice, 0);
    cudaMemcpy2D(small.data(), 5 * sizeof(int), pitched, pitch, 5 * sizeof(int), 4, cudaMemcpyDeviceToHost);
    for (int y = 0; y < 4; y++) for (int x = 0; x < 5; x++) bad += small[y * 5 + x] != (2 + y) * W + 3 + x;

    // 3D
    cudaExtent extent = make_cudaExtent(4 * sizeof(int), 3, 2);
    cudaPitchedPtr vol;
    cudaMalloc3D(&vol, extent);
    int h3[24], back[24];
    for (int i = 0; i < 24; i++) h3[i] = 7 * i;
    cudaMemcpy3DParms c = {0};
    c.srcPtr = make_cudaPitchedPtr(h3, 4 * sizeof(int), 4, 3);
    c.dstPtr = vol;
    c.extent = extent;
    c.kind = cudaMemcpyHostToDevice;
    cudaMemcpy3D(&c);
    memset(&c, 0, sizeof c);
    c.srcPtr = vol;
    c.dstPtr = make_cudaPitchedPtr(back, 4 * sizeof(int), 4, 3);
    c.extent = extent;
    c.kind = cudaMemcpyDeviceToHost;
    cudaMemcpy3D(&c);
    bad += memcmp(h3, back, sizeof back) != 0;
    bad += cudaGetLastError() != cudaSuccess;
    printf("copies: %d wrong\n", bad);
    cudaFree(pitched);
    cudaFree(vol.ptr);
    return bad;
}
