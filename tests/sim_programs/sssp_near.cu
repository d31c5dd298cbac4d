// verdict: clean
// Single-source shortest paths: Bellman-Ford on a worklist of vertices. Distances are only touched by atomics.
#include <cstdio>
#include <climits>
#include <queue>
#include <vector>
#include <functional>

typedef unsigned int uint32;
#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line, bool abort = true)
{
   if (code != cudaSuccess)
   {
      fprintf(stderr, "GPUassert: %s %s %d\n", cudaGetErrorString(code), file, line);
      if (abort) exit(code);
   }
}

static const uint32 INF = UINT_MAX / 2;

__device__ __forceinline__ uint32 load(uint32 *p) { return atomicOr(p, 0u); }

__global__ void relax(const int *row, const int *col, const uint32 *weight, uint32 *dist, int *queued, const int *in, int n_in, int *out, int *n_out)
{
   for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n_in; i += gridDim.x * blockDim.x)
   {
      const int u = in[i];
      const uint32 du = load(&dist[u]);
      for (int e = row[u]; e < row[u + 1]; ++e)
      {
         const int v = col[e];
         const uint32 alt = du + weight[e];
         if (alt < atomicMin(&dist[v], alt) && atomicExch(&queued[v], 1) == 0)
            out[atomicAdd(n_out, 1)] = v;
      }
   }
}

__global__ void clear_flags(int *queued, const int *items, int n)
{
   int i = blockIdx.x * blockDim.x + threadIdx.x;
   if (i < n) queued[items[i]] = 0;
}

int main()
{
   const int n = 400, deg = 4;
   std::vector<int> row(n + 1), col;
   std::vector<uint32> w, dist(n, INF);
   unsigned s = 1;
   for (int v = 0; v < n; ++v)
   {
      for (int d = 0; d < deg; ++d) { s = s * 1103515245u + 12345u; col.push_back((s >> 16) % n); w.push_back(1 + (s >> 9) % 20); }
      row[v + 1] = col.size();
   }
   dist[0] = 0;
   int *d_row, *d_col, *d_queued, *d_list[2], *d_count;
   uint32 *d_w, *d_dist;
   gpuErrchk(cudaMalloc((void **)&d_row, row.size() * 4));
   gpuErrchk(cudaMalloc((void **)&d_col, col.size() * 4));
   gpuErrchk(cudaMalloc((void **)&d_w, w.size() * 4));
   gpuErrchk(cudaMalloc((void **)&d_dist, n * 4));
   gpuErrchk(cudaMalloc((void **)&d_queued, n * 4));
   for (int i = 0; i < 2; ++i) gpuErrchk(cudaMalloc((void **)&d_list[i], n * 4));
   gpuErrchk(cudaMalloc((void **)&d_count, 4));
   gpuErrchk(cudaMemcpy(d_row, row.data(), row.size() * 4, cudaMemcpyHostToDevice));
   gpuErrchk(cudaMemcpy(d_col, col.data(), col.size() * 4, cudaMemcpyHostToDevice));
   gpuErrchk(cudaMemcpy(d_w, w.data(), w.size() * 4, cudaMemcpyHostToDevice));
   gpuErrchk(cudaMemcpy(d_dist, dist.data(), n * 4, cudaMemcpyHostToDevice));
   gpuErrchk(cudaMemset(d_queued, 0, n * 4));
   gpuErrchk(cudaMemset(d_list[0], 0, 4));
   int count = 1, turn = 0, rounds = 0;
   while (count)
   {
      gpuErrchk(cudaMemset(d_count, 0, 4));
      relax<<<4, 64>>>(d_row, d_col, d_w, d_dist, d_queued, d_list[turn], count, d_list[1 - turn], d_count);
      gpuErrchk(cudaPeekAtLastError());
      gpuErrchk(cudaMemcpy(&count, d_count, 4, cudaMemcpyDeviceToHost));
      turn = 1 - turn;
      if (count) clear_flags<<<(count + 127) / 128, 128>>>(d_queued, d_list[turn], count);
      ++rounds;
   }
   std::vector<uint32> got(n), want(n, INF);
   gpuErrchk(cudaMemcpy(got.data(), d_dist, n * 4, cudaMemcpyDeviceToHost));
   typedef std::pair<uint32, int> item;
   std::priority_queue<item, std::vector<item>, std::greater<item>> q;
   want[0] = 0;
   q.push(item(0, 0));
   while (!q.empty())
   {
      auto [d, u] = q.top();
      q.pop();
      if (d > want[u]) continue;
      for (int e = row[u]; e < row[u + 1]; ++e)
         if (d + w[e] < want[col[e]]) { want[col[e]] = d + w[e]; q.push(item(d + w[e], col[e])); }
   }
   printf("sssp %s\n", got == want ? "matches Dijkstra" : "DIFFERS from Dijkstra");
   for (void *p : {(void *)d_row, (void *)d_col, (void *)d_w, (void *)d_dist, (void *)d_queued, (void *)d_list[0], (void *)d_list[1], (void *)d_count}) gpuErrchk(cudaFree(p));
   return got != want;
}
