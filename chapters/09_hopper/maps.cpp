/// @file
/// Prints as JSON what load_tile() has the copy engine put into each chunk of a tile, for ./learn look:
/// {"own":
/// {"load_tile": [[chunk, .. by column], .. by row]}, "right"}, where a chunk is [row, col] of the matrix,
/// "zeros", "another head", or null if nothing is copied there. own_1.inc is a learner's answer to exercise
/// 1, right_1.inc the solution.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace fa {
namespace {

using T = std::uint16_t;
constexpr int kChunk = 8, kBoxCols = 64;
constexpr int kRows = 8, kCols = 128;         // of the tile
constexpr int kFirstRow = 8, kExisting = 13;  // rows of the matrix
constexpr int kHead = 3;

constexpr int kHeads = 2;  // of a batch
struct TensorMap {
  int heads = kHeads;
};

// The tile: two panels of kRows rows of 64 columns. Swizzled or not, a row has the same chunks.
T tile[kRows * kCols];
std::vector<std::string> chunks;  // what has been copied, as JSON, by the offset in the tile

std::string source(int row, int col, int head) {
  if (head != kHead) return "\"another head\"";
  const bool exists = row >= 0 && row < kExisting && col >= 0 && col < kCols;
  return exists ? "[" + std::to_string(row) + ", " + std::to_string(col) + "]" : "\"zeros\"";
}

namespace ptx {
[[maybe_unused]] void fence_proxy_async() {}
[[maybe_unused]] void mbarrier_arrive(std::uint64_t*) {}
void mbarrier_arrive_expect_tx(std::uint64_t*, int) {}
void tma_load(void* s, const TensorMap*, std::uint64_t*, int x, int y, int z, int w) {
  const std::ptrdiff_t first = (static_cast<T*>(s) - tile) / kChunk;
  for (int row = 0; row < kRows; ++row) {
    for (int col = 0; col < kBoxCols; col += kChunk) {
      const std::ptrdiff_t at = first + (row * kBoxCols + col) / kChunk;
      if (at >= 0 && at < std::ptrdiff_t(chunks.size()))
        chunks[std::size_t(at)] = source(y + row, x + col, z < kHeads ? w * kHeads + z : -1);
    }
  }
}
}  // namespace ptx

void own([[maybe_unused]] T* s, [[maybe_unused]] const TensorMap& map, [[maybe_unused]] std::uint64_t& full,
         [[maybe_unused]] int first_row, [[maybe_unused]] int head) {
#include "own_1.inc"
}

void right(T* s, const TensorMap& map, std::uint64_t& full, int first_row, int head) {
#include "right_1.inc"
}

void print(const char* whose, decltype(right) copy) {
  chunks.assign(kRows * kCols / kChunk, "null");
  std::uint64_t full = 0;
  copy(tile, {}, full, kFirstRow, kHead);
  std::printf("\"%s\": {\"load_tile\": ", whose);
  for (int row = 0; row < kRows; ++row) {
    for (int col = 0; col < kCols; col += kChunk) {
      const int at = (col / kBoxCols * kRows + row) * kBoxCols + col % kBoxCols;
      const char* const before = col > 0 ? ", " : row > 0 ? "], [" : "[[";
      std::printf("%s%s", before, chunks[std::size_t(at / kChunk)].c_str());
    }
  }
  std::printf("]]}");
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
