// verdict: clean
// Functors of algorithms with atomic operations, in the way that histograms are often written with Thrust.
#include <thrust/detail/type_traits.h>
#include <thrust/device_vector.h>
#include <thrust/for_each.h>
#include <thrust/iterator/counting_iterator.h>
#include <cstdio>

struct Count {
  const int *values;
  int *bins;
  unsigned long long *first;
  __device__ void operator()(int i) const {
    atomicAdd(&bins[values[i] % 8], 1);
    atomicMax(&bins[8], values[i]);
    atomicCAS(first, 0ull, 5ull);
  }
};

int main() {
  const int n = 1000;
  thrust::device_vector<int> values(n), bins(9, 0);
  thrust::device_vector<unsigned long long> first(1, 0ull);
  for (int i = 0; i < n; ++i) values[i] = i * i % 640;
  thrust::for_each(thrust::counting_iterator<int>(0), thrust::counting_iterator<int>(n),
                   Count{thrust::raw_pointer_cast(values.data()), thrust::raw_pointer_cast(bins.data()),
                         thrust::raw_pointer_cast(first.data())});
  int sum = 0, most = 0, wrong = first[0] != 5;
  for (int b = 0; b < 8; ++b) sum += bins[b];
  for (int i = 0; i < n; ++i) most = std::max(most, i * i % 640);
  wrong += sum != n || bins[8] != most;
  printf("thrust_atomics: %d in all, largest %d\n", sum, most);
  return wrong;
}
