// verdict: clean
// Lattice Boltzmann D2Q9, pull scheme; macros for everything, lattice tables in constant memory.
#include <stdio.h>
#include <stdlib.h>
#include <math.h>

#define NX 32
#define NY 16
#define Q 9
#define F(f, q, i) ((f)[(q) * NX * NY + (i)])
#define FOR_Q for (int q = 0; q < Q; q++)

typedef float data_t;
__constant__ int cx[Q] = {0, 1, 0, -1, 0, 1, -1, -1, 1};
__constant__ int cy[Q] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
__constant__ data_t wq[Q] = {4.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 9, 1.f / 36, 1.f / 36, 1.f / 36, 1.f / 36};
__device__ const int opposite[Q] = {0, 3, 4, 1, 2, 7, 8, 5, 6};

__global__ void init(data_t *f, unsigned char *solid)
{
	int i = threadIdx.x + blockIdx.x * blockDim.x, x = i % NX, y = i / NX;
	data_t rho = 1.0f + 0.1f * (x == NX / 4 && y == NY / 2);
	FOR_Q F(f, q, i) = wq[q] * rho;
	solid[i] = y == 0 || y == NY - 1;
}

__global__ void __launch_bounds__(64) collide_and_stream(const data_t * __restrict__ in, data_t * __restrict__ out, const unsigned char *solid, data_t omega)
{
	const int i = threadIdx.x + blockIdx.x * blockDim.x, x = i % NX, y = i / NX;
	if (solid[i]) { FOR_Q F(out, q, i) = F(in, q, i); return; }
	data_t f[Q], rho = 0, ux = 0, uy = 0;
	#pragma unroll
	FOR_Q {
		int sx = (x - cx[q] + NX) % NX, sy = y - cy[q], s = sy * NX + sx;
		f[q] = solid[s] ? F(in, opposite[q], i) : F(in, q, s);
		rho += f[q];
		ux += cx[q] * f[q];
		uy += cy[q] * f[q];
	}
	ux /= rho;
	uy /= rho;
	data_t u2 = 1.5f * (ux * ux + uy * uy);
	#pragma unroll
	FOR_Q {
		data_t cu = 3.0f * (cx[q] * ux + cy[q] * uy);
		data_t eq = wq[q] * rho * (1.0f + cu + 0.5f * cu * cu - u2);
		F(out, q, i) = f[q] + omega * (eq - f[q]);
	}
}

int main(void)
{
	const size_t bytes = Q * NX * NY * sizeof(data_t);
	data_t *f[2], *h = (data_t *)malloc(bytes);
	unsigned char *solid;
	cudaMalloc((void **)&f[0], bytes);
	cudaMalloc((void **)&f[1], bytes);
	cudaMalloc((void **)&solid, NX * NY);
	init<<<NX * NY / 64, 64>>>(f[0], solid);
	int t;
	for (t = 0; t < 8; t++) collide_and_stream<<<NX * NY / 64, 64>>>(f[t & 1], f[!(t & 1)], solid, 1.2f);
	cudaMemcpy(h, f[t & 1], bytes, cudaMemcpyDeviceToHost);
	double mass = 0;
	for (int y = 1; y < NY - 1; y++) for (int x = 0; x < NX; x++) FOR_Q mass += F(h, q, y * NX + x);
	double want = (NY - 2) * NX + 0.1;
	printf("mass is %s\n", fabs(mass - want) < 1e-2 ? "conserved" : "NOT conserved");
	cudaFree(f[0]); cudaFree(f[1]); cudaFree(solid);
	free(h);
	return fabs(mass - want) >= 1e-2;
}
