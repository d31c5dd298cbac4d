// verdict: clean
// flags: -lcublas
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#define IDX2C(i, j, ld) (((j) * (ld)) + (i))
#define CUBLAS_CHECK(x) { cublasStatus_t s = (x); if (s != CUBLAS_STATUS_SUCCESS) { printf("[cuBLAS ERROR]: %d %s %d\n", s, __FILE__, __LINE__); exit(EXIT_FAILURE); } }

__global__ void add_bias(float *c, const float *bias, int m, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < m * n) c[i] += bias[i % m];
}

int main()
{
	const int m = 20, n = 13, k = 17;
	std::vector<float> a(m * k), b(k * n), bias(m), c(m * n), v(n), w(m);
	for (size_t i = 0; i < a.size(); i++) a[i] = (float)(i % 7) - 3;
	for (size_t i = 0; i < b.size(); i++) b[i] = (float)(i % 5) - 2;
	for (int i = 0; i < m; i++) bias[i] = i;
	for (int i = 0; i < n; i++) v[i] = i % 3;
	float *da, *db, *dc, *dbias, *dv, *dw;
	cudaMalloc((void **)&da, a.size() * 4); cudaMalloc((void **)&db, b.size() * 4); cudaMalloc((void **)&dc, c.size() * 4);
	cudaMalloc((void **)&dbias, m * 4); cudaMalloc((void **)&dv, n * 4); cudaMalloc((void **)&dw, m * 4);
	cublasHandle_t handle;
	CUBLAS_CHECK(cublasCreate(&handle));
	CUBLAS_CHECK(cublasSetMathMode(handle, CUBLAS_DEFAULT_MATH));
	CUBLAS_CHECK(cublasSetMatrix(m, k, sizeof(float), a.data(), m, da, m));
	CUBLAS_CHECK(cublasSetVector(k * n, sizeof(float), b.data(), 1, db, 1));
	cudaMemcpy(dbias, bias.data(), m * 4, cudaMemcpyHostToDevice);
	cudaMemcpy(dv, v.data(), n * 4, cudaMemcpyHostToDevice);
	const float one = 1.0f, zero = 0.0f, two = 2.0f;
	CUBLAS_CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, da, m, db, k, &zero, dc, m));
	add_bias<<<(m * n + 127) / 128, 128>>>(dc, dbias, m, n);
	CUBLAS_CHECK(cublasSgemv(handle, CUBLAS_OP_N, m, n, &one, dc, m, dv, 1, &zero, dw, 1));
	CUBLAS_CHECK(cublasSaxpy(handle, m, &two, dbias, 1, dw, 1));
	float dot, norm;
	int imax;
	CUBLAS_CHECK(cublasSdot(handle, m, dw, 1, dbias, 1, &dot));
	CUBLAS_CHECK(cublasSnrm2(handle, m, dw, 1, &norm));
	CUBLAS_CHECK(cublasIsamax(handle, m, dbias, 1, &imax));
	CUBLAS_CHECK(cublasGetVector(m, sizeof(float), dw, 1, w.data(), 1));
	double rdot = 0, rnorm = 0;
	int bad = 0;
	for (int i = 0; i < m; i++) {
		double s = 0;
		for (int j = 0; j < n; j++) {
			double e = bias[i];
			for (int l = 0; l < k; l++) e += a[IDX2C(i, l, m)] * b[IDX2C(l, j, k)];
			s += e * v[j];
		}
		s += 2 * bias[i];
		bad += std::fabs(s - w[i]) > 1e-2;
		rdot += s * bias[i];
		rnorm += s * s;
	}
	bad += std::fabs(rdot - dot) > 1e-3 * std::fabs(rdot);
	bad += std::fabs(std::sqrt(rnorm) - norm) > 1e-3 * norm;
	bad += imax != m;
	printf("cublas: %d differences\n", bad);
	cublasDestroy(handle);
	cudaFree(da); cudaFree(db); cudaFree(dc); cudaFree(dbias); cudaFree(dv); cudaFree(dw);
	return bad;
}
