/// @file
/// Prints as JSON what comes to each element of a tile, for ./learn look: {"own": {"store_pair":
/// {"store_pair, panel 0":
/// [[[source, writers, writer], .. by column], .. by row]}, "rows_of_dq": ..}, "right"}, where a source is
/// [row, col] of the matrix, "another number", or null if nothing is written there; `writers` counts threads,
/// `writer` is the last. own_4.inc and own_5.inc are a learner's answers to exercises 4 and 5, right_4.inc
/// and right_5.inc the solutions.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace fa {
namespace {

using T = std::uint16_t;
constexpr int kLanes = 32, kTileRows = 16, kPanels = 2, kPanelCols = 64, kCols = kPanels * kPanelCols;
constexpr T kNothing = 0xFFFF;

// ---- exercise 4 -------------------------------------------------------------------------------------------

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

void print_pairs(Store store) {
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
        for (std::size_t offset = 0; offset < kSize; ++offset) {
          if (memory[offset] == kNothing) continue;
          values[offset] = memory[offset];
          ++writers[offset];
          writer[offset] = lane;
        }
      }
    }
  }
  std::printf("\"store_pair\": {");
  std::size_t offset = kRoom;
  for (int panel = 0; panel < kPanels; ++panel) {
    std::printf("%s\"store_pair, panel %d\": [", panel == 0 ? "" : ", ", panel);
    for (int row = 0; row < kTileRows; ++row) {
      for (int col = 0; col < kPanelCols; ++col, ++offset) {
        std::printf(col > 0 ? ", [" : row > 0 ? "], [[" : "[[");
        const int element = values[offset] - 1;
        if (writers[offset] == 0) {
          std::printf("null");
        } else if (element >= 0 && element < kTileRows * kCols) {
          std::printf("[%d, %d]", element / kCols, element % kCols);
        } else {
          std::printf("\"another number\"");
        }
        std::printf(", %d, %d]", writers[offset], writer[offset]);
      }
    }
    std::printf("]]");
  }
  std::printf("}");
}

// ---- exercise 5 -------------------------------------------------------------------------------------------

struct Coord {
  int row, col;
};
using Rows = Coord (*)(int, int, int);

/// The sizes of KeyTiles at a head dimension of 128, and at one of 64.
struct Queries64 {
  static constexpr int Br = 64, kDqCols = 64, kFirstDqCols = 64, kHeadDim = 128;
};
struct Queries128 {
  static constexpr int Br = 128, kDqCols = 64, kFirstDqCols = 64, kHeadDim = 64;
};

template <class Tile>
Coord own_rows([[maybe_unused]] int warp, [[maybe_unused]] int n, [[maybe_unused]] int r) {
  [[maybe_unused]] constexpr int kParts = Tile::Br / 64;
#include "own_5.inc"
}

template <class Tile>
Coord right_rows(int warp, int n, int r) {
  constexpr int kParts = Tile::Br / 64;
#include "right_5.inc"
}

template <class Tile>
void print_rows(Rows rows) {
  struct Element {
    Coord source;
    int writers, writer;
  };
  constexpr int kWarps = 8;
  static std::array<std::array<Element, Tile::kHeadDim>, Tile::Br> tile;
  tile = {};
  for (int warp = 0; warp < kWarps; ++warp) {
    for (int n = 0; n < Tile::kDqCols / 8; ++n) {
      for (int r = 0; r < 16; ++r) {
        const Coord to = rows(warp, n, r % 8), from = right_rows<Tile>(warp, n, r % 8);
        for (int i = 0; i < 8; ++i) {
          const int row = to.row + r / 8 * 8, col = to.col + i;
          if (row < 0 || row >= Tile::Br || col < 0 || col >= Tile::kHeadDim) continue;
          Element& element = tile[std::size_t(row)][std::size_t(col)];
          element = {{from.row + r / 8 * 8, from.col + i}, element.writers + 1, 32 * warp};
        }
      }
    }
  }
  for (int first = 0; first < Tile::kHeadDim; first += 64) {
    std::printf("%s\"rows_of_dq, %d queries, columns %d to %d\": [", first > 0 ? ", " : "", Tile::Br, first,
                first + 63);
    for (int row = 0; row < Tile::Br; ++row) {
      for (int col = first; col < first + 64; ++col) {
        const Element& element = tile[std::size_t(row)][std::size_t(col)];
        std::printf(col > first ? ", [" : row > 0 ? "], [[" : "[[");
        if (element.writers == 0) {
          std::printf("null");
        } else {
          std::printf("[%d, %d]", element.source.row, element.source.col);
        }
        std::printf(", %d, %d]", element.writers, element.writer);
      }
    }
    std::printf("]]");
  }
}

void print(const char* whose, Store store, Rows rows_64, Rows rows_128) {
  std::printf("\"%s\": {", whose);
  print_pairs(store);
  std::printf(", \"rows_of_dq\": {");
  print_rows<Queries64>(rows_64);
  std::printf(", ");
  print_rows<Queries128>(rows_128);
  std::printf("}}");
}

}  // namespace
}  // namespace fa

int main() {
  std::printf("{");
  fa::print("own", fa::own<fa::kTileRows>, fa::own_rows<fa::Queries64>, fa::own_rows<fa::Queries128>);
  std::printf(", ");
  fa::print("right", fa::right<fa::kTileRows>, fa::right_rows<fa::Queries64>, fa::right_rows<fa::Queries128>);
  std::printf("}\n");
}
