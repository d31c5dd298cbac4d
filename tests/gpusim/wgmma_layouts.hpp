// Descriptors of wgmma with which the simulator's model of matrix layouts is compared with a GPU.
#pragma once

#include <cstdint>
#include <vector>

namespace gpusim_test {

struct MatrixLayout {
  bool is_a, transposed;
  int mode;  // of the swizzle, as in the descriptor
  int start, leading, stride, base_offset;

  int chunks() const { return is_a ? 128 : 256; }  // of 8 elements: A is 64 x 16, B is 16 x 128
};

// All modes, both operands and majors; starts inside and outside of a pattern; offsets that keep the chunks
// apart.
inline std::vector<MatrixLayout> matrix_layouts() {
  constexpr int kOffsets[][2] = {{17 * 1024, 1024}, {2048, 9 * 1024}, {3 * 128, 11 * 128}, {5 * 16, 37 * 16}};
  constexpr int kStarts[] = {0, 16, 32, 64, 128, 256, 384, 640, 1536, 2144};
  std::vector<MatrixLayout> layouts;
  for (const bool is_a : {true, false}) {
    for (int mode = 0; mode < 4; ++mode) {
      for (const bool transposed : {false, true}) {
        for (const auto& [leading, stride] : kOffsets) {
          for (const int start : kStarts) {
            for (const int base : {0, 1, 2, 5})
              layouts.push_back({is_a, transposed, mode, start, leading, stride, base});
          }
        }
      }
    }
  }
  return layouts;
}

// The places of all chunks in one number (FNV-1a). Chunks of a K-major matrix are numbered k first, of others
// m or n first.
class PlacesHash {
 public:
  void add(int byte) {
    for (int i = 0; i < 4; ++i) bits_ = (bits_ ^ (std::uint32_t(byte) >> 8 * i & 0xff)) * 16777619u;
  }
  std::uint32_t value() const { return bits_; }

 private:
  std::uint32_t bits_ = 2166136261u;
};

}  // namespace gpusim_test
