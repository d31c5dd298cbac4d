// verdict: clean
#include <cstdio>
#include <vector>
#define CK(x) do { cudaError_t e_ = (x); if (e_) { printf("%s -> %s\n", #x, cudaGetErrorString(e_)); return 1; } } while (false)

__global__ void shortKernel(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 1.25f * in[i];
}

int main() {
  const int n = 1000, steps = 3, kernels = 4;
  std::vector<float> h(n, 1.f);
  float *a, *b;
  CK(cudaMalloc(&a, n * sizeof(float)));
  CK(cudaMalloc(&b, n * sizeof(float)));
  CK(cudaMemcpy(a, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  cudaStream_t stream;
  CK(cudaStreamCreate(&stream));
  bool graphCreated = false;
  cudaGraph_t graph;
  cudaGraphExec_t instance;
  for (int s = 0; s < steps; ++s) {
    if (!graphCreated) {
      CK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
      for (int k = 0; k < kernels; ++k) {
        shortKernel<<<(n + 255) / 256, 256, 0, stream>>>(k % 2 ? a : b, k % 2 ? b : a, n);
      }
      CK(cudaStreamEndCapture(stream, &graph));
      CK(cudaGraphInstantiate(&instance, graph, 0));
      graphCreated = true;
    }
    CK(cudaGraphLaunch(instance, stream));
    CK(cudaStreamSynchronize(stream));
  }
  CK(cudaMemcpy(h.data(), a, n * sizeof(float), cudaMemcpyDeviceToHost));
  float want = 1;
  for (int i = 0; i < steps * kernels; ++i) want *= 1.25f;
  int bad = 0;
  for (float v : h) bad += v != want;
  printf("graph: %d wrong\n", bad);
  CK(cudaGraphExecDestroy(instance));
  CK(cudaGraphDestroy(graph));
  CK(cudaStreamDestroy(stream));
  CK(cudaFree(a));
  CK(cudaFree(b));
  return bad != 0;
}
