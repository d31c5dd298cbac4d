// verdict: clean
// flags: --extended-lambda
// Thrust: vectors, algorithms, iterators, functors, placeholders.
#include <thrust/copy.h>
#include <thrust/count.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/extrema.h>
#include <thrust/fill.h>
#include <thrust/functional.h>
#include <thrust/generate.h>
#include <thrust/host_vector.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/random.h>
#include <thrust/reduce.h>
#include <thrust/remove.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <thrust/unique.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <list>
#include <numeric>
struct saxpy_functor {
  const float a;
  saxpy_functor(float _a) : a(_a) {}
  __host__ __device__ float operator()(const float& x, const float& y) const { return a * x + y; }
};
struct is_even {
  __host__ __device__ bool operator()(const int x) const { return (x % 2) == 0; }
};
template <typename T>
struct square {
  __host__ __device__ T operator()(const T& x) const { return x * x; }
};
struct length2 {
  __host__ __device__ float operator()(const thrust::tuple<float, float>& t) const {
    return thrust::get<0>(t) * thrust::get<0>(t) + thrust::get<1>(t) * thrust::get<1>(t);
  }
};
struct prg {
  float a, b;
  __host__ __device__ prg(float _a = 0.f, float _b = 1.f) : a(_a), b(_b){};
  __host__ __device__ float operator()(const unsigned int n) const {
    thrust::default_random_engine rng;
    thrust::uniform_real_distribution<float> dist(a, b);
    rng.discard(n);
    return dist(rng);
  }
};
struct arbitrary {
  template <typename Tuple>
  __host__ __device__ void operator()(Tuple t) {
    thrust::get<2>(t) = thrust::get<0>(t) + thrust::get<1>(t);
  }
};
__global__ void twice(int* p, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] *= 2;
}
int bad = 0;
void ok(const char* w, bool b) {
  if (!b) {
    printf("%s wrong\n", w);
    ++bad;
  }
}
int main() {
  thrust::host_vector<int> h(1000);
  std::generate(h.begin(), h.end(), rand);
  for (auto& x : h) x %= 1000;
  thrust::device_vector<int> d = h;
  thrust::sort(d.begin(), d.end());
  thrust::host_vector<int> s = d;
  ok("sort", std::is_sorted(s.begin(), s.end()));
  ok("reduce",
     thrust::reduce(d.begin(), d.end(), 0, thrust::plus<int>()) == std::accumulate(h.begin(), h.end(), 0));
  ok("reduce2", thrust::reduce(thrust::device, d.begin(), d.end()) == std::accumulate(h.begin(), h.end(), 0));
  ok("count",
     thrust::count_if(d.begin(), d.end(), is_even()) == std::count_if(h.begin(), h.end(), is_even()));
  thrust::device_vector<float> X(10), Y(10, 1.0f);
  thrust::sequence(X.begin(), X.end());
  thrust::transform(X.begin(), X.end(), Y.begin(), Y.begin(), saxpy_functor(2));
  ok("saxpy", Y[3] == 7.0f);
  float norm =
      std::sqrt(thrust::transform_reduce(X.begin(), X.end(), square<float>(), 0.0f, thrust::plus<float>()));
  ok("norm", std::fabs(norm - std::sqrt(285.f)) < 1e-4);
  thrust::device_vector<int>::iterator it = thrust::max_element(d.begin(), d.end());
  ok("max", *it == s[999] && it - d.begin() <= 999);
  thrust::device_vector<int> keys = {3, 1, 2}, vals = {30, 10, 20};
  thrust::sort_by_key(keys.begin(), keys.end(), vals.begin(), thrust::greater<int>());
  ok("by key", vals[0] == 30 && vals[1] == 20 && vals[2] == 10);
  thrust::device_vector<int> sc(3);
  thrust::exclusive_scan(vals.begin(), vals.end(), sc.begin());
  ok("scan", sc[0] == 0 && sc[2] == 50);
  thrust::inclusive_scan(thrust::device, vals.begin(), vals.end(), sc.begin());
  ok("iscan", sc[2] == 60);
  int* raw = thrust::raw_pointer_cast(vals.data());
  twice<<<1, 32>>>(raw, 3);
  ok("kernel", vals[1] == 40);
  thrust::device_ptr<int> p = thrust::device_pointer_cast(raw);
  thrust::fill(p, p + 3, 7);
  ok("ptr", thrust::reduce(p, p + 3) == 21);
  p[0] = 9;
  ok("ref", vals[0] == 9);
  auto first = thrust::make_zip_iterator(thrust::make_tuple(X.begin(), Y.begin()));
  float m = thrust::transform_reduce(first, first + 3, length2(), 0.0f, thrust::maximum<float>());
  ok("zip", m == 4 + 25);
  thrust::device_vector<float> Z(10);
  thrust::for_each(thrust::make_zip_iterator(thrust::make_tuple(X.begin(), Y.begin(), Z.begin())),
                   thrust::make_zip_iterator(thrust::make_tuple(X.end(), Y.end(), Z.end())), arbitrary());
  ok("for_each", Z[2] == 2 + 5);
  ok("counting", thrust::reduce(thrust::counting_iterator<int>(1), thrust::counting_iterator<int>(11)) == 55);
  ok("transform it", thrust::reduce(thrust::make_transform_iterator(vals.begin(), square<int>()),
                                    thrust::make_transform_iterator(vals.end(), square<int>())) == 81 + 98);
  ok("dot", thrust::inner_product(X.begin(), X.end(), X.begin(), 0.0f) == 285);
  thrust::device_vector<float> numbers(1000);
  thrust::counting_iterator<unsigned int> idx(0);
  thrust::transform(idx, idx + 1000, numbers.begin(), prg(1.f, 2.f));
  float mean = thrust::reduce(numbers.begin(), numbers.end()) / 1000;
  ok("random", mean > 1.4f && mean < 1.6f);
  thrust::device_vector<int> u = {1, 1, 2, 2, 2, 3};
  auto e = thrust::unique(u.begin(), u.end());
  ok("unique", e - u.begin() == 3);
  u.erase(e, u.end());
  ok("erase", u.size() == 3);
  auto e2 = thrust::remove_if(u.begin(), u.end(), is_even());
  ok("remove", e2 - u.begin() == 2);
  thrust::device_vector<int> kk(3), vv(3);
  thrust::device_vector<int> k1 = {1, 1, 2}, v1 = {5, 6, 7};
  auto ends = thrust::reduce_by_key(k1.begin(), k1.end(), v1.begin(), kk.begin(), vv.begin());
  ok("reduce_by_key", ends.first - kk.begin() == 2 && vv[0] == 11);
  using namespace thrust::placeholders;
  thrust::transform(X.begin(), X.end(), Y.begin(), Y.begin(), 2.0f * _1 + _2);
  ok("placeholders", Y[1] == 2 + 3);
  cudaStream_t st;
  cudaStreamCreate(&st);
  thrust::fill(thrust::cuda::par.on(st), X.begin(), X.end(), 3.0f);
  cudaStreamSynchronize(st);
  ok("stream", X[9] == 3);
  auto lam = [=] __device__(int x) { return x + 1; };
  thrust::transform(v1.begin(), v1.end(), v1.begin(), lam);
  ok("lambda", v1[0] == 6);
  thrust::copy(v1.begin(), v1.end(), std::ostream_iterator<int>(std::cout, " "));
  std::cout << "\n";
  thrust::copy(d.begin(), d.end(), h.begin());
  ok("copy", h[0] == s[0]);
  ok("min", *thrust::min_element(thrust::host, h.begin(), h.end()) == s[0]);
  std::cout << "D[0] = " << d[0] << std::endl;
  std::list<int> li = {1, 2, 3};
  thrust::device_vector<int> fl(li.begin(), li.end());
  ok("list", fl[2] == 3);
  std::vector<int> stl(3);
  thrust::copy(fl.begin(), fl.end(), stl.begin());
  ok("stl", stl[1] == 2);
  printf(bad ? "FAILED\n" : "PASSED\n");
  return bad;
}
