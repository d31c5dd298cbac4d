// verdict: invalid at line 22 or 24
/* Hillis-Steele scan with two buffers */
#include <stdio.h>
#include <stdlib.h>
#include <assert.h>

#define N 256
#define THREADS N
#define FLOATS N

__global__ void scan(float *g_odata, const float *g_idata, int n)
{
	extern __shared__ float temp[];
	int thid = threadIdx.x;
	int pout = 0, pin = 1;
	temp[pout * n + thid] = (thid > 0) ? g_idata[thid - 1] : 0;
	__syncthreads();
	for (int offset = 1; offset < n; offset *= 2) {
		pout = 1 - pout;
		pin = 1 - pout;
		if (thid >= offset)
			temp[pout * n + thid] = temp[pin * n + thid] + temp[pin * n + thid - offset];
		else
			temp[pout * n + thid] = temp[pin * n + thid];
		__syncthreads();
	}
	g_odata[thid] = temp[pout * n + thid];
}

int main(int argc, char **argv)
{
	float h_in[N], h_out[N], *d_in, *d_out;
	int i, errors = 0;
	for (i = 0; i < N; i++) h_in[i] = (float)(i % 7 - 2);
	assert(cudaMalloc((void **)&d_in, sizeof(h_in)) == cudaSuccess);
	assert(cudaMalloc((void **)&d_out, sizeof(h_out)) == cudaSuccess);
	cudaMemcpy(d_in, h_in, sizeof(h_in), cudaMemcpyHostToDevice);
	scan<<<1, THREADS, FLOATS * sizeof(float)>>>(d_out, d_in, N);
	cudaMemcpy(h_out, d_out, sizeof(h_out), cudaMemcpyDeviceToHost);
	float sum = 0;
	for (i = 0; i < N; i++) {
		if (h_out[i] != sum) errors++;
		sum += h_in[i];
	}
	printf("exclusive scan: %d errors\n", errors);
	cudaFree(d_in);
	cudaFree(d_out);
	return errors ? 1 : 0;
}
