// verdict: race at line 33 or 34 or 35
/* work-efficient scan: up-sweep and down-sweep */
#include <stdio.h>
#include <stdlib.h>
#include <assert.h>

#define N 256
#define THREADS N / 2
#define FLOATS N

__global__ void scan(float *g_odata, const float *g_idata, int n)
{
	extern __shared__ float temp[];
	int thid = threadIdx.x;
	int offset = 1;
	temp[2 * thid] = g_idata[2 * thid];
	temp[2 * thid + 1] = g_idata[2 * thid + 1];
	for (int d = n >> 1; d > 0; d >>= 1) {
		__syncthreads();
		if (thid < d) {
			int ai = offset * (2 * thid + 1) - 1;
			int bi = offset * (2 * thid + 2) - 1;
			temp[bi] += temp[ai];
		}
		offset *= 2;
	}
	if (thid == 0) temp[n - 1] = 0;
	for (int d = 1; d < n; d *= 2) {
		offset >>= 1;
		if (thid < d) {
			int ai = offset * (2 * thid + 1) - 1;
			int bi = offset * (2 * thid + 2) - 1;
			float t = temp[ai];
			temp[ai] = temp[bi];
			temp[bi] += t;
		}
	}
	__syncthreads();
	g_odata[2 * thid] = temp[2 * thid];
	g_odata[2 * thid + 1] = temp[2 * thid + 1];
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
