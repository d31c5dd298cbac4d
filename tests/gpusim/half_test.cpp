/// @file
/// Compares the simulator's half and bfloat16 with Eigen's types and with a table of all their values, and
/// its fp8 with the definition of e4m3.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <gtest/gtest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <ios>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace {

template <class To, class From>
To bit_cast(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  std::memcpy(static_cast<void*>(&result), &value, sizeof(To));  // std::bit_cast refuses Eigen's types
  return result;
}

struct Half {
  using Scalar = __half;
  using Pair = __half2;
  using Peer = Eigen::half;
  static constexpr int kFractionBits = 10;
  static constexpr int kMaxExponent = 15;

  static Scalar from_float(float value) { return __float2half(value); }
  static float to_float(Scalar value) { return __half2float(value); }
  static Scalar from_double(double value) { return __double2half(value); }
  static Scalar from_bits(std::uint16_t bits) { return __ushort_as_half(bits); }
  static std::uint16_t bits(Scalar value) { return __half_as_ushort(value); }
};

struct BFloat16 {
  using Scalar = __nv_bfloat16;
  using Pair = __nv_bfloat162;
  using Peer = Eigen::bfloat16;
  static constexpr int kFractionBits = 7;
  static constexpr int kMaxExponent = 127;

  static Scalar from_float(float value) { return __float2bfloat16(value); }
  static float to_float(Scalar value) { return __bfloat162float(value); }
  static Scalar from_double(double value) { return __double2bfloat16(value); }
  static Scalar from_bits(std::uint16_t bits) { return __ushort_as_bfloat16(bits); }
  static std::uint16_t bits(Scalar value) { return __bfloat16_as_ushort(value); }
};

constexpr std::uint16_t kSign = 0x8000;
constexpr std::uint16_t kCanonicalNaN = 0x7fff;

template <class F>
constexpr std::uint16_t kInfinity = std::uint16_t((2 * F::kMaxExponent + 1) << F::kFractionBits);

template <class F>
bool is_nan(std::uint16_t bits) {
  return (bits & ~kSign) > kInfinity<F>;
}

/// The values of the patterns 0 ... infinity, by the definition of the format. Infinity appears as the power
/// of two that would follow the largest number: that is what rounding compares with.
template <class F>
const std::vector<double>& values() {
  static const std::vector<double> table = [] {
    std::vector<double> result;
    for (int bits = 0; bits <= kInfinity<F>; ++bits) {
      const int exponent = bits >> F::kFractionBits;
      const int fraction = bits & ((1 << F::kFractionBits) - 1);
      const int significand = exponent == 0 ? fraction : fraction + (1 << F::kFractionBits);
      result.push_back(std::ldexp(significand, std::max(exponent, 1) - F::kMaxExponent - F::kFractionBits));
    }
    return result;
  }();
  return table;
}

template <class F>
double value_of(std::uint16_t bits) {
  if (is_nan<F>(bits)) return std::numeric_limits<double>::quiet_NaN();
  const std::uint16_t magnitude = bits & ~kSign;
  const double value =
      magnitude == kInfinity<F> ? std::numeric_limits<double>::infinity() : values<F>()[magnitude];
  return (bits & kSign) != 0 ? -value : value;
}

/// The pattern nearest to a value, ties to even, found by search, independently of the code under test.
template <class F>
std::uint16_t nearest(long double value) {
  if (std::isnan(value)) return kCanonicalNaN;
  const std::uint16_t sign = std::signbit(value) ? kSign : 0;
  const long double magnitude = std::fabs(value);
  const std::vector<double>& table = values<F>();
  if (magnitude >= table.back()) return sign | kInfinity<F>;
  const auto above = std::upper_bound(table.begin(), table.end(), magnitude);
  const auto below_bits = std::uint16_t(above - table.begin() - 1);
  const double midpoint = (above[-1] + above[0]) / 2;
  const bool up = magnitude > midpoint || (magnitude == midpoint && below_bits % 2 == 1);
  return sign | std::uint16_t(below_bits + (up ? 1 : 0));
}

/// Patterns that together cover every exponent and many fractions: the ends of every range and a stride.
template <class F>
std::vector<std::uint16_t> sample(int stride) {
  std::vector<std::uint16_t> result;
  for (int bits = 0; bits < 65536; bits += stride) result.push_back(std::uint16_t(bits));
  constexpr std::uint16_t kOne = F::kMaxExponent << F::kFractionBits;
  constexpr std::uint16_t kFirstNormal = 1 << F::kFractionBits;
  for (std::uint16_t bits : {std::uint16_t(0), std::uint16_t(1), std::uint16_t(2), kFirstNormal, kOne,
                             kInfinity<F>, kCanonicalNaN}) {
    for (int step : {-1, 0, 1}) {
      const auto magnitude = std::uint16_t((bits + step) & ~kSign);
      result.push_back(magnitude);
      result.push_back(magnitude | kSign);
    }
  }
  return result;
}

/// Counts mismatches and describes the first ones, so that a broken rounding does not print a million lines.
class Mismatches {
 public:
  ~Mismatches() { EXPECT_EQ(count_, 0) << "patterns that differ"; }

  template <class F>
  void compare(std::uint16_t actual, std::uint16_t expected, double a, double b = 0, double c = 0) {
    if (actual == expected || (is_nan<F>(actual) && is_nan<F>(expected))) return;
    if (++count_ <= 5) {
      ADD_FAILURE() << std::hexfloat << "operands " << a << ", " << b << ", " << c << std::hex << ": got 0x"
                    << actual << ", not 0x" << expected;
    }
  }

 private:
  std::int64_t count_ = 0;
};

template <class F>
class Float16Test : public testing::Test {};

struct FormatName {
  template <class F>
  static std::string GetName(int) {
    return std::is_same_v<F, Half> ? "half" : "bfloat16";
  }
};

using Formats = testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(Float16Test, Formats, FormatName);

TYPED_TEST(Float16Test, EveryPatternWidensAsEigenAndComesBack) {
  using F = TypeParam;
  for (int i = 0; i < 65536; ++i) {
    const auto bits = std::uint16_t(i);
    const float actual = F::to_float(F::from_bits(bits));
    const float expected = static_cast<float>(bit_cast<typename F::Peer>(bits));
    if (is_nan<F>(bits)) {
      ASSERT_TRUE(std::isnan(actual)) << std::hex << bits;
      ASSERT_EQ(F::bits(F::from_float(actual)), kCanonicalNaN) << std::hex << bits;
      continue;
    }
    ASSERT_EQ(bit_cast<std::uint32_t>(actual), bit_cast<std::uint32_t>(expected)) << std::hex << bits;
    ASSERT_EQ(double(actual), value_of<F>(bits)) << std::hex << bits;
    ASSERT_EQ(F::bits(F::from_float(actual)), bits);
    ASSERT_EQ(bit_cast<std::uint16_t>(typename F::Peer(actual)), bits);
  }
}

TYPED_TEST(Float16Test, MidpointsRoundToEvenAndTheirNeighboursAway) {
  using F = TypeParam;
  const float infinity = std::numeric_limits<float>::infinity();
  for (int i = 0; i < kInfinity<F>; ++i) {
    const auto low = std::uint16_t(i);
    const auto high = std::uint16_t(i + 1);
    const auto midpoint = float((values<F>()[low] + values<F>()[high]) / 2);
    ASSERT_EQ(double(midpoint) * 2, values<F>()[low] + values<F>()[high]) << "no float";
    const std::uint16_t even = low % 2 == 0 ? low : high;
    ASSERT_EQ(F::bits(F::from_float(midpoint)), even) << std::hex << i;
    ASSERT_EQ(F::bits(F::from_float(std::nextafter(midpoint, 0.0f))), low) << std::hex << i;
    ASSERT_EQ(F::bits(F::from_float(std::nextafter(midpoint, infinity))), high) << std::hex << i;
    ASSERT_EQ(F::bits(F::from_float(-midpoint)), even | kSign) << std::hex << i;
    ASSERT_EQ(F::bits(F::from_float(-std::nextafter(midpoint, 0.0f))), low | kSign) << std::hex << i;
    ASSERT_EQ(F::bits(F::from_float(-std::nextafter(midpoint, infinity))), high | kSign) << std::hex << i;
    // Nearer to the midpoint than any float: a conversion through float would treat it as a tie.
    const double exact = midpoint;
    ASSERT_EQ(F::bits(F::from_double(exact)), even) << std::hex << i;
    ASSERT_EQ(F::bits(F::from_double(std::nextafter(exact, 0.0))), low) << std::hex << i;
    ASSERT_EQ(F::bits(F::from_double(std::nextafter(exact, 1e300))), high) << std::hex << i;
  }
}

TYPED_TEST(Float16Test, RandomFloatsRoundAsEigenDoes) {
  using F = TypeParam;
  Mismatches mismatches;
  std::mt19937 random(2022);
  for (int i = 0; i < 4'000'000; ++i) {
    const auto value = bit_cast<float>(std::uint32_t(random()));
    mismatches.compare<F>(F::bits(F::from_float(value)), bit_cast<std::uint16_t>(typename F::Peer(value)),
                          value);
  }
}

TYPED_TEST(Float16Test, DoublesBeyondTheRangeOfFloats) {
  using F = TypeParam;
  const double infinity = std::numeric_limits<double>::infinity();
  const double smallest = values<F>()[1];
  EXPECT_EQ(F::bits(F::from_double(1e300)), kInfinity<F>);
  EXPECT_EQ(F::bits(F::from_double(-infinity)), kInfinity<F> | kSign);
  EXPECT_EQ(F::bits(F::from_double(std::nan(""))), kCanonicalNaN);
  EXPECT_EQ(F::bits(F::from_double(-std::nan(""))), kCanonicalNaN);
  EXPECT_EQ(F::bits(F::from_double(std::numeric_limits<double>::denorm_min())), 0);
  EXPECT_EQ(F::bits(F::from_double(-1e-300)), kSign);
  EXPECT_EQ(F::bits(F::from_double(smallest / 2)), 0);
  EXPECT_EQ(F::bits(F::from_double(std::nextafter(smallest / 2, 1.0))), 1);
  EXPECT_EQ(F::bits(F::from_double(smallest / 4)), 0);
}

TYPED_TEST(Float16Test, ArithmeticIsExactAndRoundedOnce) {
  using F = TypeParam;
  Mismatches mismatches;
  const std::vector<std::uint16_t> operands = sample<F>(127);
  for (std::uint16_t a_bits : operands) {
    for (std::uint16_t b_bits : operands) {
      const auto a = F::from_bits(a_bits);
      const auto b = F::from_bits(b_bits);
      const double x = value_of<F>(a_bits);
      const double y = value_of<F>(b_bits);
      mismatches.compare<F>(F::bits(a + b), nearest<F>(x + y), x, y);
      mismatches.compare<F>(F::bits(a - b), nearest<F>(x - y), x, y);
      mismatches.compare<F>(F::bits(a * b), nearest<F>(x * y), x, y);
      mismatches.compare<F>(F::bits(a / b), nearest<F>(x / y), x, y);
    }
  }
}

TYPED_TEST(Float16Test, FusedMultiplyAddRoundsOnce) {
  using F = TypeParam;
  Mismatches mismatches;
  std::mt19937 random(1986);
  int compared = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    const double x = value_of<F>(std::uint16_t(random()));
    const double y = value_of<F>(std::uint16_t(random()));
    const double product = x * y;
    // An addend of any size that still matters, so that the sum needs up to 64 bits: more than a double has.
    const int shift = int(random() % 100) - 50;
    const auto c = F::from_double(std::ldexp(product, shift) * (random() % 2 == 0 ? 1.1 : -0.9));
    const double z = F::to_float(c);
    const long double sum = static_cast<long double>(product) + z;
    const bool exact = sum - product == z && sum - z == product;
    if (!exact) continue;
    ++compared;
    const auto result = __hfma(F::from_double(x), F::from_double(y), c);
    mismatches.compare<F>(F::bits(result), nearest<F>(sum), x, y, z);
  }
  EXPECT_GT(compared, 300'000);
}

TYPED_TEST(Float16Test, FusedMultiplyAddSeesAnAddendFarBelowATie) {
  using F = TypeParam;
  Mismatches mismatches;
  constexpr int kFirst = 1 << F::kFractionBits;  // significands: kFirst <= a < 2 * kFirst
  const double tiny = values<F>()[1];
  int ties = 0;
  for (int a = kFirst; a < 2 * kFirst; ++a) {
    for (int b = kFirst; b < 2 * kFirst; ++b) {
      const int product = a * b;
      const int unit =
          product < 2 * kFirst * kFirst ? kFirst : 2 * kFirst;  // in the last place of the result
      if (product % unit != unit / 2) continue;
      ++ties;
      const double x = a;
      const double y = double(b) / kFirst;  // keeps the product in the range of half
      const auto down = nearest<F>((product - unit / 2) / double(kFirst));
      for (double z : {-tiny, 0.0, tiny}) {
        const auto expected = std::uint16_t(down + (z > 0 || (z == 0 && down % 2 == 1) ? 1 : 0));
        const auto result = __hfma(F::from_double(x), F::from_double(y), F::from_double(z));
        mismatches.compare<F>(F::bits(result), expected, x, y, z);
        const auto negated = __hfma(F::from_double(-x), F::from_double(y), F::from_double(-z));
        mismatches.compare<F>(F::bits(negated), expected | kSign, -x, y, -z);
      }
    }
  }
  EXPECT_GT(ties, 50);
}

TYPED_TEST(Float16Test, ComparisonsFollowTheValues) {
  using F = TypeParam;
  const std::vector<std::uint16_t> operands = sample<F>(251);
  for (std::uint16_t a_bits : operands) {
    for (std::uint16_t b_bits : operands) {
      const auto a = F::from_bits(a_bits);
      const auto b = F::from_bits(b_bits);
      const double x = value_of<F>(a_bits);
      const double y = value_of<F>(b_bits);
      const bool unordered = std::isnan(x) || std::isnan(y);
      ASSERT_EQ(__heq(a, b), x == y) << x << " and " << y;
      ASSERT_EQ(__hne(a, b), x < y || x > y) << x << " and " << y;
      ASSERT_EQ(__hlt(a, b), x < y) << x << " and " << y;
      ASSERT_EQ(__hle(a, b), x <= y) << x << " and " << y;
      ASSERT_EQ(__hgt(a, b), x > y) << x << " and " << y;
      ASSERT_EQ(__hge(a, b), x >= y) << x << " and " << y;
      ASSERT_EQ(__hequ(a, b), unordered || x == y) << x << " and " << y;
      ASSERT_EQ(__hneu(a, b), unordered || x != y) << x << " and " << y;
      ASSERT_EQ(__hltu(a, b), unordered || x < y) << x << " and " << y;
      ASSERT_EQ(__hleu(a, b), unordered || x <= y) << x << " and " << y;
      ASSERT_EQ(__hgtu(a, b), unordered || x > y) << x << " and " << y;
      ASSERT_EQ(__hgeu(a, b), unordered || x >= y) << x << " and " << y;
      ASSERT_EQ(a == b, x == y) << x << " and " << y;
      ASSERT_EQ(a != b, x != y) << x << " and " << y;
      ASSERT_EQ(a < b, x < y) << x << " and " << y;
      ASSERT_EQ(a <= b, x <= y) << x << " and " << y;
      ASSERT_EQ(a > b, x > y) << x << " and " << y;
      ASSERT_EQ(a >= b, x >= y) << x << " and " << y;
    }
  }
}

TYPED_TEST(Float16Test, MaximumAndMinimum) {
  using F = TypeParam;
  const std::vector<std::uint16_t> operands = sample<F>(251);
  for (std::uint16_t a : operands) {
    for (std::uint16_t b : operands) {
      const double x = value_of<F>(a);
      const double y = value_of<F>(b);
      std::uint16_t larger = x > y || (x == y && !std::signbit(x)) ? a : b;
      std::uint16_t smaller = x < y || (x == y && std::signbit(x)) ? a : b;
      const bool any_nan = std::isnan(x) || std::isnan(y);
      if (any_nan) larger = smaller = std::isnan(x) ? std::isnan(y) ? kCanonicalNaN : b : a;
      ASSERT_EQ(F::bits(__hmax(F::from_bits(a), F::from_bits(b))), larger) << x << " and " << y;
      ASSERT_EQ(F::bits(__hmin(F::from_bits(a), F::from_bits(b))), smaller) << x << " and " << y;
      if (any_nan) larger = smaller = kCanonicalNaN;
      ASSERT_EQ(F::bits(__hmax_nan(F::from_bits(a), F::from_bits(b))), larger) << x << " and " << y;
      ASSERT_EQ(F::bits(__hmin_nan(F::from_bits(a), F::from_bits(b))), smaller) << x << " and " << y;
    }
  }
}

TYPED_TEST(Float16Test, SignsAndClassesOfEveryPattern) {
  using F = TypeParam;
  for (int i = 0; i < 65536; ++i) {
    const auto bits = std::uint16_t(i);
    const auto value = F::from_bits(bits);
    const bool nan = is_nan<F>(bits);
    ASSERT_EQ(F::bits(value), bits);
    ASSERT_EQ(F::bits(__hneg(value)), nan ? kCanonicalNaN : bits ^ kSign);
    ASSERT_EQ(F::bits(-value), nan ? kCanonicalNaN : bits ^ kSign);
    ASSERT_EQ(F::bits(__habs(value)), nan ? kCanonicalNaN : bits & ~kSign);
    ASSERT_EQ(__hisnan(value), nan);
    ASSERT_EQ(__hisinf(value), (bits & ~kSign) != kInfinity<F> ? 0 : bits == kInfinity<F> ? 1 : -1);
    ASSERT_EQ(bool(value), (bits & ~kSign) != 0);
  }
}

template <class T, class F>
void expect_saturating_truncation() {
  for (int i = 0; i < 65536; ++i) {
    const auto bits = std::uint16_t(i);
    const T actual = F::from_bits(bits);
    T expected = sizeof(T) < 8 ? T(0) : T(std::uint64_t(1) << 63);  // of NaN
    if (!is_nan<F>(bits)) {
      const long double whole = std::trunc(static_cast<long double>(value_of<F>(bits)));
      expected =
          whole < static_cast<long double>(std::numeric_limits<T>::min())   ? std::numeric_limits<T>::min()
          : whole > static_cast<long double>(std::numeric_limits<T>::max()) ? std::numeric_limits<T>::max()
                                                                            : T(whole);
    }
    ASSERT_EQ(actual, expected) << std::hex << i << ", " << sizeof(T) << " bytes";
  }
}

TYPED_TEST(Float16Test, ToIntegersTruncatesAndSaturates) {
  expect_saturating_truncation<signed char, TypeParam>();
  expect_saturating_truncation<unsigned char, TypeParam>();
  expect_saturating_truncation<short, TypeParam>();
  expect_saturating_truncation<unsigned short, TypeParam>();
  expect_saturating_truncation<int, TypeParam>();
  expect_saturating_truncation<unsigned, TypeParam>();
  expect_saturating_truncation<long long, TypeParam>();
  expect_saturating_truncation<unsigned long long, TypeParam>();
}

TYPED_TEST(Float16Test, FromIntegersRoundsOnce) {
  using F = TypeParam;
  using Scalar = typename F::Scalar;
  Mismatches mismatches;
  std::mt19937_64 random(64);
  for (int i = 0; i < 200'000; ++i) {
    const std::uint64_t value = random() >> random() % 64;
    const auto negative = -static_cast<long long>(value >> 1);
    mismatches.compare<F>(F::bits(Scalar(value)), nearest<F>(value), double(value));
    mismatches.compare<F>(F::bits(Scalar(negative)), nearest<F>(negative), double(negative));
    mismatches.compare<F>(F::bits(Scalar(int(value))), nearest<F>(int(value)), int(value));
    mismatches.compare<F>(F::bits(Scalar(short(value))), nearest<F>(short(value)), short(value));
  }
  // One above and one below every tie: a double cannot hold these, but the rounding must respect them
  // nonetheless.
  for (int exponent = F::kFractionBits + 2; exponent < 64; ++exponent) {
    const std::uint64_t unit = std::uint64_t(1) << (exponent - F::kFractionBits);
    for (std::uint64_t odd : {0, 1}) {
      const std::uint64_t tie = (std::uint64_t(1) << exponent) + odd * unit + unit / 2;
      for (std::uint64_t value : {tie - 1, tie, tie + 1}) {
        mismatches.compare<F>(F::bits(Scalar(value)), nearest<F>(value), double(value));
      }
    }
  }
}

TYPED_TEST(Float16Test, LayoutIsThatOfTheDevice) {
  using Scalar = typename TypeParam::Scalar;
  using Pair = typename TypeParam::Pair;
  static_assert(sizeof(Scalar) == 2 && alignof(Scalar) == 2);
  static_assert(sizeof(Pair) == 4 && alignof(Pair) == 4);
  // Shared memory contains arrays of them: no constructor may run, and a copy must be a copy of bytes.
  static_assert(std::is_trivially_default_constructible_v<Scalar> && std::is_trivially_copyable_v<Scalar>);
  static_assert(std::is_trivially_default_constructible_v<Pair> && std::is_trivially_copyable_v<Pair>);
  static_assert(std::is_standard_layout_v<Scalar> && std::is_standard_layout_v<Pair>);
  const Pair pair(TypeParam::from_bits(0x1234), TypeParam::from_bits(0xabcd));
  EXPECT_EQ(bit_cast<std::uint32_t>(pair), 0xabcd1234u);
}

TYPED_TEST(Float16Test, OperatorsAssign) {
  using F = TypeParam;
  typename F::Scalar value = 3;
  value += 0.5f;
  EXPECT_EQ(float(value), 3.5f);
  value -= F::from_float(1.0f);
  value *= F::from_float(4.0f);
  value /= F::from_float(2.0f);
  EXPECT_EQ(float(value), 5.0f);
  EXPECT_EQ(float(value++), 5.0f);
  EXPECT_EQ(float(++value), 7.0f);
  EXPECT_EQ(float(value--), 7.0f);
  EXPECT_EQ(float(--value), 5.0f);
  EXPECT_EQ(float(+value), 5.0f);
}

TYPED_TEST(Float16Test, PairsWorkOnBothMembers) {
  using F = TypeParam;
  using Pair = typename F::Pair;
  const auto pair = [](float low, float high) { return Pair(F::from_float(low), F::from_float(high)); };
  const auto expect = [](Pair actual, float low, float high) {
    EXPECT_EQ(float(actual.x), low);
    EXPECT_EQ(float(actual.y), high);
  };
  const Pair a = pair(1, -6);
  const Pair b = pair(2, 3);
  const Pair nan = pair(1, std::nanf(""));
  expect(__hadd2(a, b), 3, -3);
  expect(__hsub2(a, b), -1, -9);
  expect(__hmul2(a, b), 2, -18);
  expect(__h2div(a, b), 0.5, -2);
  expect(__hfma2(a, b, pair(10, 20)), 12, 2);
  expect(__hneg2(a), -1, 6);
  expect(__habs2(a), 1, 6);
  expect(__hmax2(a, b), 2, 3);
  expect(__hmin2(a, b), 1, -6);
  expect(__heq2(a, pair(1, 6)), 1, 0);
  expect(__hne2(nan, b), 1, 0);
  expect(__hlt2(a, pair(1, 6)), 0, 1);
  expect(__hle2(a, pair(1, -7)), 1, 0);
  expect(__hgt2(a, pair(1, -7)), 0, 1);
  expect(__hge2(a, pair(1, 6)), 1, 0);
  expect(__hisnan2(nan), 0, 1);
  expect(__lowhigh2highlow(a), -6, 1);
  EXPECT_EQ(__low2float(a), 1);
  EXPECT_EQ(__high2float(a), -6);

  expect(a + b, 3, -3);
  expect(a - b, -1, -9);
  expect(a * b, 2, -18);
  expect(a / b, 0.5, -2);
  expect(-a, -1, 6);
  Pair sum = a;
  sum += b;
  expect(sum, 3, -3);
  sum -= b;
  sum *= b;
  expect(sum, 2, -18);
  sum /= b;
  expect(+sum, 1, -6);

  EXPECT_TRUE(a == a);
  EXPECT_FALSE(a == pair(1, 6));
  EXPECT_FALSE(a != pair(1, 6)) << "holds only where both members differ";
  EXPECT_TRUE(a != pair(2, 6));
  EXPECT_TRUE(a < b && a <= b && b > a && b >= a);
  EXPECT_FALSE(a < nan || a <= nan || nan > a || nan >= a);
}

TEST(HalfTest, NamesOfPairFunctions) {
  const __half2 a(__half(1), __half(2));
  const __half2 b(__half(3), __half(4));
  const auto bits = [](__half2 pair) { return bit_cast<std::uint32_t>(pair); };
  EXPECT_EQ(bits(a), 0x40003c00u);
  EXPECT_EQ(bits(make_half2(__half(1), __half(2))), bits(a));
  EXPECT_EQ(bits(__halves2half2(a.x, a.y)), bits(a));
  EXPECT_EQ(bits(__floats2half2_rn(1, 2)), bits(a));
  EXPECT_EQ(bits(__float22half2_rn(float2{1, 2})), bits(a));
  EXPECT_EQ(bits(__half2half2(a.x)), 0x3c003c00u);
  EXPECT_EQ(bits(__float2half2_rn(1)), 0x3c003c00u);
  EXPECT_EQ(bits(__low2half2(a)), 0x3c003c00u);
  EXPECT_EQ(bits(__high2half2(a)), 0x40004000u);
  EXPECT_EQ(bits(__lows2half2(a, b)), 0x42003c00u);
  EXPECT_EQ(bits(__highs2half2(a, b)), 0x44004000u);
  EXPECT_EQ(float(__low2half(a)), 1);
  EXPECT_EQ(float(__high2half(a)), 2);
  EXPECT_EQ(__half22float2(a).x, 1);
  EXPECT_EQ(__half22float2(a).y, 2);
  EXPECT_EQ(float(CUDART_MAX_NORMAL_FP16), 65504);
  EXPECT_TRUE(std::isinf(float(CUDART_INF_FP16)));
  EXPECT_EQ(__half_as_short(__short_as_half(-2)), -2);
}

TEST(BFloat16Test, NamesOfPairFunctions) {
  const __nv_bfloat162 a(__nv_bfloat16(1), __nv_bfloat16(2));
  const __nv_bfloat162 b(__nv_bfloat16(3), __nv_bfloat16(4));
  const auto bits = [](__nv_bfloat162 pair) { return bit_cast<std::uint32_t>(pair); };
  EXPECT_EQ(bits(a), 0x40003f80u);
  EXPECT_EQ(bits(make_bfloat162(__nv_bfloat16(1), __nv_bfloat16(2))), bits(a));
  EXPECT_EQ(bits(__halves2bfloat162(a.x, a.y)), bits(a));
  EXPECT_EQ(bits(__floats2bfloat162_rn(1, 2)), bits(a));
  EXPECT_EQ(bits(__float22bfloat162_rn(float2{1, 2})), bits(a));
  EXPECT_EQ(bits(__bfloat162bfloat162(a.x)), 0x3f803f80u);
  EXPECT_EQ(bits(__float2bfloat162_rn(1)), 0x3f803f80u);
  EXPECT_EQ(bits(__low2bfloat162(a)), 0x3f803f80u);
  EXPECT_EQ(bits(__high2bfloat162(a)), 0x40004000u);
  EXPECT_EQ(bits(__lows2bfloat162(a, b)), 0x40403f80u);
  EXPECT_EQ(bits(__highs2bfloat162(a, b)), 0x40804000u);
  EXPECT_EQ(float(__low2bfloat16(a)), 1);
  EXPECT_EQ(float(__high2bfloat16(a)), 2);
  EXPECT_EQ(__bfloat1622float2(a).x, 1);
  EXPECT_EQ(__bfloat1622float2(a).y, 2);
  EXPECT_EQ(float(CUDART_MAX_NORMAL_BF16), 0x1.fep127f);
  EXPECT_TRUE(std::isinf(float(CUDART_INF_BF16)));
  EXPECT_EQ(__bfloat16_as_short(__short_as_bfloat16(-2)), -2);
}

TEST(Float16ConversionTest, OneFormatFromTheOther) {
  EXPECT_EQ(float(__half(__nv_bfloat16(1.5f))), 1.5f);
  EXPECT_TRUE(std::isinf(float(__half(__nv_bfloat16(1e10f)))));
  EXPECT_EQ(float(__nv_bfloat16(__half(257))), 256) << "a tie, and 256 is the even one";
  static_assert(!std::is_convertible_v<__half, __nv_bfloat16>, "only when asked for");
  static_assert(!std::is_convertible_v<__nv_bfloat16, __half>, "only when asked for");
  static_assert(std::is_convertible_v<float, __half> && std::is_convertible_v<__half, float>);
}

// ---- fp8 --------------------------------------------------------------------------------------------------

/// A number of e4m3 by its definition.
float value_of_e4m3(int bits) {
  const int exponent = bits >> 3 & 15, fraction = bits & 7;
  if (exponent == 15 && fraction == 7) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude =
      exponent == 0 ? std::ldexp(float(fraction), -9) : std::ldexp(float(8 + fraction), exponent - 10);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

TEST(Fp8, AllNumbersAreExactInHalfAndBFloat16) {
  for (int bits = 0; bits < 256; ++bits) {
    const float expected = value_of_e4m3(bits);
    __nv_fp8_e4m3 number;
    number.__x = __nv_fp8_storage_t(bits);
    const __half_raw raw = __nv_cvt_fp8_to_halfraw(number.__x, __NV_E4M3);
    if (std::isnan(expected)) {
      EXPECT_EQ(raw.x, kCanonicalNaN);
      EXPECT_TRUE(std::isnan(float(number)));
      continue;
    }
    EXPECT_EQ(bit_cast<std::uint32_t>(float(number)), bit_cast<std::uint32_t>(expected)) << bits;
    EXPECT_EQ(raw.x, Half::bits(Half::from_float(expected))) << bits;
    EXPECT_EQ(__half2float(__half(raw)), expected) << bits;
    EXPECT_EQ(float(__nv_bfloat16(number)), expected) << bits;
    EXPECT_EQ(__nv_fp8_e4m3(expected).__x, bits);
    EXPECT_EQ(__nv_fp8_e4m3(__half(raw)).__x, bits);
  }
}

TEST(Fp8, PairsAndQuadsHoldTheFirstNumberInTheLowestBits) {
  EXPECT_EQ(__nv_fp8x2_e4m3(float2{1.0f, -2.0f}).__x, 0xc038);
  EXPECT_EQ(__nv_fp8x4_e4m3(float4{1.0f, -2.0f, 448.0f, 0.0f}).__x, 0x007ec038u);
  const __half2 pair(__nv_cvt_fp8x2_to_halfraw2(0xc038, __NV_E4M3));
  EXPECT_EQ(float(pair.x), 1.0f);
  EXPECT_EQ(float(pair.y), -2.0f);
  __nv_fp8x4_e4m3 quad;
  quad.__x = 0x017ec038u;
  EXPECT_EQ(float4(quad).x, 1.0f);
  EXPECT_EQ(float4(quad).y, -2.0f);
  EXPECT_EQ(float4(quad).z, 448.0f);
  EXPECT_EQ(float4(quad).w, 0x1p-9f);
}

TEST(Fp8, RoundsToTheNearestNumberAndTiesToEven) {
  for (int bits = 0; bits < 0x7e; ++bits) {  // between each two neighbours
    const float low = value_of_e4m3(bits), high = value_of_e4m3(bits + 1), middle = 0.5f * (low + high);
    EXPECT_EQ(__nv_fp8_e4m3(middle).__x, bits + bits % 2) << bits;
    EXPECT_EQ(__nv_fp8_e4m3(std::nextafter(middle, 0.0f)).__x, bits) << bits;
    EXPECT_EQ(__nv_fp8_e4m3(std::nextafter(-middle, -1000.0f)).__x, 0x80 | (bits + 1)) << bits;
  }
}

TEST(Fp8, SaturatesOrGivesNaN) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float large : {464.5f, 1e30f, kInfinity}) {
    EXPECT_EQ(__nv_fp8_e4m3(large).__x, 0x7e);
    EXPECT_EQ(__nv_fp8_e4m3(-large).__x, 0xfe);
    EXPECT_EQ(__nv_cvt_float_to_fp8(large, __NV_NOSAT, __NV_E4M3), 0x7f);
  }
  EXPECT_EQ(__nv_cvt_float_to_fp8(464.0f, __NV_NOSAT, __NV_E4M3), 0x7e);
  EXPECT_EQ(__nv_fp8_e4m3(std::numeric_limits<float>::quiet_NaN()).__x, 0x7f);
}

}  // namespace
