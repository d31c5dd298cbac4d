// ldmatrix, movmatrix, mma, and the conversion of results into operands, on the GPU and on the simulator.

#include "device/tensor_core.cuh"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "device/convert.cuh"
#include "device/fragments.cuh"
#include "device/launch.cuh"
#include "device_vector.hpp"

namespace fa {
namespace mma_test {

// ---- ldmatrix -------------------------------------------------------------------------------------------

/// Loads kMatrices matrices of 8 x 8, stored one after the other; out[lane * kMatrices + m] is what the lane
/// received.
template <int kMatrices, bool kTransposed>
__global__ void load(const std::uint16_t* in, std::uint32_t* out) {
  __shared__ __align__(16) std::uint16_t sMatrices[4 * 64];
  const int lane = threadIdx.x;
  for (int i = lane; i < kMatrices * 64; i += 32) sMatrices[i] = in[i];
  __syncthreads();
  std::uint32_t registers[kMatrices];
  const std::uint16_t* row = sMatrices + lane % (8 * kMatrices) * 8;
  if (kTransposed) {
    ldmatrix_transposed(registers, row);
  } else {
    ldmatrix(registers, row);
  }
  for (int m = 0; m < kMatrices; ++m) out[lane * kMatrices + m] = registers[m];
}

template <int kMatrices, bool kTransposed>
void expect_matrices() {
  std::vector<std::uint16_t> in(kMatrices * 64);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = std::uint16_t(i);
  DeviceVector<std::uint16_t> x(in);
  DeviceVector<std::uint32_t> y(32 * kMatrices);
  launch(load<kMatrices, kTransposed>, 1, 32, 0, nullptr, x.get(), y.get());
  std::vector<std::uint32_t> expected;
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned m = 0; m < kMatrices; ++m) {
      const unsigned g = lane / 4, t = lane % 4;
      const unsigned low = kTransposed ? 2 * t * 8 + g : g * 8 + 2 * t;
      const unsigned high = kTransposed ? low + 8 : low + 1;
      expected.push_back((64 * m + low) | (64 * m + high) << 16);
    }
  }
  EXPECT_EQ(y.host(), expected) << kMatrices << " matrices" << (kTransposed ? ", transposed" : "");
}

TEST(Ldmatrix, GivesEachLaneAPairOfEachMatrix) {
  expect_matrices<1, false>();
  expect_matrices<2, false>();
  expect_matrices<4, false>();
}

TEST(Ldmatrix, TransposesOnTheWay) {
  expect_matrices<1, true>();
  expect_matrices<2, true>();
  expect_matrices<4, true>();
}

// ---- movmatrix ------------------------------------------------------------------------------------------

/// Loads a matrix with ldmatrix, and transposes it in registers.
__global__ void load_and_transpose(const std::uint16_t* in, std::uint32_t* out) {
  __shared__ __align__(16) std::uint16_t sMatrix[64];
  const int lane = threadIdx.x;
  sMatrix[lane] = in[lane];
  sMatrix[lane + 32] = in[lane + 32];
  __syncthreads();
  std::uint32_t registers[1];
  ldmatrix(registers, sMatrix + lane % 8 * 8);
  out[lane] = ptx::movmatrix_transposed(registers[0]);
}

TEST(Movmatrix, GivesWhatATransposingLoadGives) {
  std::vector<std::uint16_t> in(64);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = std::uint16_t(1000 * i);
  DeviceVector<std::uint16_t> x(in);
  DeviceVector<std::uint32_t> transposed(32), expected(32);
  launch(load_and_transpose, 1, 32, 0, nullptr, x.get(), transposed.get());
  launch(load<1, true>, 1, 32, 0, nullptr, x.get(), expected.get());
  EXPECT_EQ(transposed.host(), expected.host());
}

// ---- mma ------------------------------------------------------------------------------------------------

using Matrix = std::vector<float>;  // row after row

/// Two elements of a matrix as a lane holds them in one register.
template <class T>
__device__ std::uint32_t pair(const float* matrix, int cols, Coord first, Coord second) {
  return pack<T>(matrix[first.row * cols + first.col], matrix[second.row * cols + second.col]);
}

/// D = A B + C, with fragments filled and read by the maps of element_of_a(), _b() and _c().
template <class T>
__global__ void multiply_by_map(const float* a, const float* b, const float* c, float* d) {
  const int lane = threadIdx.x;
  std::uint32_t rA[4], rB[2];
  float rC[4];
  for (int i = 0; i < 4; ++i)
    rA[i] = pair<T>(a, 16, element_of_a(lane, 2 * i), element_of_a(lane, 2 * i + 1));
  for (int i = 0; i < 2; ++i) rB[i] = pair<T>(b, 8, element_of_b(lane, 2 * i), element_of_b(lane, 2 * i + 1));
  for (int i = 0; i < 4; ++i) rC[i] = c[element_of_c(lane, i).row * 8 + element_of_c(lane, i).col];
  mma<T>(rC, rA, rB);
  for (int i = 0; i < 4; ++i) d[element_of_c(lane, i).row * 8 + element_of_c(lane, i).col] = rC[i];
}

/// D = A B, 16 x 16 each, with fragments loaded by ldmatrix. @param b  B, or its transpose
template <class T, bool kBIsTransposed>
__global__ void multiply_by_ldmatrix(const float* a, const float* b, float* d) {
  __shared__ __align__(16) T sA[16 * 16], sB[16 * 16];
  const int lane = threadIdx.x;
  for (int i = lane; i < 256; i += 32) {
    sA[i] = T(a[i]);
    sB[i] = T(b[i]);
  }
  __syncthreads();
  const Coord row_a = row_for_a(lane), row_b = kBIsTransposed ? row_for_b(lane) : row_for_a(lane);
  std::uint32_t rA[4], rB[4];
  ldmatrix(rA, sA + row_a.row * 16 + row_a.col);
  if (kBIsTransposed) {
    ldmatrix(rB, sB + row_b.row * 16 + row_b.col);
  } else {
    ldmatrix_transposed(rB, sB + row_b.row * 16 + row_b.col);
  }
  for (int half = 0; half < 2; ++half) {
    float rD[4] = {};
    mma<T>(rD, rA, {rB[2 * half], rB[2 * half + 1]});
    for (int i = 0; i < 4; ++i) {
      const Coord at = element_of_c(lane, i);
      d[at.row * 16 + 8 * half + at.col] = rD[i];
    }
  }
}

/// D = (A B) I: two results side by side, rounded to T, are the operand A of the next product.
template <class T>
__global__ void multiply_twice(const float* a, const float* b, float* d) {
  const int lane = threadIdx.x;
  std::uint32_t rA[4];
  for (int i = 0; i < 4; ++i)
    rA[i] = pair<T>(a, 16, element_of_a(lane, 2 * i), element_of_a(lane, 2 * i + 1));
  float rS[2][4] = {};
  for (int half = 0; half < 2; ++half) {
    std::uint32_t rB[2];
    for (int i = 0; i < 2; ++i)
      rB[i] = pair<T>(b + 8 * half, 16, element_of_b(lane, 2 * i), element_of_b(lane, 2 * i + 1));
    mma<T>(rS[half], rA, rB);
  }
  const std::uint32_t rP[4] = {pack<T>(rS[0][0], rS[0][1]), pack<T>(rS[0][2], rS[0][3]),
                               pack<T>(rS[1][0], rS[1][1]), pack<T>(rS[1][2], rS[1][3])};
  for (int half = 0; half < 2; ++half) {
    std::uint32_t rI[2];
    for (int i = 0; i < 2; ++i) {
      const Coord first = element_of_b(lane, 2 * i), second = element_of_b(lane, 2 * i + 1);
      rI[i] = pack<T>(first.row == first.col + 8 * half ? 1.0f : 0.0f,
                      second.row == second.col + 8 * half ? 1.0f : 0.0f);
    }
    float rD[4] = {};
    mma<T>(rD, rP, rI);
    for (int i = 0; i < 4; ++i) {
      const Coord at = element_of_c(lane, i);
      d[at.row * 16 + 8 * half + at.col] = rD[i];
    }
  }
}

Matrix identity(int rows, int cols) {
  Matrix m(std::size_t(rows * cols));
  for (int i = 0; i < rows && i < cols; ++i) m[std::size_t(i * cols + i)] = 1.0f;
  return m;
}

/// 0, 1, 2, ... up to 255: different, and exact in both formats.
Matrix numbered(int count) {
  Matrix m(std::size_t(count), 0.0f);
  for (std::size_t i = 0; i < m.size(); ++i) m[i] = float(i % 256);
  return m;
}

/// Multiples of 1/16 between -4 and 4: exact in both formats, and so are their products in fp32.
Matrix random_matrix(int count, unsigned seed) {
  std::mt19937 random(seed);
  Matrix m(std::size_t(count), 0.0f);
  for (float& x : m) x = float(int(random() % 129) - 64) / 16.0f;
  return m;
}

Matrix product(const Matrix& a, const Matrix& b, int cols, bool b_is_transposed = false) {
  Matrix d(std::size_t(16 * cols), 0.0f);
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < cols; ++n) {
      double sum = 0;
      for (int k = 0; k < 16; ++k)
        sum += double(a[std::size_t(16 * m + k)]) *
               double(b[std::size_t(b_is_transposed ? 16 * n + k : cols * k + n)]);
      d[std::size_t(cols * m + n)] = float(sum);
    }
  }
  return d;
}

template <class T>
class Mma : public testing::Test {
 protected:
  void SetUp() override {
    if (compute_capability() < 80) GTEST_SKIP() << "this device has no mma.m16n8k16";
  }
  static Matrix by_map(const Matrix& a, const Matrix& b, const Matrix& c) {
    DeviceVector<float> x(a), y(b), z(c), d(16 * 8);
    launch(multiply_by_map<T>, 1, 32, 0, nullptr, x.get(), y.get(), z.get(), d.get());
    return d.host();
  }
  template <bool kBIsTransposed>
  static Matrix by_ldmatrix(const Matrix& a, const Matrix& b) {
    DeviceVector<float> x(a), y(b), d(16 * 16);
    launch(multiply_by_ldmatrix<T, kBIsTransposed>, 1, 32, 0, nullptr, x.get(), y.get(), d.get());
    return d.host();
  }
};
using Types = testing::Types<__half, __nv_bfloat16>;
TYPED_TEST_SUITE(Mma, Types, );

// A mistake in a map shows as a permutation of the numbers.
TYPED_TEST(Mma, FragmentAHoldsTheElementsOfItsMap) {
  const Matrix a = numbered(16 * 16);
  Matrix left, right;
  for (std::size_t i = 0; i < a.size(); ++i) (i % 16 < 8 ? left : right).push_back(a[i]);
  EXPECT_EQ(this->by_map(a, identity(16, 8), Matrix(16 * 8)), left);
  Matrix lower(16 * 8);
  for (std::size_t i = 0; i < 8; ++i) lower[(8 + i) * 8 + i] = 1.0f;
  EXPECT_EQ(this->by_map(a, lower, Matrix(16 * 8)), right);
}

TYPED_TEST(Mma, FragmentBHoldsTheElementsOfItsMap) {
  const Matrix b = numbered(16 * 8);
  EXPECT_EQ(this->by_map(identity(16, 16), b, Matrix(16 * 8)), b);
}

TYPED_TEST(Mma, FragmentCHoldsTheElementsOfItsMap) {
  const Matrix c = numbered(16 * 8);
  EXPECT_EQ(this->by_map(Matrix(16 * 16), Matrix(16 * 8), c), c);
}

TYPED_TEST(Mma, AddsTheProductToC) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    const Matrix a = random_matrix(16 * 16, seed), b = random_matrix(16 * 8, seed + 10);
    const Matrix c = random_matrix(16 * 8, seed + 20);
    Matrix expected = product(a, b, 8);
    for (std::size_t i = 0; i < c.size(); ++i) expected[i] += c[i];
    EXPECT_EQ(this->by_map(a, b, c), expected);
  }
}

TYPED_TEST(Mma, TakesFragmentsThatLdmatrixLoaded) {
  const Matrix one = identity(16, 16), number = numbered(16 * 16);
  EXPECT_EQ(this->template by_ldmatrix<false>(number, one), number);
  EXPECT_EQ(this->template by_ldmatrix<false>(one, number), number);
  EXPECT_EQ(this->template by_ldmatrix<true>(number, one), number);
  EXPECT_EQ(this->template by_ldmatrix<true>(one, number), product(one, number, 16, true));
  for (unsigned seed = 1; seed <= 4; ++seed) {
    const Matrix a = random_matrix(16 * 16, seed), b = random_matrix(16 * 16, seed + 10);
    EXPECT_EQ(this->template by_ldmatrix<false>(a, b), product(a, b, 16));
    EXPECT_EQ(this->template by_ldmatrix<true>(a, b), product(a, b, 16, true));
  }
}

TYPED_TEST(Mma, TakesItsOwnResultAsOperandA) {
  // Each row of A contains a single 1, so the product consists of rows of B, which are exact in 16 bits.
  Matrix a(16 * 16);
  for (std::size_t i = 0; i < 16; ++i) a[i * 16 + (5 * i + 3) % 16] = 1.0f;
  const Matrix b = numbered(16 * 16);
  DeviceVector<float> x(a), y(b), d(16 * 16);
  launch(multiply_twice<TypeParam>, 1, 32, 0, nullptr, x.get(), y.get(), d.get());
  EXPECT_EQ(d.host(), product(a, b, 16));
}

// ---- pairs ----------------------------------------------------------------------------------------------

template <class T>
__global__ void pack_one(float low, float high, std::uint32_t* out) {
  *out = pack<T>(low, high);
}

template <class T>
std::uint32_t packed(float low, float high) {
  DeviceVector<std::uint32_t> out(1);
  launch(pack_one<T>, 1, 1, 0, nullptr, low, high, out.get());
  return out.host()[0];
}

TEST(Pack, PutsTheFirstNumberIntoTheLowerHalf) {
  EXPECT_EQ(packed<__half>(1.0f, -2.0f), 0xc0003c00u);
  EXPECT_EQ(packed<__nv_bfloat16>(1.0f, -2.0f), 0xc0003f80u);
}

TEST(Pack, RoundsToTheNearestAndTiesToEven) {
  const float half_step = 0x1p-11f, bf_step = 0x1p-8f;  // half a unit in the last place of 1
  EXPECT_EQ(packed<__half>(1 + half_step, 1 + 3 * half_step), 0x3c023c00u);
  EXPECT_EQ(packed<__nv_bfloat16>(1 + bf_step, 1 + 3 * bf_step), 0x3f823f80u);
  EXPECT_EQ(packed<__half>(1 + 1.25f * half_step, 65520.0f), 0x7c003c01u);
}

}  // namespace mma_test
}  // namespace fa
