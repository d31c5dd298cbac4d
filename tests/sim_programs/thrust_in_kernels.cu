// verdict: clean
// Thrust's pointers in a kernel; a random order; the least and the largest record.
#include <thrust/device_ptr.h>
#include <thrust/device_vector.h>
#include <thrust/extrema.h>
#include <thrust/host_vector.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/permutation_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/random.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>
#include <thrust/shuffle.h>
#include <thrust/sort.h>
#include <cstdio>
#include <vector>

struct Record { int id; float weight; };
struct Lighter {
  __host__ __device__ bool operator()(const Record& a, const Record& b) const { return a.weight < b.weight; }
};

// rank[order[i]] = i, through pointers that the host could dereference as well
__global__ void invert(thrust::device_ptr<const int> order, thrust::device_ptr<int> rank, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int to = order[i];
  rank[to] = i;
  *(rank + to) += n;
}

// Every `step`-th element of a range, from three iterators.
template <class It>
struct Strided {
  using Distance = typename thrust::iterator_difference<It>::type;
  using Value = typename thrust::iterator_value<It>::type;
  struct Times {
    Distance step;
    __host__ __device__ Distance operator()(Distance i) const { return i * step; }
  };
  using Indices = thrust::transform_iterator<Times, thrust::counting_iterator<Distance>>;
  using Iterator = thrust::permutation_iterator<It, Indices>;

  Strided(It from, Distance n, Distance step) : from(from), n(n), step(step) {}
  Iterator begin() const { return Iterator(from, Indices(thrust::counting_iterator<Distance>(0), Times{step})); }
  Iterator end() const { return begin() + (n + step - 1) / step; }
  Value sum() const { return thrust::reduce(begin(), end(), Value(0)); }
  It from;
  Distance n, step;
};

__global__ void fill(Record* records, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) records[i] = {i, float((i * 37) % n)};
}

int main() {
  const int n = 1000;
  bool ok = true;

  thrust::host_vector<int> shuffled(n);
  thrust::sequence(shuffled.begin(), shuffled.end());
  thrust::default_random_engine rng(7);
  thrust::shuffle(shuffled.begin(), shuffled.end(), rng);
  int moved = 0;
  for (int i = 0; i < n; i++) moved += shuffled[i] != i;
  ok &= moved > n / 2;

  thrust::device_vector<int> order = shuffled, rank(n), again(n);
  invert<<<(n + 255) / 256, 256>>>(order.data(), rank.data(), n);
  cudaDeviceSynchronize();
  for (int i = 0; i < n; i += 99) ok &= rank[shuffled[i]] == n + i;

  thrust::shuffle_copy(order.begin(), order.end(), again.begin(), thrust::default_random_engine(8));
  thrust::sort(again.begin(), again.end());
  for (int i = 0; i < n; i += 99) ok &= again[i] == i;

  using It = thrust::device_vector<int>::iterator;
  int thirds = 0;
  for (int i = 0; i < n; i += 3) thirds += i;
  ok &= Strided<It>(again.begin(), n, 3).sum() == thirds;

  thrust::device_vector<Record> records(n);
  fill<<<(n + 255) / 256, 256>>>(thrust::raw_pointer_cast(records.data()), n);
  auto both = thrust::minmax_element(thrust::device, records.begin(), records.end(), Lighter());
  Record least = *both.first, largest = *both.second;
  ok &= least.weight == 0 && largest.weight == n - 1;

  printf("%s\n", ok ? "right" : "wrong");
  return ok ? 0 : 1;
}
