// verdict: invalid at line 16
#include <cstdio>
#include <cstdlib>

class Vector {
  float* p;
  int n;
 public:
  explicit Vector(int n) : n(n) { cudaMalloc(&p, n * sizeof(float)); cudaMemset(p, 0, n * sizeof(float)); }
  ~Vector() { cudaFree(p); }
  float* data() const { return p; }
  int size() const { return n; }
};

__global__ void add(const float* a, const float* b, float* c, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) c[i] = a[i] + b[i];
}

float* temporary(int n) {
  Vector t(n);
  return t.data();  // t ends here, and its memory with it
}

int main() {
  Vector a(500), c(500);
  float* b = temporary(500);
  add<<<1, 128>>>(a.data(), b, c.data(), 500);
  printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
  return EXIT_SUCCESS;
}
