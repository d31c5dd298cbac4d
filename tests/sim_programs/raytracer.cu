// verdict: clean
#include <cfloat>
#include <cmath>
#include <iostream>

// limited version of checkCudaErrors from helper_cuda.h in CUDA examples
#define checkCudaErrors(val) check_cuda((val), #val, __FILE__, __LINE__)
void check_cuda(cudaError_t result, char const *const func, const char *const file, int const line) {
    if (result) {
        std::cerr << "CUDA error = " << static_cast<unsigned int>(result) << " at " << file << ":" << line << " '" << func << "' \n";
        cudaDeviceReset();
        exit(99);
    }
}

class vec3 {
public:
    __host__ __device__ vec3() {}
    __host__ __device__ vec3(float e0, float e1, float e2) { e[0] = e0; e[1] = e1; e[2] = e2; }
    __host__ __device__ inline float x() const { return e[0]; }
    __host__ __device__ inline float y() const { return e[1]; }
    __host__ __device__ inline float z() const { return e[2]; }
    __host__ __device__ inline float operator[](int i) const { return e[i]; }
    __host__ __device__ inline vec3 operator-() const { return vec3(-e[0], -e[1], -e[2]); }
    __host__ __device__ inline float length() const { return sqrt(e[0] * e[0] + e[1] * e[1] + e[2] * e[2]); }
    float e[3];
};
__host__ __device__ inline vec3 operator+(const vec3 &a, const vec3 &b) { return vec3(a.e[0] + b.e[0], a.e[1] + b.e[1], a.e[2] + b.e[2]); }
__host__ __device__ inline vec3 operator-(const vec3 &a, const vec3 &b) { return vec3(a.e[0] - b.e[0], a.e[1] - b.e[1], a.e[2] - b.e[2]); }
__host__ __device__ inline vec3 operator*(float t, const vec3 &v) { return vec3(t * v.e[0], t * v.e[1], t * v.e[2]); }
__host__ __device__ inline float dot(const vec3 &a, const vec3 &b) { return a.e[0] * b.e[0] + a.e[1] * b.e[1] + a.e[2] * b.e[2]; }
__host__ __device__ inline vec3 unit_vector(vec3 v) { return (1.0f / v.length()) * v; }

struct ray {
    __device__ ray(const vec3 &a, const vec3 &b) : A(a), B(b) {}
    __device__ vec3 at(float t) const { return A + t * B; }
    vec3 A, B;
};
struct sphere { vec3 center; float radius; };

__device__ bool hit(const sphere &s, const ray &r, float t_max, float &t) {
    vec3 oc = r.A - s.center;
    float a = dot(r.B, r.B), b = dot(oc, r.B), c = dot(oc, oc) - s.radius * s.radius;
    float d = b * b - a * c;
    if (d <= 0) return false;
    float root = (-b - sqrt(d)) / a;
    if (root <= 0.001f || root >= t_max) return false;
    t = root;
    return true;
}

__device__ vec3 color(ray r, const sphere *world, int n) {
    float attenuation = 1.0f;
    for (int bounce = 0; bounce < 4; bounce++) {
        float t = FLT_MAX;
        int best = -1;
        for (int i = 0; i < n; i++) if (hit(world[i], r, t, t)) best = i;
        if (best < 0) {
            float s = 0.5f * (unit_vector(r.B).y() + 1.0f);
            return attenuation * ((1.0f - s) * vec3(1, 1, 1) + s * vec3(0.5, 0.7, 1.0));
        }
        vec3 p = r.at(t), normal = (1.0f / world[best].radius) * (p - world[best].center), in = unit_vector(r.B);
        r = ray(p, in - 2 * dot(in, normal) * normal);
        attenuation *= 0.5f;
    }
    return vec3(0, 0, 0);
}

__global__ void render(vec3 *fb, int max_x, int max_y, const sphere *world, int n) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    int j = threadIdx.y + blockIdx.y * blockDim.y;
    if ((i >= max_x) || (j >= max_y)) return;
    float u = float(i) / float(max_x), v = float(j) / float(max_y);
    fb[j * max_x + i] = color(ray(vec3(0, 0, 0), vec3(4 * u - 2, 2 * v - 1, -1)), world, n);
}

int main() {
    int nx = 48, ny = 24, tx = 8, ty = 8;
    vec3 *fb;
    sphere *world;
    checkCudaErrors(cudaMallocManaged((void **)&fb, nx * ny * sizeof(vec3)));
    checkCudaErrors(cudaMallocManaged((void **)&world, 2 * sizeof(sphere)));
    world[0] = {vec3(0, 0, -1), 0.5f};
    world[1] = {vec3(0, -100.5f, -1), 100.0f};
    render<<<dim3(nx / tx + 1, ny / ty + 1), dim3(tx, ty)>>>(fb, nx, ny, world, 2);
    checkCudaErrors(cudaGetLastError());
    checkCudaErrors(cudaDeviceSynchronize());
    int bad = 0;
    for (int k = 0; k < nx * ny; k++) bad += !(fb[k].x() >= 0 && fb[k].x() <= 1 && fb[k].z() >= fb[k].x() - 1e-6f);
    vec3 sky = fb[(ny - 1) * nx];
    bad += !(sky.z() > 0.9f);
    bad += !(fb[ny / 2 * nx + nx / 2].z() < 0.6f);
    std::cout << "ray tracer: " << bad << " strange pixels\n";
    checkCudaErrors(cudaFree(fb));
    checkCudaErrors(cudaFree(world));
    return bad;
}
