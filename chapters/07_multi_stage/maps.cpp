/// @file
/// Prints as JSON what load_tile() copies to each chunk of a tile, for ./learn look: {"own": {"load_tile":
/// [[chunk, .. by column], .. by row]}, "right"}, where a chunk is [row, col] of the matrix, "zeros", or null
/// if nothing is copied there. own_1.inc is a learner's answer to exercise 1, right_1.inc the solution.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>

#include "device/attention.cuh"
#include "device/swizzle.cuh"

namespace fa {
namespace {

struct Tile {
  using T = std::uint16_t;
  using Rows = Swizzled<64>;
  static constexpr int kHeadDim = 64, kThreads = 64;
};
constexpr int kChunk = 8;
constexpr int kRows = 16, kExisting = 13;  // rows of the tile, and of the matrix
constexpr int kStride = 96;                // elements from one row of the matrix to the next

struct ThreadChunk {
  static constexpr int kWidth = Tile::kHeadDim, kStep = Tile::kThreads * kChunk / kWidth;
  int row, col;
};

struct Source {
  std::ptrdiff_t at;
  bool exists;
};

// What has been copied: by the offset in the tile.
Tile::T tile[kRows * Tile::kHeadDim], matrix[kRows * kStride];
std::map<std::ptrdiff_t, Source> copied;

void cp_async_16_or_zero(void* s, const void* g, bool inside) {
  copied[static_cast<Tile::T*>(s) - tile] = {static_cast<const Tile::T*>(g) - matrix, inside};
}
[[maybe_unused]] void cp_async_16(void* s, const void* g) { cp_async_16_or_zero(s, g, true); }

void own(int thread, [[maybe_unused]] int step, [[maybe_unused]] ThreadChunk mine) {
  [[maybe_unused]] const struct { int x; } threadIdx{thread};
  [[maybe_unused]] Tile::T* const sTile = tile;
  [[maybe_unused]] const HeadRows<const Tile::T> gRows = {matrix, kStride};
  [[maybe_unused]] const int first = 0, end = kExisting, cols = Tile::kHeadDim, right = 0;
  [[maybe_unused]] const int row = step + mine.row, col = right + mine.col;
  do {  // `continue` ends a step here as well
#include "own_1.inc"
  } while (false);
}

void right(int, int step, ThreadChunk mine) {
  Tile::T* const sTile = tile;
  const HeadRows<const Tile::T> gRows = {matrix, kStride};
  const int first = 0, end = kExisting, row = step + mine.row, col = mine.col;
#include "right_1.inc"
}

void print_chunk(int row, int col) {
  const auto found = copied.find(Tile::Rows::offset(row, col));
  if (found == copied.end()) {
    std::printf("null");
  } else if (!found->second.exists) {
    std::printf("\"zeros\"");
  } else {
    const int at = int(found->second.at);
    std::printf("[%d, %d]", at / kStride, at % kStride);
  }
}

void print(const char* whose, void (*copy)(int, int, ThreadChunk)) {
  copied.clear();
  for (int thread = 0; thread < Tile::kThreads; ++thread) {
    const int first = thread * kChunk;
    for (int step = 0; step < kRows; step += ThreadChunk::kStep)
      copy(thread, step, {first / Tile::kHeadDim, first % Tile::kHeadDim});
  }
  std::printf("\"%s\": {\"load_tile\": ", whose);
  for (int row = 0; row < kRows; ++row) {
    std::printf(row == 0 ? "[" : ", ");
    for (int col = 0; col < Tile::kHeadDim; col += kChunk) {
      std::printf(col == 0 ? "[" : ", ");
      print_chunk(row, col);
    }
    std::printf("]");
  }
  std::printf("]}");
}

}  // namespace
}  // namespace fa

int main() {
  std::printf("{");
  fa::print("own", fa::own);
  std::printf(", ");
  fa::print("right", fa::right);
  std::printf("}\n");
}
