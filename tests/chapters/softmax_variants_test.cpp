// Tests every variant of a softmax chapter with every kind of shape and input: right results, no defects, and
// exactly the bytes of its formula. Linked once with each softmax chapter.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "harness/runner.hpp"
#include "scales.hpp"

namespace fa {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

const AnyChapter& chapter() {
  static const AnyChapter instance = describe_chapter();
  return instance;
}

class SoftmaxVariant : public testing::TestWithParam<std::string> {
 protected:
  static VariantResult run_on(const Softmax::Shape& shape, const TensorMap& inputs) {
    return run<Softmax>(chapter(), GetParam(), shape, inputs);
  }
  static std::string text(const Softmax::Shape& shape) {
    return std::to_string(shape.rows) + "x" + std::to_string(shape.cols);
  }
  /// x from a function of (row, column).
  template <class F>
  static TensorMap filled(const Softmax::Shape& shape, F value) {
    TensorMap inputs = random_inputs<Softmax>(shape, Init::kNormal);
    for (std::int64_t r = 0; r < shape.rows; ++r) {
      for (std::int64_t c = 0; c < shape.cols; ++c) {
        float& x = inputs.at("x").data[std::size_t(r * shape.cols + c)];
        x = value(r, c, x);
      }
    }
    return inputs;
  }
};

TEST_P(SoftmaxVariant, IsRightAndMovesTheBytesOfItsFormula) {
  const std::vector<Softmax::Shape> shapes = {
      {1, 1},    {1, 2},     {2, 3},    {129, 5},   {3, 31},    {5, 32},    {4, 33},    {2, 127},
      {2, 128},  {7, 129},   {33, 256}, {64, 1000}, {3, 1024},  {2, 1025},  {1, 4096},  {3, 4097},
      {2, 8190}, {1, 16384}, {2, 229},  {1, 16387}, {1, 32768}, {2, 32771}, {1, 65536}, {1, 70001}};
  for (const Softmax::Shape& shape : shapes) {
    const VariantResult result = run_on(shape, random_inputs<Softmax>(shape, Init::kNormal, 1));
    EXPECT_EQ(result.complaint(), "") << text(shape);
  }
}

TEST_P(SoftmaxVariant, SLOW_IsRightOnRandomShapes) {
  std::mt19937 random(20);
  for (int i = 0; i < 30; ++i) {
    const Softmax::Shape shape{std::int64_t(1 + random() % 70),
                               std::int64_t(1 + random() % (i % 3 == 0 ? 3000 : 200))};
    const Init init = i % 2 == 0 ? Init::kNormal : Init::kUniform;
    EXPECT_EQ(run_on(shape, random_inputs<Softmax>(shape, init, random())).complaint(), "") << text(shape);
  }
}

// Outliers reach beyond what exp() can represent: a variant that does not subtract the maximum must have
// declared that it fails, and it must in fact fail.
TEST_P(SoftmaxVariant, IsRightOnOutliersOrDeclaredToFail) {
  for (const Softmax::Shape& shape : {Softmax::Shape{32, 1000}, {9, 333}, {1, 20001}}) {
    const VariantResult result = run_on(shape, random_inputs<Softmax>(shape, Init::kOutliers, 3));
    EXPECT_EQ(result.complaint(), "") << text(shape);
    EXPECT_EQ(result.known_failure.has_value(), !result.check->passed()) << text(shape);
  }
}

TEST_P(SoftmaxVariant, GivesZerosForARowOfMinusInfinity) {
  const Softmax::Shape shape{6, 150};
  const VariantResult result =
      run_on(shape, filled(shape, [](auto r, auto, float x) { return r % 2 ? -kInf : x; }));
  EXPECT_TRUE(result.defects.empty()) << result.complaint();
  for (std::int64_t c = 0; c < shape.cols; ++c) {
    EXPECT_EQ(result.outputs.at("y").data[std::size_t(shape.cols + c)], 0.0f) << "column " << c;
  }
  EXPECT_EQ(result.complaint(), "");
}

TEST_P(SoftmaxVariant, AcceptsMinusInfinityInAnyPlace) {
  const Softmax::Shape shape{40, 141};  // a masked prefix, as long as the row's number times 3
  EXPECT_EQ(
      run_on(shape, filled(shape, [](auto r, auto c, float x) { return c < 3 * r ? -kInf : x; })).complaint(),
      "");
}

TEST_P(SoftmaxVariant, PassesNaNOnToItsWholeRowAndNoOther) {
  for (const std::int64_t cols : {1, 33, 500, 4099, 33001}) {
    const Softmax::Shape shape{5, cols};
    for (const std::int64_t column : {std::int64_t(0), cols / 2, cols - 1}) {
      const VariantResult result = run_on(
          shape, filled(shape, [&](auto r, auto c, float x) { return r == 2 && c == column ? kNaN : x; }));
      const std::vector<float>& y = result.outputs.at("y").data;
      for (std::int64_t i = 0; i < shape.rows * cols; ++i) {
        ASSERT_EQ(std::isnan(y[std::size_t(i)]), i / cols == 2) << text(shape) << " element " << i;
      }
    }
  }
}

TEST_P(SoftmaxVariant, IsRightFarFromZeroUnlessDeclared) {
  const Softmax::Shape shape{8, 300};
  for (const float shift : {-3e4f, -200.0f, 200.0f, 3e4f}) {
    const VariantResult result = run_on(shape, filled(shape, [&](auto, auto, float x) { return x + shift; }));
    EXPECT_EQ(result.complaint(), "") << "shifted by " << shift;
  }
}

TEST_P(SoftmaxVariant, RowsSumToOne) {
  const Softmax::Shape shape{50, 777};
  const VariantResult result = run_on(shape, random_inputs<Softmax>(shape, Init::kNormal, 5));
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    double sum = 0;
    for (std::int64_t c = 0; c < shape.cols; ++c)
      sum += result.outputs.at("y").data[std::size_t(r * shape.cols + c)];
    EXPECT_NEAR(sum, 1.0, 1e-5) << "row " << r;
  }
}

TEST(SoftmaxProgram, RefusesScalesThatFp32CannotHold) {
  const std::string data = FA_SOURCE_DIR "/data/";
  expect_bad_scales_refused(chapter(), {"--q", data + "q.npy", "--k", data + "k.npy"});
}

INSTANTIATE_TEST_SUITE_P(Every, SoftmaxVariant, testing::ValuesIn(variant_names(chapter())),
                         [](const auto& variant) { return variant.param; });

}  // namespace
}  // namespace fa
