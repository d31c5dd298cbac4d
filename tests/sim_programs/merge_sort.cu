// verdict: clean
#include <iostream>
#include <algorithm>
#include <helper_cuda.h>
#include <sys/time.h>

// Bottom-up merge sort, one thread per slice. Prints nothing but the verdict.
void mergesort(long*, long, dim3, dim3);
__global__ void gpu_mergesort(long*, long*, long, long, long, dim3*, dim3*);
__device__ void gpu_bottomUpMerge(long*, long*, long, long, long);

int tm() {
    static timeval start, end;
    gettimeofday(&start, NULL);
    int t = (int)(start.tv_usec - end.tv_usec);
    gettimeofday(&end, NULL);
    return t;
}

void mergesort(long* data, long size, dim3 threadsPerBlock, dim3 blocksPerGrid) {
    long *D_data, *D_swp;
    dim3 *D_threads, *D_blocks;
    checkCudaErrors(cudaMalloc((void**)&D_data, size * sizeof(long)));
    checkCudaErrors(cudaMalloc((void**)&D_swp, size * sizeof(long)));
    checkCudaErrors(cudaMemcpy(D_data, data, size * sizeof(long), cudaMemcpyHostToDevice));
    checkCudaErrors(cudaMalloc((void**)&D_threads, sizeof(dim3)));
    checkCudaErrors(cudaMalloc((void**)&D_blocks, sizeof(dim3)));
    checkCudaErrors(cudaMemcpy(D_threads, &threadsPerBlock, sizeof(dim3), cudaMemcpyHostToDevice));
    checkCudaErrors(cudaMemcpy(D_blocks, &blocksPerGrid, sizeof(dim3), cudaMemcpyHostToDevice));
    long *A = D_data, *B = D_swp;
    long nThreads = threadsPerBlock.x * threadsPerBlock.y * threadsPerBlock.z * blocksPerGrid.x * blocksPerGrid.y * blocksPerGrid.z;
    for (int width = 2; width < (size << 1); width <<= 1) {
        long slices = size / (nThreads * width) + 1;
        gpu_mergesort<<<blocksPerGrid, threadsPerBlock>>>(A, B, size, width, slices, D_threads, D_blocks);
        A = A == D_data ? D_swp : D_data;
        B = B == D_data ? D_swp : D_data;
    }
    checkCudaErrors(cudaMemcpy(data, A, size * sizeof(long), cudaMemcpyDeviceToHost));
    checkCudaErrors(cudaFree(A));
    checkCudaErrors(cudaFree(B));
    checkCudaErrors(cudaFree(D_threads));
    checkCudaErrors(cudaFree(D_blocks));
}

__device__ unsigned int getIdx(dim3* threads, dim3* blocks) {
    int x;
    return threadIdx.x + threadIdx.y * (x = threads->x) + threadIdx.z * (x *= threads->y) + blockIdx.x * (x *= threads->z) +
           blockIdx.y * (x *= blocks->z) + blockIdx.z * (x *= blocks->y);
}

__global__ void gpu_mergesort(long* source, long* dest, long size, long width, long slices, dim3* threads, dim3* blocks) {
    unsigned int idx = getIdx(threads, blocks);
    long start = width * idx * slices, middle, end;
    for (long slice = 0; slice < slices; slice++) {
        if (start >= size) break;
        middle = min(start + (width >> 1), size);
        end = min(start + width, size);
        gpu_bottomUpMerge(source, dest, start, middle, end);
        start += width;
    }
}

__device__ void gpu_bottomUpMerge(long* source, long* dest, long start, long middle, long end) {
    long i = start, j = middle;
    for (long k = start; k < end; k++) {
        if (i < middle && (j >= end || source[i] < source[j])) {
            dest[k] = source[i];
            i++;
        } else {
            dest[k] = source[j];
            j++;
        }
    }
}

int main(int argc, char** argv) {
    dim3 threadsPerBlock, blocksPerGrid;
    threadsPerBlock.x = 32;
    blocksPerGrid.x = 4;
    const long size = 777;
    long data[size], sorted[size];
    tm();
    srand(tm() * 0 + 1);
    for (int i = 0; i < size; i++) sorted[i] = data[i] = rand() % 1000;
    mergesort(data, size, threadsPerBlock, blocksPerGrid);
    std::sort(sorted, sorted + size);
    bool ok = std::equal(data, data + size, sorted);
    std::cout << (ok ? "sorted" : "NOT sorted") << '\n';
    return !ok;
}
