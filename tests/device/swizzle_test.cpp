// Layouts of tiles in shared memory: every element has its own place, and ldmatrix has no bank conflicts.

#include "device/swizzle.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

namespace fa {
namespace {

constexpr int kRows = 64;

/// The most rows of an 8 x 8 matrix that begin in the same 16 of the 128 bytes that the banks span.
template <class Layout, int kCols>
int worst_conflict() {
  int worst = 0;
  for (int first = 0; first < kRows; first += 8) {
    for (int col = 0; col < kCols; col += 8) {
      std::array<int, 8> rows{};
      for (int row = first; row < first + 8; ++row) {
        const int bytes = 2 * Layout::offset(row, col);
        EXPECT_EQ(bytes % 16, 0);
        worst = std::max(worst, ++rows[std::size_t(bytes / 16 % 8)]);
      }
    }
  }
  return worst;
}

template <class Layout, int kCols>
void expect_a_place_for_each_element() {
  std::set<int> places;
  for (int row = 0; row < kRows; ++row) {
    for (int col = 0; col < kCols; ++col) places.insert(Layout::offset(row, col));
  }
  EXPECT_EQ(places.size(), std::size_t(kRows * kCols));
  EXPECT_GE(*places.begin(), 0);
  EXPECT_LT(*places.rbegin(), kRows * Layout::kStride);
}

/// advance() from the first element of a lane to the same element of another 16 x 16 block.
template <class Layout, int kCols>
void expect_advance() {
  for (int row = 0; row < 16; ++row) {
    for (int col = 0; col < 16; col += 8) {
      const int at = Layout::offset(row, col);
      for (int rows = 0; rows + row < kRows; rows += 16) {
        for (int cols = 0; cols < kCols; cols += 16)
          EXPECT_EQ(Layout::advance(at, rows, cols), Layout::offset(row + rows, col + cols));
      }
    }
  }
}

template <int kCols>
void expect_layouts() {
  expect_a_place_for_each_element<RowMajor<kCols>, kCols>();
  expect_a_place_for_each_element<Padded<kCols>, kCols>();
  expect_a_place_for_each_element<Swizzled<kCols>, kCols>();
  expect_advance<RowMajor<kCols>, kCols>();
  expect_advance<Padded<kCols>, kCols>();
  expect_advance<Swizzled<kCols>, kCols>();
  EXPECT_EQ((worst_conflict<RowMajor<kCols>, kCols>()), kCols % 64 == 32 ? 4 : 8);
  EXPECT_EQ((worst_conflict<Padded<kCols>, kCols>()), 1);
  EXPECT_EQ((worst_conflict<Swizzled<kCols>, kCols>()), 1);
}

TEST(Layouts, GiveEveryElementAPlaceAndAreReachedInSteps) {
  expect_layouts<32>();
  expect_layouts<64>();
  expect_layouts<96>();
  expect_layouts<128>();
  expect_layouts<192>();
  expect_layouts<256>();
}

TEST(Swizzled, MovesWholeChunksOfSixteenBytes) {
  for (int row = 0; row < kRows; ++row) {
    for (int col = 0; col < 128; ++col)
      EXPECT_EQ(Swizzled<128>::offset(row, col), Swizzled<128>::offset(row, col / 8 * 8) + col % 8);
  }
}

}  // namespace
}  // namespace fa
