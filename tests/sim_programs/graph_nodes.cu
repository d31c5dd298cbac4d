// verdict: clean
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                              \
  do {                                                                                           \
    const cudaError_t error = (call);                                                            \
    if (error != cudaSuccess) {                                                                  \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));             \
      exit(EXIT_FAILURE);                                                                        \
    }                                                                                            \
  } while (0)

constexpr int kThreads = 128;

__global__ void sum_blocks(const float* in, double* out, size_t n) {
  __shared__ double partial[kThreads];
  double sum = 0.0;
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int k = kThreads / 2; k > 0; k /= 2) {
    if (threadIdx.x < k) partial[threadIdx.x] += partial[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = partial[0];
}

struct Result {
  double blocks[4];
  double total;
};

static void CUDART_CB add_up(void* data) {
  Result* result = static_cast<Result*>(data);
  result->total = 0.0;
  for (double x : result->blocks) result->total += x;
}

int main() {
  size_t n = 3000;
  const size_t blocks = 4;
  std::vector<float> host(n, 1.0f);
  float* in;
  double* out;
  CHECK(cudaMalloc(&in, n * sizeof(float)));
  CHECK(cudaMalloc(&out, blocks * sizeof(double)));

  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  std::vector<cudaGraphNode_t> before(2);
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(host.data(), n * sizeof(float), n, 1);
  copy.dstPtr = make_cudaPitchedPtr(in, n * sizeof(float), n, 1);
  copy.extent = make_cudaExtent(n * sizeof(float), 1, 1);
  copy.kind = cudaMemcpyHostToDevice;
  CHECK(cudaGraphAddMemcpyNode(&before[0], graph, nullptr, 0, &copy));
  cudaMemsetParams fill = {};
  fill.dst = out;
  fill.elementSize = sizeof(float);
  fill.width = blocks * 2;
  fill.height = 1;
  CHECK(cudaGraphAddMemsetNode(&before[1], graph, nullptr, 0, &fill));

  void* arguments[] = {&in, &out, &n};
  cudaKernelNodeParams launch = {};
  launch.func = reinterpret_cast<void*>(sum_blocks);
  launch.gridDim = dim3(blocks);
  launch.blockDim = dim3(kThreads);
  launch.kernelParams = arguments;
  cudaGraphNode_t kernel, back, last;
  CHECK(cudaGraphAddKernelNode(&kernel, graph, before.data(), before.size(), &launch));
  Result result;
  CHECK(cudaGraphAddMemcpyNode1D(&back, graph, &kernel, 1, result.blocks, out, sizeof(result.blocks),
                                 cudaMemcpyDeviceToHost));
  cudaHostNodeParams call = {};
  call.fn = add_up;
  call.userData = &result;
  CHECK(cudaGraphAddHostNode(&last, graph, &back, 1, &call));

  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (int i = 0; i < 3; i++) CHECK(cudaGraphLaunch(executable, stream));
  CHECK(cudaStreamSynchronize(stream));
  printf("%g\n", result.total);
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
  return result.total == 3000.0 ? 0 : 1;
}
