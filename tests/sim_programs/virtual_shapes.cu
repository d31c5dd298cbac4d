// verdict: clean
// Objects with virtual functions, built by placement new in shared and in global memory.
#include <cstdio>
#include <new>
#include <cmath>

class Shape {
 public:
  __device__ virtual ~Shape() {}
  __device__ virtual float area() const = 0;
  __device__ virtual int sides() const { return 0; }
};
class Circle : public Shape {
  float r;
 public:
  __device__ explicit Circle(float r) : r(r) {}
  __device__ float area() const override { return 3.14159265f * r * r; }
};
class Rect : public Shape {
  float w, h;
 public:
  __device__ Rect(float w, float h) : w(w), h(h) {}
  __device__ float area() const override { return w * h; }
  __device__ int sides() const override { return 4; }
};

union Slot { double align; char c[sizeof(Circle)]; char r[sizeof(Rect)]; };

__global__ void build(Slot* slots, Shape** shapes, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (i % 2) shapes[i] = new (&slots[i]) Circle(i);
  else shapes[i] = new (&slots[i]) Rect(i, 2);
}
__global__ void measure(Shape* const* shapes, float* area, int* sides, int n) {
  __shared__ Slot local[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  Shape* mine = new (&local[threadIdx.x]) Rect(1, i);
  __syncthreads();
  Shape* other = reinterpret_cast<Shape*>(&local[threadIdx.x ^ 1]);
  if (i < n) {
    area[i] = shapes[i]->area() + mine->area() + other->area();
    sides[i] = shapes[i]->sides() + other->sides();
  }
}

int main() {
  const int n = 100;
  Slot* slots; Shape** shapes; float *area, ha[n]; int *sides, hs[n], bad = 0;
  cudaMalloc(&slots, n * sizeof(Slot));
  cudaMalloc(&shapes, n * sizeof(Shape*));
  cudaMalloc(&area, sizeof ha);
  cudaMalloc(&sides, sizeof hs);
  build<<<2, 64>>>(slots, shapes, n);
  measure<<<2, 64>>>(shapes, area, sides, n);
  cudaMemcpy(ha, area, sizeof ha, cudaMemcpyDeviceToHost);
  cudaMemcpy(hs, sides, sizeof hs, cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; ++i) {
    float want = (i % 2 ? 3.14159265f * i * i : 2.f * i) + i + (i ^ 1);
    bad += std::fabs(ha[i] - want) > 1e-3f * (want + 1) || hs[i] != (i % 2 ? 4 : 8);
  }
  printf("shapes: %d wrong\n", bad);
  cudaFree(slots); cudaFree(shapes); cudaFree(area); cudaFree(sides);
  return bad;
}
