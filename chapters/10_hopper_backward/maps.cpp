/// @file
/// Prints as JSON what store_pair() puts into each element of a tile of two panels, for ./learn look: {"own": {"store_pair":
/// {"store_pair, panel 0": [[[source, writers, writer], .. by column], .. by row]}}, "right"}, where a source is [row, col] of the matrix,
/// "another number", or null if nothing is written there; `writers` counts lanes, `writer` is the last. own_4.inc is a learner's
/// answer to exercise 4, right_4.inc the solution.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace fa {
namespace {

using T = std::uint16_t;
constexpr int kLanes = 32, kTileRows = 16, kPanels = 2, kPanelCols = 64, kCols = kPanels * kPanelCols;
constexpr T kNothing = 0xFFFF;

// With room before and after, for what a wrong answer writes there.
constexpr std::size_t kRoom = 1 << 14, kSize = 2 * kRoom + kTileRows * kCols;
alignas(16) std::array<T, kSize> memory;

struct Thread {
  unsigned x, y = 0, z = 0;
};
using Store = void (*)(Thread, T*, int, int, std::uint32_t);

template <int kRows>
void own([[maybe_unused]] Thread threadIdx, [[maybe_unused]] T* tile, [[maybe_unused]] int first_row,
         [[maybe_unused]] int n, [[maybe_unused]] std::uint32_t pair) {
  [[maybe_unused]] const int lane = threadIdx.x % 32;
#include "own_4.inc"
}

template <int kRows>
void right(Thread threadIdx, T* tile, int first_row, int n, std::uint32_t pair) {
  const int lane = threadIdx.x % 32;
#include "right_4.inc"
}

/// The number of an element of the matrix, never 0.
constexpr T number(int row, int col) { return T(row * kCols + col + 1); }

void print(const char* whose, Store store) {
  std::array<T, kSize> values;
  std::array<int, kSize> writers{}, writer{};
  values.fill(kNothing);
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int first_row = 0; first_row < kTileRows; first_row += 8) {
      for (int n = 0; n < kCols / 8; ++n) {
        const int row = first_row + lane / 4, col = 8 * n + lane % 4 * 2;
        memory.fill(kNothing);
        store({unsigned(lane)}, memory.data() + kRoom, first_row, n,
              number(row, col) | std::uint32_t(number(row, col + 1)) << 16);
        for (std::size_t at = 0; at < kSize; ++at) {
          if (memory[at] == kNothing) continue;
          values[at] = memory[at];
          ++writers[at];
          writer[at] = lane;
        }
      }
    }
  }
  std::printf("\"%s\": {\"store_pair\": {", whose);
  std::size_t at = kRoom;
  for (int panel = 0; panel < kPanels; ++panel) {
    std::printf("%s\"store_pair, panel %d\": [", panel == 0 ? "" : ", ", panel);
    for (int row = 0; row < kTileRows; ++row) {
      for (int col = 0; col < kPanelCols; ++col, ++at) {
        std::printf(col > 0 ? ", [" : row > 0 ? "], [[" : "[[");
        const int element = values[at] - 1;
        if (writers[at] == 0) {
          std::printf("null");
        } else if (element >= 0 && element < kTileRows * kCols) {
          std::printf("[%d, %d]", element / kCols, element % kCols);
        } else {
          std::printf("\"another number\"");
        }
        std::printf(", %d, %d]", writers[at], writer[at]);
      }
    }
    std::printf("]]");
  }
  std::printf("}}");
}

}  // namespace
}  // namespace fa

int main() {
  std::printf("{");
  fa::print("own", fa::own<fa::kTileRows>);
  std::printf(", ");
  fa::print("right", fa::right<fa::kTileRows>);
  std::printf("}\n");
}
