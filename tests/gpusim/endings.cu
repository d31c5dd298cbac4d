/// @file
/// A program with a defect that ends in the way that its argument names: see endings_test.py.
#include <cuda_runtime.h>
#include <unistd.h>

#include <cassert>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

namespace {

__global__ void read_after(const float* in, float* out, int n) { out[threadIdx.x] = in[threadIdx.x + n]; }

void check(bool is_right) { assert(is_right); }

}  // namespace

int main(int count, char** arguments) {
  const std::string_view how = count > 1 ? arguments[1] : "";
  const int beyond = count > 2 ? 0 : 1;  // a second argument: no defect
  float *in = nullptr, *out = nullptr;
  cudaMalloc(&in, 32 * sizeof(float));
  cudaMalloc(&out, 32 * sizeof(float));
  cudaMemset(in, 0, 32 * sizeof(float));
  cudaLaunchConfig_t config = {};
  config.gridDim = 1;
  config.blockDim = 32;
  cudaLaunchKernelEx(&config, read_after, in, out, beyond);
  std::printf("the results are wrong\n");
  if (how == "exit") std::exit(7);
  if (how == "abort") std::abort();
  if (how == "assert") check(false);
  if (how == "segv") std::raise(SIGSEGV);
  if (how == "thread") std::thread([] { std::abort(); }).join();
  if (how == "throw") throw 3;
  if (how == "quick") std::quick_exit(7);
  if (how == "_exit") _exit(7);
  if (how == "heap") {
    // The report cannot be made in this state, and the program must end nonetheless.
    auto* const text = static_cast<char*>(std::malloc(24));
    for (int i = -16; i < 200; ++i) text[i] = 'x';
    std::free(text);
  }
  return 0;
}
