/// @file
/// What the functions of the exercises return for a few arguments: `check` compares a learner's answer with
/// the chapter's. EXERCISE is its number, answer.inc its text.
#include "examples.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace fa::examples {

#if EXERCISE == 2
struct Bf16 {};
struct Product {
  bool adds, transposed_ds, transposed_k;
  int ds, k;  // bytes from the start of the tile
};
/// r of a warpgroup.
struct Sums {
  std::vector<Product> products;
  std::array<float, 32> elements = {};

  auto begin() { return elements.begin(); }
  auto end() { return elements.end(); }
};
namespace ptx {
template <class, bool kAdd, bool kTransposedA, bool kTransposedB>
void wgmma(Sums& r, std::uint64_t a, std::uint64_t b) {
  r.products.push_back({kAdd, kTransposedA, kTransposedB, 16 * int(a - 1000), 16 * int(b - 5000)});
}
void wgmma_commit() {}
template <int>
void wgmma_wait(Sums&) {}
}  // namespace ptx
std::uint64_t moved(std::uint64_t descriptor, int bytes) { return descriptor + bytes / 16; }

template <int kKeys>
struct TileOf {
  using T = Bf16;
  static constexpr int Bc = kKeys, Br = 64, kHeadDim = 128, kDqCols = 64;
};

template <class Tile>
void products() {
  using T = typename Tile::T;
  Sums r;
  const std::uint64_t ds = 1000, k = 5000;
#include "answer.inc"
  for (std::size_t n = 0; n < r.products.size() && n < Tile::Bc / 16; ++n) {
    const Product& product = r.products[n];
    const std::string call = words("issue_dq() of %d keys, product %d", Tile::Bc, int(n));
    const auto matrix = [](int bytes, bool transposed) {
      return words("moved by %d bytes%s", bytes, transposed ? "" : " and not transposed");
    };
    example(call, "r", product.adds ? "added to" : "overwritten");
    example(call, "ds", matrix(product.ds, product.transposed_ds));
    example(call, "k", matrix(product.k, product.transposed_k));
  }
  example(words("issue_dq() of %d keys", Tile::Bc), "the number of products", double(r.products.size()));
}

void examples() {
  products<TileOf<128>>();
  products<TileOf<64>>();
}

#elif EXERCISE == 3
struct Tile {
  static constexpr int Br = 64, Bc = 128;
};

void examples() {
  struct {
    bool causal;
    int visible_keys(int query) const { return causal ? std::min(150, std::max(0, query + 7)) : 150; }
  } a = {true};
  for (const bool causal : {true, false}) {
    a.causal = causal;
    for (const int first_key : {80, 144}) {
      for (const int lane : {5, 0, 31}) {
        const int first_query = 64;
        float rS[Tile::Br / 2] = {};
#include "answer.inc"
        const std::string call =
            words("lane %d, queries from 64 on and keys from %d on, where query i sees %s", lane, first_key,
                  causal ? "i + 7 keys, but no more than 150" : "150 keys");
        for (int i = 0; i < Tile::Br / 2; ++i) example(call, words("rS[%d]", i).c_str(), rS[i]);
      }
    }
  }
}
#endif

}  // namespace fa::examples

int main() { fa::examples::examples(); }
