// verdict: clean
// CUB for the device, for blocks and for warps.
#include <algorithm>
#include <cstdio>
#include <cub/cub.cuh>
#include <numeric>
#include <vector>
template <class T>
T* up(const std::vector<T>& v) {
  T* p;
  cudaMalloc(&p, v.size() * sizeof(T));
  cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice);
  return p;
}
template <class T>
std::vector<T> down(const T* p, size_t n) {
  std::vector<T> v(n);
  cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost);
  return v;
}
struct Big {
  int least;
  __host__ __device__ bool operator()(int x) const { return x > least; }
};
struct Square {
  __host__ __device__ int operator()(int x) const { return x * x; }
};
struct CustomMin {
  template <typename T>
  __device__ __forceinline__ T operator()(const T& a, const T& b) const {
    return (b < a) ? b : a;
  }
};
template <int B, int I>
__global__ void block(const int* in, int* out, int* total) {
  typedef cub::BlockLoad<int, B, I, cub::BLOCK_LOAD_TRANSPOSE> Load;
  typedef cub::BlockScan<int, B> Scan;
  typedef cub::BlockStore<int, B, I, cub::BLOCK_STORE_TRANSPOSE> Store;
  typedef cub::BlockRadixSort<int, B, I> Sort;
  typedef cub::BlockReduce<int, B> Reduce;
  __shared__ union {
    typename Load::TempStorage load;
    typename Scan::TempStorage scan;
    typename Store::TempStorage store;
    typename Sort::TempStorage sort;
    typename Reduce::TempStorage reduce;
  } temp;
  int items[I];
  Load(temp.load).Load(in, items);
  __syncthreads();
  Sort(temp.sort).Sort(items);
  __syncthreads();
  int aggregate;
  Scan(temp.scan).ExclusiveSum(items, items, aggregate);
  __syncthreads();
  int r = Reduce(temp.reduce).Reduce(int(threadIdx.x), cub::Max());
  if (threadIdx.x == 0) {
    total[0] = aggregate;
    total[1] = r;
  }
  __syncthreads();
  Store(temp.store).Store(out, items);
}
__global__ void warps(const float* in, float* out) {
  typedef cub::WarpReduce<float> W;
  __shared__ W::TempStorage temp[4];
  float s = W(temp[threadIdx.x / 32]).Sum(in[threadIdx.x]);
  if (threadIdx.x % 32 == 0) out[threadIdx.x / 32] = s;
  typedef cub::WarpScan<float> S;
  __shared__ S::TempStorage t2[4];
  float x;
  S(t2[threadIdx.x / 32]).InclusiveSum(1.0f, x);
  if (threadIdx.x == 127) out[4] = x;
}
int bad = 0;
void ok(const char* what, bool b) {
  if (!b) {
    printf("%s wrong\n", what);
    ++bad;
  }
}
template <class F>
void twice(F f) {
  void* t = nullptr;
  size_t n = 0;
  f(t, n);
  cudaMalloc(&t, n);
  ok("status", f(t, n) == cudaSuccess);
  cudaFree(t);
}
int main() {
  const int n = 1000;
  std::vector<int> h(n);
  for (int i = 0; i < n; ++i) h[i] = (i * 7919) % 1009 - 300;
  int *in = up(h), *out, *num;
  cudaMalloc(&out, n * 4);
  cudaMalloc(&num, 8);
  twice([&](void* t, size_t& b) { return cub::DeviceReduce::Sum(t, b, in, num, n); });
  ok("sum", down(num, 1)[0] == std::accumulate(h.begin(), h.end(), 0));
  twice([&](void* t, size_t& b) { return cub::DeviceReduce::Max(t, b, in, num, n); });
  ok("max", down(num, 1)[0] == *std::max_element(h.begin(), h.end()));
  twice([&](void* t, size_t& b) { return cub::DeviceReduce::Reduce(t, b, in, num, n, CustomMin(), 10000); });
  ok("min", down(num, 1)[0] == *std::min_element(h.begin(), h.end()));
  cub::KeyValuePair<int, int>* kv;
  cudaMalloc(&kv, sizeof *kv);
  twice([&](void* t, size_t& b) { return cub::DeviceReduce::ArgMax(t, b, in, kv, n); });
  ok("argmax", down(kv, 1)[0].key == std::max_element(h.begin(), h.end()) - h.begin());
  twice([&](void* t, size_t& b) { return cub::DeviceScan::ExclusiveSum(t, b, in, out, n); });
  {
    auto r = down(out, n);
    int s = 0;
    bool same = true;
    for (int i = 0; i < n; ++i) {
      same &= r[i] == s;
      s += h[i];
    }
    ok("scan", same);
  }
  twice([&](void* t, size_t& b) { return cub::DeviceRadixSort::SortKeys(t, b, in, out, n); });
  {
    auto s = h;
    std::sort(s.begin(), s.end());
    ok("sort", down(out, n) == s);
  }
  {
    std::vector<float> k(n);
    std::vector<int> v(n);
    for (int i = 0; i < n; ++i) {
      k[i] = h[i] * 0.5f;
      v[i] = i;
    }
    float *dk = up(k), *dk2;
    int *dv = up(v), *dv2;
    cudaMalloc(&dk2, n * 4);
    cudaMalloc(&dv2, n * 4);
    cub::DoubleBuffer<float> bk(dk, dk2);
    cub::DoubleBuffer<int> bv(dv, dv2);
    twice([&](void* t, size_t& b) { return cub::DeviceRadixSort::SortPairsDescending(t, b, bk, bv, n); });
    auto rk = down(bk.Current(), n);
    auto rv = down(bv.Current(), n);
    bool same = std::is_sorted(rk.rbegin(), rk.rend());
    for (int i = 0; i < n; ++i) same &= k[rv[i]] == rk[i];
    ok("pairs", same);
  }
  twice([&](void* t, size_t& b) { return cub::DeviceSelect::If(t, b, in, out, num, n, Big{100}); });
  {
    auto c = std::count_if(h.begin(), h.end(), Big{100});
    ok("select", down(num, 1)[0] == c && Big{100}(down(out, c)[c - 1]));
  }
  cub::CountingInputIterator<int> count(0);
  cub::TransformInputIterator<int, Square, cub::CountingInputIterator<int>> sq(count, Square());
  twice([&](void* t, size_t& b) { return cub::DeviceReduce::Sum(t, b, sq, num, 10); });
  ok("iterators", down(num, 1)[0] == 285);
  {
    std::vector<int> off = {0, 10, 10, 500, n};
    int* o = up(off);
    twice([&](void* t, size_t& b) { return cub::DeviceSegmentedReduce::Sum(t, b, in, out, 4, o, o + 1); });
    auto r = down(out, 4);
    ok("segments", r[0] == std::accumulate(h.begin(), h.begin() + 10, 0) && r[1] == 0 &&
                       r[3] == std::accumulate(h.begin() + 500, h.end(), 0));
  }
  {
    std::vector<int> runs = {1, 1, 1, 2, 3, 3};
    int *d = up(runs), *u, *l;
    cudaMalloc(&u, 24);
    cudaMalloc(&l, 24);
    twice([&](void* t, size_t& b) { return cub::DeviceRunLengthEncode::Encode(t, b, d, u, l, num, 6); });
    ok("runs", down(num, 1)[0] == 3 && down(l, 3) == std::vector<int>({3, 1, 2}));
  }
  {
    int* hist;
    cudaMalloc(&hist, 16);
    std::vector<float> s = {0.1f, 0.3f, 0.35f, 0.9f, 1.5f};
    float* ds = up(s);
    twice([&](void* t, size_t& b) {
      return cub::DeviceHistogram::HistogramEven(t, b, ds, hist, 5, 0.0f, 1.0f, 5);
    });
    ok("histogram", down(hist, 4) == std::vector<int>({1, 2, 0, 1}));
  }
  {
    std::vector<int> b(512, 0);
    for (int i = 0; i < 512; ++i) b[i] = (i * 37) % 512 - 20;
    int *d = up(b), *total;
    cudaMalloc(&total, 8);
    block<128, 4><<<1, 128>>>(d, out, total);
    auto s = b;
    std::sort(s.begin(), s.end());
    auto r = down(out, 512);
    int sum = 0;
    bool same = true;
    for (int i = 0; i < 512; ++i) {
      same &= r[i] == sum;
      sum += s[i];
    }
    ok("block", same && down(total, 2)[0] == sum && down(total, 2)[1] == 127);
  }
  {
    std::vector<float> f(128, 0.5f);
    float *d = up(f), *o;
    cudaMalloc(&o, 20);
    warps<<<1, 128>>>(d, o);
    ok("warps", down(o, 5) == std::vector<float>({16, 16, 16, 16, 32}));
  }
  printf(bad ? "FAILED\n" : "PASSED\n");
  return bad;
}
