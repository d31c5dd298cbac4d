// verdict: clean
#include <iostream>
#include <string>
#include <vector>

using Cell = unsigned char;

// A class owns both generations; the kernel is a friend of nobody.
__global__ void evolve(const Cell* now, Cell* next, unsigned w, unsigned h) {
  for (unsigned y = blockIdx.y * blockDim.y + threadIdx.y; y < h; y += blockDim.y * gridDim.y)
    for (unsigned x = blockIdx.x * blockDim.x + threadIdx.x; x < w; x += blockDim.x * gridDim.x) {
      unsigned xl = (x + w - 1) % w, xr = (x + 1) % w, yu = (y + h - 1) % h * w, yd = (y + 1) % h * w, yc = y * w;
      unsigned n = now[xl + yu] + now[x + yu] + now[xr + yu] + now[xl + yc] + now[xr + yc] + now[xl + yd] + now[x + yd] + now[xr + yd];
      next[x + yc] = n == 3 || (n == 2 && now[x + yc]) ? 1 : 0;
    }
}

class Life {
 public:
  Life(unsigned w, unsigned h) : w_(w), h_(h) {
    for (auto& b : buffers_) cudaMalloc(&b, size());
    cudaMemset(buffers_[0], 0, size());
  }
  ~Life() { for (auto b : buffers_) cudaFree(b); }
  void set(unsigned x, unsigned y) {
    const Cell one = 1;
    cudaMemcpy(buffers_[0] + y * w_ + x, &one, 1, cudaMemcpyHostToDevice);
  }
  void run(unsigned generations) {
    const dim3 block(16, 4);
    while (generations--) {
      evolve<<<dim3(2, 2), block>>>(buffers_[0], buffers_[1], w_, h_);
      std::swap(buffers_[0], buffers_[1]);
    }
  }
  std::string str() const {
    std::vector<Cell> host(size());
    cudaMemcpy(host.data(), buffers_[0], size(), cudaMemcpyDeviceToHost);
    std::string s;
    for (unsigned i = 0; i < size(); ++i) (s += host[i] ? '#' : '.') += (i + 1) % w_ ? "" : "\n";
    return s;
  }

 private:
  size_t size() const { return w_ * h_; }
  unsigned w_, h_;
  Cell* buffers_[2];
};

int main() {
  Life life(20, 12);
  for (auto [x, y] : {std::pair{1u, 0u}, {2u, 1u}, {0u, 2u}, {1u, 2u}, {2u, 2u}}) life.set(x, y);
  life.run(16);  // a glider moves four cells to the right and down
  Life moved(20, 12);
  for (auto [x, y] : {std::pair{5u, 4u}, {6u, 5u}, {4u, 6u}, {5u, 6u}, {6u, 6u}}) moved.set(x, y);
  const bool same = life.str() == moved.str();
  std::cout << (same ? "the glider has moved" : "the glider is lost") << std::endl;
  return !same;
}
