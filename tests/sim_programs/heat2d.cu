// verdict: clean
#include <cstdio>
#include <cmath>
#include <utility>
#include <vector>
#include <cuda_runtime.h>

// 2-D heat equation, explicit Euler, halo in shared memory; coefficients in constant memory.
constexpr int BX = 16, BY = 8;
__constant__ float coef[2];

__global__ void step(const float* __restrict__ in, float* __restrict__ out, int nx, int ny)
{
    __shared__ float s[BY + 2][BX + 2];
    const int gx = blockIdx.x * BX + threadIdx.x;
    const int gy = blockIdx.y * BY + threadIdx.y;
    const int lx = threadIdx.x + 1, ly = threadIdx.y + 1;
    const bool inside = gx < nx && gy < ny;

    auto at = [&](int x, int y) { return (x >= 0 && x < nx && y >= 0 && y < ny) ? in[y * nx + x] : 0.f; };
    s[ly][lx] = at(gx, gy);
    if (threadIdx.x == 0) s[ly][0] = at(gx - 1, gy);
    if (threadIdx.x == BX - 1) s[ly][BX + 1] = at(gx + 1, gy);
    if (threadIdx.y == 0) s[0][lx] = at(gx, gy - 1);
    if (threadIdx.y == BY - 1) s[BY + 1][lx] = at(gx, gy + 1);
    __syncthreads();

    if (inside)
        out[gy * nx + gx] = coef[0] * s[ly][lx] + coef[1] * (s[ly][lx - 1] + s[ly][lx + 1] + s[ly - 1][lx] + s[ly + 1][lx]);
}

int main()
{
    const int nx = 50, ny = 37, steps = 6;
    std::vector<float> u(nx * ny, 0.f), v(nx * ny);
    u[ny / 2 * nx + nx / 2] = 100.f;
    u[3 * nx + 1] = -20.f;
    const float hc[2] = {0.6f, 0.1f};
    cudaMemcpyToSymbol(coef, hc, sizeof(hc));

    float *a, *b;
    cudaMalloc(&a, u.size() * sizeof(float));
    cudaMalloc(&b, u.size() * sizeof(float));
    cudaMemcpy(a, u.data(), u.size() * sizeof(float), cudaMemcpyHostToDevice);
    dim3 grid((nx + BX - 1) / BX, (ny + BY - 1) / BY), block(BX, BY);
    for (int t = 0; t < steps; ++t) {
        step<<<grid, block>>>(a, b, nx, ny);
        std::swap(a, b);
    }
    std::vector<float> result(nx * ny);
    cudaMemcpy(result.data(), a, u.size() * sizeof(float), cudaMemcpyDeviceToHost);

    for (int t = 0; t < steps; ++t) {
        for (int y = 0; y < ny; ++y)
            for (int x = 0; x < nx; ++x) {
                auto at = [&](int i, int j) { return (i >= 0 && i < nx && j >= 0 && j < ny) ? u[j * nx + i] : 0.f; };
                v[y * nx + x] = hc[0] * at(x, y) + hc[1] * (at(x - 1, y) + at(x + 1, y) + at(x, y - 1) + at(x, y + 1));
            }
        std::swap(u, v);
    }
    float err = 0;
    for (int i = 0; i < nx * ny; ++i) err = std::fmax(err, std::fabs(u[i] - result[i]));
    printf("heat2d: max difference %g: %s\n", err, err < 1e-4f ? "OK" : "BAD");
    cudaFree(a); cudaFree(b);
    return err < 1e-4f ? 0 : 1;
}
