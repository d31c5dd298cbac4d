// verdict: clean
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>

template <typename ValueType, typename IndexType = int>
struct CsrMatrix
{
    IndexType rows, cols;
    std::vector<IndexType> row_ptr, col_ind;
    std::vector<ValueType> values;
};

template <typename V, typename I>
__global__ void spmv_scalar(I rows, const I* __restrict__ ptr, const I* __restrict__ col, const V* __restrict__ val, const V* __restrict__ x, V* y)
{
    const I row = blockDim.x * blockIdx.x + threadIdx.x;
    if (row < rows) {
        V dot = 0;
        for (I jj = ptr[row]; jj < ptr[row + 1]; jj++) dot += val[jj] * __ldg(&x[col[jj]]);
        y[row] += dot;
    }
}

// one (sub-)warp per row
template <unsigned int THREADS_PER_VECTOR, typename V, typename I>
__global__ void spmv_vector(I rows, const I* __restrict__ ptr, const I* __restrict__ col, const V* __restrict__ val, const V* __restrict__ x, V* y)
{
    const I thread_id = blockDim.x * blockIdx.x + threadIdx.x;
    const I lane = threadIdx.x & (THREADS_PER_VECTOR - 1);
    const I num_vectors = blockDim.x / THREADS_PER_VECTOR * gridDim.x;
    for (I row = thread_id / THREADS_PER_VECTOR; row < rows; row += num_vectors) {
        V sum = 0;
        for (I jj = ptr[row] + lane; jj < ptr[row + 1]; jj += THREADS_PER_VECTOR) sum += val[jj] * x[col[jj]];
        const unsigned mask = THREADS_PER_VECTOR == 32 ? 0xffffffffu
            : ((1u << (THREADS_PER_VECTOR & 31)) - 1) << (threadIdx.x % 32 / THREADS_PER_VECTOR * THREADS_PER_VECTOR);
        for (int d = THREADS_PER_VECTOR / 2; d > 0; d /= 2) sum += __shfl_xor_sync(mask, sum, d, THREADS_PER_VECTOR);
        if (lane == 0) y[row] += sum;
    }
}

template <typename V>
int run()
{
    CsrMatrix<V> A{200, 150, {0}, {}, {}};
    unsigned s = 9;
    for (int r = 0; r < A.rows; r++) {
        int len = r % 17;
        for (int k = 0; k < len; k++) {
            s = s * 22695477u + 1;
            A.col_ind.push_back((s >> 8) % A.cols);
            A.values.push_back(V((s >> 16) % 9) - V(4));
        }
        A.row_ptr.push_back(A.col_ind.size());
    }
    std::vector<V> x(A.cols), y(A.rows);
    for (int i = 0; i < A.cols; i++) x[i] = V(i % 5);
    int *ptr, *col; V *val, *dx, *dy;
    cudaMalloc(&ptr, A.row_ptr.size() * sizeof(int));
    cudaMalloc(&col, A.col_ind.size() * sizeof(int));
    cudaMalloc(&val, A.values.size() * sizeof(V));
    cudaMalloc(&dx, x.size() * sizeof(V));
    cudaMalloc(&dy, y.size() * sizeof(V));
    cudaMemcpy(ptr, A.row_ptr.data(), A.row_ptr.size() * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(col, A.col_ind.data(), A.col_ind.size() * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(val, A.values.data(), A.values.size() * sizeof(V), cudaMemcpyHostToDevice);
    cudaMemcpy(dx, x.data(), x.size() * sizeof(V), cudaMemcpyHostToDevice);
    cudaMemset(dy, 0, y.size() * sizeof(V));
    spmv_scalar<<<(A.rows + 63) / 64, 64>>>(A.rows, ptr, col, val, dx, dy);
    spmv_vector<8><<<4, 64>>>(A.rows, ptr, col, val, dx, dy);
    spmv_vector<32, V, int><<<4, 64>>>(A.rows, ptr, col, val, dx, dy);
    cudaMemcpy(y.data(), dy, y.size() * sizeof(V), cudaMemcpyDeviceToHost);
    int bad = 0;
    for (int r = 0; r < A.rows; r++) {
        V sum = 0;
        for (int j = A.row_ptr[r]; j < A.row_ptr[r + 1]; j++) sum += A.values[j] * x[A.col_ind[j]];
        bad += y[r] != 3 * sum;
    }
    cudaFree(ptr); cudaFree(col); cudaFree(val); cudaFree(dx); cudaFree(dy);
    return bad;
}

int main()
{
    int f = run<float>(), d = run<double>();
    printf("spmv: %d float and %d double rows differ\n", f, d);
    return f + d ? EXIT_FAILURE : EXIT_SUCCESS;
}
