// verdict: clean
// extern __shared__ of several types, names and styles in one file.
#include <cstdio>
#include <cstdint>
#include <vector>
#include <string>

template <typename T> struct SharedMemory {
  __device__ inline operator T*() { extern __shared__ int __smem[]; return (T*)__smem; }
  __device__ inline operator const T*() const { extern __shared__ int __smem[]; return (T*)__smem; }
};
template <> struct SharedMemory<double> {
  __device__ inline operator double*() { extern __shared__ double __smem_d[]; return (double*)__smem_d; }
};

template <class T> __global__ void reverse_generic(T* data) {
  T* s = SharedMemory<T>();
  s[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
__global__ void reverse_int(int* data) {
  extern __shared__ int buffer[];
  buffer[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = buffer[blockDim.x - 1 - threadIdx.x];
}
template <typename T> __global__ void reverse_bytes(T* data) {
  extern __shared__ __align__(sizeof(T)) unsigned char my_smem[];
  T* smem = reinterpret_cast<T*>(my_smem);
  smem[threadIdx.x] = data[threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = smem[blockDim.x - 1 - threadIdx.x];
}
__global__ void three_arrays(int* out) {
  extern __shared__ __align__(16) char raw[];
  double* d = (double*)raw;
  float* f = (float*)&d[blockDim.x];
  short* h = (short*)&f[blockDim.x];
  const int t = threadIdx.x;
  d[t] = t; f[t] = 2 * t; h[t] = 3 * t;
  __syncthreads();
  const int o = blockDim.x - 1 - t;
  out[t] = (int)d[o] + (int)f[o] + h[o];
}
__device__ int* scratch() { extern __shared__ int buffer[]; return buffer; }
__global__ void through_function(int* out) {
  scratch()[threadIdx.x] = threadIdx.x * threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = scratch()[blockDim.x - 1 - threadIdx.x];
}
extern __shared__ float2 at_file_scope[];
__global__ void file_scope(float* out) {
  at_file_scope[threadIdx.x] = make_float2(threadIdx.x, 1);
  __syncthreads();
  float2 v = at_file_scope[threadIdx.x ^ 1];
  out[threadIdx.x] = v.x + v.y;
}

const int N = 64;
template <class T, class L> int check(const char* what, L launch, std::vector<T> in, std::vector<T> want) {
  T* d;
  cudaMalloc(&d, N * sizeof(T));
  cudaMemcpy(d, in.data(), N * sizeof(T), cudaMemcpyHostToDevice);
  launch(d);
  cudaMemcpy(in.data(), d, N * sizeof(T), cudaMemcpyDeviceToHost);
  cudaFree(d);
  if (in != want) printf("%s is wrong\n", what);
  return in != want;
}
template <class T> std::vector<T> up() { std::vector<T> v; for (int i = 0; i < N; i++) v.push_back(T(i)); return v; }
template <class T> std::vector<T> down() { std::vector<T> v; for (int i = 0; i < N; i++) v.push_back(T(N - 1 - i)); return v; }

int main() {
  int bad = 0;
  bad += check<int>("int", [](int* d) { reverse_generic<<<1, N, N * sizeof(int)>>>(d); }, up<int>(), down<int>());
  bad += check<float>("float", [](float* d) { reverse_generic<float><<<1, N, N * sizeof(float)>>>(d); }, up<float>(), down<float>());
  bad += check<double>("double", [](double* d) { reverse_generic<<<1, N, N * sizeof(double)>>>(d); }, up<double>(), down<double>());
  bad += check<int>("buffer", [](int* d) { reverse_int<<<1, N, N * 4>>>(d); }, up<int>(), down<int>());
  bad += check<uint16_t>("bytes", [](uint16_t* d) { reverse_bytes<<<1, N, N * 2>>>(d); }, up<uint16_t>(), down<uint16_t>());
  bad += check<double>("bytes of double", [](double* d) { reverse_bytes<double><<<1, N, N * 8>>>(d); }, up<double>(), down<double>());
  std::vector<int> six, squares;
  std::vector<float> pairs;
  for (int i = 0; i < N; i++) { six.push_back(6 * (N - 1 - i)); squares.push_back((N - 1 - i) * (N - 1 - i)); pairs.push_back((i ^ 1) + 1); }
  bad += check<int>("three", [](int* d) { three_arrays<<<1, N, N * (8 + 4 + 2)>>>(d); }, up<int>(), six);
  bad += check<int>("function", [](int* d) { through_function<<<1, N, N * 4>>>(d); }, up<int>(), squares);
  bad += check<float>("file scope", [](float* d) { file_scope<<<1, N, N * sizeof(float2)>>>(d); }, up<float>(), pairs);
  // more than 48 KiB needs the attribute
  const int big = 64 * 1024;
  cudaFuncSetAttribute(reverse_int, cudaFuncAttributeMaxDynamicSharedMemorySize, big);
  bad += check<int>("64 KiB", [](int* d) { reverse_int<<<1, N, big>>>(d); }, up<int>(), down<int>());
  bad += cudaGetLastError() != cudaSuccess;
  printf("dynamic shared memory: %d wrong\n", bad);
  return bad;
}
