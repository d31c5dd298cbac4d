// verdict: race at line 26 or 33
/* Maximal independent set after Luby: a vertex joins if its priority is the highest among its undecided neighbours.
 * In place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNDECIDED = 0, IN = 1, OUT = 2 };

__host__ __device__ static unsigned hash(unsigned x)
{
	x = ((x >> 16) ^ x) * 0x45d9f3bu;
	x = ((x >> 16) ^ x) * 0x45d9f3bu;
	return (x >> 16) ^ x;
}


__global__ void round(const int *nidx, const int *nlist, int *old, int *left, int n)
{
	int v = blockIdx.x * blockDim.x + threadIdx.x;
	if (v >= n) return;
	int state = old[v];
	if (state == UNDECIDED) {
		bool best = true, covered = false;
		for (int e = nidx[v]; e < nidx[v + 1]; e++) {
			int w = nlist[e], sw = old[w];
			if (sw == IN) covered = true;
			if (sw == UNDECIDED && (hash(w) > hash(v) || (hash(w) == hash(v) && w > v))) best = false;
		}
		state = covered ? OUT : best ? IN : UNDECIDED;
		if (state == UNDECIDED) atomicAdd(left, 1);
	}
	old[v] = state;
}

int main(void)
{
	const int n = 500, half = 3;
	int *nidx = (int *)malloc((n + 1) * sizeof(int)), *deg = (int *)calloc(n, sizeof(int));
	int *pairs = (int *)malloc(n * half * 2 * sizeof(int)), *nlist = (int *)malloc(n * half * 2 * sizeof(int));
	int m = 0;
	srand(23);
	for (int v = 0; v < n; v++)
		for (int k = 0; k < half; k++) {
			int w = rand() % n;
			if (w == v) continue;
			pairs[2 * m] = v; pairs[2 * m + 1] = w; m++;
			deg[v]++; deg[w]++;
		}
	nidx[0] = 0;
	for (int v = 0; v < n; v++) { nidx[v + 1] = nidx[v] + deg[v]; deg[v] = nidx[v]; }
	for (int k = 0; k < m; k++) {
		nlist[deg[pairs[2 * k]]++] = pairs[2 * k + 1];
		nlist[deg[pairs[2 * k + 1]]++] = pairs[2 * k];
	}
	int *d_nidx, *d_nlist, *d_left, *d_s[2], left = 1, rounds = 0;
	cudaMalloc(&d_nidx, (n + 1) * sizeof(int));
	cudaMalloc(&d_nlist, 2 * m * sizeof(int));
	cudaMalloc(&d_left, sizeof(int));
	cudaMalloc(&d_s[0], n * sizeof(int));
	cudaMalloc(&d_s[1], n * sizeof(int));
	cudaMemcpy(d_nidx, nidx, (n + 1) * sizeof(int), cudaMemcpyHostToDevice);
	cudaMemcpy(d_nlist, nlist, 2 * m * sizeof(int), cudaMemcpyHostToDevice);
	cudaMemset(d_s[0], 0, n * sizeof(int));
	while (left && rounds < 100) {
		cudaMemset(d_left, 0, sizeof(int));
		round<<<(n + 127) / 128, 128>>>(d_nidx, d_nlist, d_s[0], d_left, n);
		cudaMemcpy(&left, d_left, sizeof(int), cudaMemcpyDeviceToHost);
		rounds++;
	}
	int *s = (int *)malloc(n * sizeof(int)), bad = 0;
	cudaMemcpy(s, d_s[0], n * sizeof(int), cudaMemcpyDeviceToHost);
	for (int v = 0; v < n; v++) {
		int in = 0;
		for (int e = nidx[v]; e < nidx[v + 1]; e++) in += s[nlist[e]] == IN;
		if (s[v] == IN ? in > 0 : in == 0) bad++;
	}
	printf("independent set: %s\n", bad ? "INVALID" : "valid and maximal");
	cudaFree(d_nidx); cudaFree(d_nlist); cudaFree(d_left); cudaFree(d_s[0]); cudaFree(d_s[1]);
	free(nidx); free(deg); free(pairs); free(nlist); free(s);
	return bad != 0;
}
