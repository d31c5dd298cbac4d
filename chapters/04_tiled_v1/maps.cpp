/// @file
/// Prints as JSON what load_tile() copies to each element of a tile, for ./learn look: {"own": {"load_tile":
/// {"load_tile<..>":
/// [[[source, writers, writer], .. by column], .. by row]}}, "right"}, where a source is [row, col] of the
/// matrix, "zero", "another number", or null if nothing is written there; `writers` counts threads, `writer`
/// is the last. own_3.inc is a learner's answer to exercise 3, right_3.inc the solution.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>

#include "device/math.cuh"

namespace fa {
namespace {

using std::max;
using std::min;

constexpr int kTileRows = 6, kFirst = 2, kEnd = 7;  // the last row of the tile is not in the matrix
constexpr float kFactor = 2.0f, kNothing = -1.0f, kOutside = -2.0f;

// With room before and after, for what a wrong answer reads and writes there.
constexpr int kRoom = 1 << 14, kSize = 1 << 15;
std::array<float, kSize> tile_memory, matrix_memory;
float* const tile = tile_memory.data() + kRoom;
float* const matrix = matrix_memory.data() + kRoom;

[[maybe_unused]] float4 load_float4(const float* address) {
  return *reinterpret_cast<const float4*>(address);
}

struct Thread {
  unsigned x, y = 0, z = 0;
};
using Load = void (*)(Thread, float*, const float*, int, int, int, float);

template <int kThreads, int kHeadDim, int kStride>
void own([[maybe_unused]] Thread threadIdx, [[maybe_unused]] float* sTile,
         [[maybe_unused]] const float* gMatrix, [[maybe_unused]] int first, [[maybe_unused]] int rows,
         [[maybe_unused]] int end, [[maybe_unused]] float factor) {
#include "own_3.inc"
}

template <int kThreads, int kHeadDim, int kStride>
void right(Thread threadIdx, float* sTile, const float* gMatrix, int first, int rows, int end, float factor) {
#include "right_3.inc"
}

/// What was written: the number of an element of the matrix, from 1, times the factor.
void print_source(float value, int cols) {
  const int element = int(std::abs(value) / kFactor) - 1;
  if (value == 0.0f) {
    std::printf("\"zero\"");
  } else if (value == kFactor * float(element + 1) && element < kEnd * cols) {
    std::printf("[%d, %d]", element / cols, element % cols);
  } else {
    std::printf("\"another number\"");
  }
}

/// @param threads  that load together; they begin at the number `first_thread`
void print(const char* name, Load load, int first_thread, int threads, int cols, int stride) {
  matrix_memory.fill(kOutside);
  for (int element = 0; element < kEnd * cols; ++element) matrix[element] = float(element + 1);
  std::array<float, kSize> values;
  std::array<int, kSize> writers{}, writer{};
  values.fill(kNothing);
  for (int thread = first_thread; thread < first_thread + threads; ++thread) {
    tile_memory.fill(kNothing);
    load({unsigned(thread)}, tile, matrix, kFirst, kTileRows, kEnd, kFactor);
    for (int at = 0; at < kSize; ++at) {
      if (tile_memory[std::size_t(at)] == kNothing) continue;
      values[std::size_t(at)] = tile_memory[std::size_t(at)];
      ++writers[std::size_t(at)];
      writer[std::size_t(at)] = thread;
    }
  }
  std::printf("\"%s\": [", name);
  for (int row = 0; row < kTileRows; ++row) {
    std::printf(row == 0 ? "[" : ", [");
    for (int col = 0; col < stride; ++col) {
      const std::size_t at = std::size_t(kRoom + row * stride + col);
      std::printf(col == 0 ? "[" : ", [");
      if (writers[at] == 0) {
        std::printf("null");
      } else {
        print_source(values[at], cols);
      }
      std::printf(", %d, %d]", writers[at], writer[at]);
    }
    std::printf("]");
  }
  std::printf("]");
}

}  // namespace
}  // namespace fa

int main() {
  using namespace fa;
  std::printf("{\"own\": {\"load_tile\": {");
  print("load_tile<32, 64, 65>", own<32, 64, 65>, 0, 32, 64, 65);
  std::printf(", ");
  print("load_tile<128, 64, 68>", own<128, 64, 68>, 0, 128, 64, 68);
  std::printf(", ");
  print("load_tile<32, 64, 64> in warp 1", own<32, 64, 64>, 32, 32, 64, 64);
  std::printf("}}, \"right\": {\"load_tile\": {");
  print("load_tile<32, 64, 65>", right<32, 64, 65>, 0, 32, 64, 65);
  std::printf(", ");
  print("load_tile<128, 64, 68>", right<128, 64, 68>, 0, 128, 64, 68);
  std::printf(", ");
  print("load_tile<32, 64, 64> in warp 1", right<32, 64, 64>, 32, 32, 64, 64);
  std::printf("}}}\n");
}
