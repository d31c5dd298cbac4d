// verdict: clean
// The inner kernel of an online clusterer: what is saved if point x becomes a centre?
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>

struct Point { float weight; long assign; float cost; };

__device__ float d_dist(int p1, int p2, int num, int dim, float *coord_d)
{
	float retval = 0.0;
	for (int i = 0; i < dim; i++) {
		float tmp = coord_d[(i * num) + p1] - coord_d[(i * num) + p2];
		retval += tmp * tmp;
	}
	return retval;
}

__global__ void kernel_compute_cost(int num, int dim, long x, Point *p, int K, int stride, float *coord_d, float *work_mem_d, int *center_table_d, bool *switch_membership_d)
{
	const int bid = blockIdx.x + gridDim.x * blockIdx.y;
	const int tid = blockDim.x * bid + threadIdx.x;
	if (tid < num)
	{
		float *lower = &work_mem_d[tid * stride];
		float x_cost = d_dist(tid, x, num, dim, coord_d) * p[tid].weight;
		if (x_cost < p[tid].cost)
		{
			switch_membership_d[tid] = 1;
			lower[K] += x_cost - p[tid].cost;
		}
		else
		{
			lower[center_table_d[p[tid].assign]] += p[tid].cost - x_cost;
		}
	}
}

int main()
{
	const int num = 500, dim = 8, K = 3, stride = K + 1;
	std::vector<float> coord(num * dim);
	srand(3);
	for (float &c : coord) c = rand() / (float)RAND_MAX;
	auto dist = [&](int a, int b) { float s = 0; for (int i = 0; i < dim; i++) { float t = coord[i * num + a] - coord[i * num + b]; s += t * t; } return s; };
	std::vector<Point> p(num);
	std::vector<int> table(num, -1);
	for (int k = 0; k < K; k++) table[k * 100] = k;
	for (int i = 0; i < num; i++) {
		p[i] = {1.0f, 0, 1e30f};
		for (int k = 0; k < K; k++) if (dist(i, k * 100) < p[i].cost) { p[i].cost = dist(i, k * 100); p[i].assign = k * 100; }
	}
	Point *p_d; float *coord_d, *work_d; int *table_d; bool *switch_d;
	cudaMalloc(&p_d, num * sizeof(Point));
	cudaMalloc(&coord_d, num * dim * sizeof(float));
	cudaMalloc(&work_d, num * stride * sizeof(float));
	cudaMalloc(&table_d, num * sizeof(int));
	cudaMalloc(&switch_d, num * sizeof(bool));
	cudaMemcpy(p_d, p.data(), num * sizeof(Point), cudaMemcpyHostToDevice);
	cudaMemcpy(coord_d, coord.data(), num * dim * sizeof(float), cudaMemcpyHostToDevice);
	cudaMemcpy(table_d, table.data(), num * sizeof(int), cudaMemcpyHostToDevice);
	cudaMemset(work_d, 0, num * stride * sizeof(float));
	cudaMemset(switch_d, 0, num * sizeof(bool));
	const long x = 250;
	kernel_compute_cost<<<dim3(2, 1), 256>>>(num, dim, x, p_d, K, stride, coord_d, work_d, table_d, switch_d);
	cudaDeviceSynchronize();
	std::vector<float> work(num * stride);
	bool *sw = (bool *)malloc(num * sizeof(bool));
	cudaMemcpy(work.data(), work_d, num * stride * sizeof(float), cudaMemcpyDeviceToHost);
	cudaMemcpy(sw, switch_d, num * sizeof(bool), cudaMemcpyDeviceToHost);
	int bad = 0, switched = 0;
	for (int i = 0; i < num; i++) {
		float c = dist(i, x);
		if (std::fabs(c - p[i].cost) > 1e-5) bad += sw[i] != (c < p[i].cost);
		switched += sw[i];
		if (sw[i] && std::fabs(work[i * stride + K] - (c - p[i].cost)) > 1e-4) bad++;
	}
	printf("%d points would switch, %s\n", switched, bad ? "MISMATCH" : "as on the CPU");
	cudaFree(p_d); cudaFree(coord_d); cudaFree(work_d); cudaFree(table_d); cudaFree(switch_d);
	free(sw);
	return bad;
}
