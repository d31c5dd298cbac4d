// Compares the simulator's model of wgmma with what a GPU does: where in shared memory it takes the elements
// of a matrix from, and how it adds up 16 products.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "gpusim/runtime/wgmma.hpp"
#include "wgmma_layouts.hpp"
#include "wgmma_sums.hpp"

namespace gpusim {
namespace {

nlohmann::json measured() {
  std::ifstream file(FA_SOURCE_DIR "/docs/results/wgmma_layouts.json");
  EXPECT_TRUE(file) << "docs/results/wgmma_layouts.json is missing";
  return nlohmann::json::parse(file);
}

TEST(WgmmaModel, TakesElementsFromWhereAGpuDoes) {
  const auto layouts = gpusim_test::matrix_layouts();
  const auto hashes = measured().at("places");
  ASSERT_EQ(hashes.size(), layouts.size());
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const gpusim_test::MatrixLayout& l = layouts[i];
    const std::uint64_t bits = std::uint64_t(l.start) >> 4 | std::uint64_t(l.leading) >> 4 << 16 |
                               std::uint64_t(l.stride) >> 4 << 32 | std::uint64_t(l.base_offset) << 49 |
                               std::uint64_t(l.mode) << 62;
    const auto matrix = MatrixDescriptor::of(bits);
    const ChunkGrid grid = chunks_of(l.is_a ? 64 : 128, l.transposed);
    gpusim_test::PlacesHash hash;
    for (int c = 0; c < grid.count; ++c)
      hash.add(int(chunk_address(matrix, l.transposed, c / grid.per_row, c % grid.per_row)));
    ASSERT_EQ(hash.value(), hashes[i].get<std::uint32_t>())
        << (l.is_a ? "A" : "B") << (l.transposed ? ", MN-major" : ", K-major") << ", mode " << l.mode
        << ", start " << l.start << ", leading " << l.leading << ", stride " << l.stride << ", base offset "
        << l.base_offset;
  }
}

TEST(WgmmaModel, AddsAsAGpuDoes) {
  const auto problems = gpusim_test::sums();
  const auto results = measured().at("sums");
  ASSERT_EQ(results.size(), problems.size());
  for (std::size_t i = 0; i < problems.size(); ++i) {
    const gpusim_test::Sum& p = problems[i];
    const auto type = p.is_half ? device::MmaType::kFloat16 : device::MmaType::kBFloat16;
    constexpr int kN = 8;
    OperandPanel a = {}, b = {};
    for (int row = 0; row < kWgmmaRows; ++row) {  // all rows and all columns are the same
      widen_chunk(p.a, type, false, row, 0, a);
      widen_chunk(p.a + 8, type, false, row, 1, a);
    }
    for (int column = 0; column < kN; ++column) {
      widen_chunk(p.b, type, false, column, 0, kN, b);
      widen_chunk(p.b + 8, type, false, column, 1, kN, b);
    }
    Exponents a_exponents, b_exponents;
    find_exponents(a.values.data(), kWgmmaRows * kWgmmaK, type, a_exponents);
    find_exponents(b.values.data(), kWgmmaK * kN, type, b_exponents);
    std::vector<float> d(kWgmmaRows * kN, p.c);
    multiply_rows(a.values.data(), a_exponents.data(), b.values.data(), b_exponents.data(), d.data(), kN);
    for (const float sum : d)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(sum), results[i].get<std::uint32_t>())
          << "sum " << i << ": " << sum;
  }
}

/// Easy columns are computed side by side; next to a column that is not easy, they are computed one by one.
TEST(WgmmaModel, AddsInTheSameWayBesideSpecialNumbers) {
  constexpr int kN = 16;
  std::mt19937 random(3);
  std::uniform_int_distribution<int> value(-255, 255), exponent(-20, 20);
  OperandPanel a = {}, b = {};
  for (float& x : a.values) x = std::ldexp(float(value(random)), exponent(random));
  for (float& x : b.values) x = std::ldexp(float(value(random)), exponent(random));
  std::vector<float> d(kWgmmaRows * kN);
  for (float& x : d) x = std::ldexp(float(value(random)), exponent(random));
  Exponents a_exponents, b_exponents;
  const auto multiply = [&] {
    find_exponents(a.values.data(), kWgmmaRows * kWgmmaK, device::MmaType::kBFloat16, a_exponents);
    find_exponents(b.values.data(), kWgmmaK * kN, device::MmaType::kBFloat16, b_exponents);
    std::vector<float> result = d;
    multiply_rows(a.values.data(), a_exponents.data(), b.values.data(), b_exponents.data(), result.data(),
                  kN);
    return result;
  };
  const std::vector<float> easy = multiply();
  for (int k = 0; k < kWgmmaK; ++k) b.values[std::size_t(k * kN + 5)] = std::ldexp(1.0f, 90);
  const std::vector<float> mixed = multiply();
  for (int m = 0; m < kWgmmaRows; ++m) {
    for (int column = 0; column < kN; ++column) {
      const auto i = std::size_t(m * kN + column);
      EXPECT_TRUE(column == 5 || easy[i] == mixed[i]) << m << ' ' << column;
    }
  }
}

}  // namespace
}  // namespace gpusim
