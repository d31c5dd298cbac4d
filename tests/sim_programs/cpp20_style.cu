// verdict: clean
// flags: -std=c++20 --expt-relaxed-constexpr
#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

template <typename T>
concept Numeric = std::integral<T> || std::floating_point<T>;

template <Numeric T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t n) : n_{n} {
    void* p{};
    if (cudaMalloc(&p, n * sizeof(T)) != cudaSuccess) throw std::bad_alloc{};
    data_.reset(static_cast<T*>(p));
  }
  explicit DeviceBuffer(std::span<const T> host) : DeviceBuffer{host.size()} {
    cudaMemcpy(data_.get(), host.data(), host.size_bytes(), cudaMemcpyHostToDevice);
  }
  [[nodiscard]] auto to_host() const -> std::vector<T> {
    std::vector<T> v(n_);
    cudaMemcpy(v.data(), data_.get(), n_ * sizeof(T), cudaMemcpyDeviceToHost);
    return v;
  }
  [[nodiscard]] T* get() const noexcept { return data_.get(); }

 private:
  struct Free { void operator()(T* p) const noexcept { cudaFree(p); } };
  std::unique_ptr<T, Free> data_;
  std::size_t n_;
};

template <typename T, std::size_t N>
struct View {
  T* data;
  __device__ constexpr T& operator[](std::size_t i) const { return data[i]; }
};

template <auto Op, Numeric Out, Numeric... Ts>
__global__ void elementwise(std::size_t n, Out* out, const Ts*... in) {
  for (auto i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n; i += std::size_t{gridDim.x} * blockDim.x) {
    if constexpr (sizeof...(Ts) == 1)
      out[i] = Op(in[i]...);
    else
      out[i] = (Op(in[i]) + ...);
  }
}

struct Square { template <Numeric T> __device__ constexpr T operator()(T x) const { return x * x; } };

__global__ void polynomial(View<float, 64> v, std::integral auto degree) {
  const auto eval = [c = std::array<float, 3>{1.f, 2.f, 3.f}](float x) { return c[0] + x * (c[1] + x * c[2]); };
  if (const auto i = threadIdx.x; i < 64) [[likely]] v[i] = degree > 1 ? eval(v[i]) : v[i];
}

int main() try {
  constexpr std::size_t n = 64;
  std::vector<float> a(n), b(n);
  for (std::size_t i = 0; auto& x : a) x = static_cast<float>(i++);
  for (std::size_t i = 0; i < n; ++i) b[i] = 0.5f * i;
  DeviceBuffer<float> da{std::span<const float>{a}}, db{std::span<const float>{b}}, dc{n};
  elementwise<Square{}><<<2, 32>>>(n, dc.get(), static_cast<const float*>(da.get()), static_cast<const float*>(db.get()));
  const auto c = dc.to_host();
  polynomial<<<1, 64>>>({da.get()}, 2);
  const auto p = da.to_host();
  int bad = 0;
  for (std::size_t i = 0; i < n; ++i) {
    bad += c[i] != a[i] * a[i] + b[i] * b[i];
    bad += p[i] != 1 + a[i] * (2 + 3 * a[i]);
  }
  bad += std::popcount(0xffu) != 8;
  std::printf("C++20: %d wrong\n", bad);
  return bad;
} catch (const std::exception& e) {
  std::puts(e.what());
  return 2;
}
