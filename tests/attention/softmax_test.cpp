#include "attention/softmax.hpp"

#include <gtest/gtest.h>

#include <climits>
#include <cmath>
#include <limits>

#include "attention/inputs.hpp"

namespace fa {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<double> softmax_of(std::int64_t rows, std::int64_t cols, std::vector<float> x) {
  return Softmax::reference({rows, cols}, {{"x", {{rows, cols}, std::move(x)}}}).at("y");
}

TEST(SoftmaxReference, KnownValues) {
  const std::vector<double> y = softmax_of(2, 2, {0, 0, 0, std::log(3.0f)});
  EXPECT_DOUBLE_EQ(y[0], 0.5);
  EXPECT_DOUBLE_EQ(y[1], 0.5);
  EXPECT_NEAR(y[2], 0.25, 1e-7);
  EXPECT_NEAR(y[3], 0.75, 1e-7);
}

TEST(SoftmaxReference, SubtractsTheMaximum) {
  const std::vector<double> y = softmax_of(1, 3, {10000, 10000, -10000});
  EXPECT_EQ(y, (std::vector<double>{0.5, 0.5, 0}));
}

TEST(SoftmaxReference, RowsAreIndependentAndSumToOne) {
  const Softmax::Shape shape{.rows = 333, .cols = 77};
  const TensorMap inputs = random_tensors(Softmax::inputs(shape), Init::kOutliers, 1);
  const std::vector<double> y = Softmax::reference(shape, inputs).at("y");
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const auto first = inputs.at("x").data.begin() + row * shape.cols;
    const std::vector<double> alone = softmax_of(1, shape.cols, {first, first + shape.cols});
    double sum = 0;
    for (std::int64_t col = 0; col < shape.cols; ++col) {
      sum += y[std::size_t(row * shape.cols + col)];
      ASSERT_EQ(y[std::size_t(row * shape.cols + col)], alone[std::size_t(col)]);
    }
    ASSERT_NEAR(sum, 1, 1e-12);
  }
}

TEST(SoftmaxReference, MinusInfinityGivesZero) {
  EXPECT_EQ(softmax_of(2, 2, {-kInf, -kInf, -kInf, 5}), (std::vector<double>{0, 0, 0, 1}));
}

TEST(SoftmaxReference, NaNAndInfinitySpoilTheirRowOnly) {
  const std::vector<double> y = softmax_of(4, 2, {1, kNaN, 2, 2, kInf, 1, kNaN, -kInf});
  for (const int spoiled : {0, 1, 4, 5, 6, 7}) EXPECT_TRUE(std::isnan(y[std::size_t(spoiled)])) << spoiled;
  EXPECT_EQ(y[2], 0.5);
  EXPECT_EQ(y[3], 0.5);
}

TEST(SoftmaxShape, RefusesWhatCannotBeComputed) {
  EXPECT_EQ(Softmax::refuse({1, 1}), std::nullopt);
  EXPECT_EQ(Softmax::refuse({.rows = INT_MAX, .cols = 1}), std::nullopt);
  EXPECT_EQ(Softmax::refuse({0, 1}).value().message(), "--rows is 0: must be from 1 to 2147483647");
  EXPECT_EQ(Softmax::refuse({1, -3}).value().message(), "--cols is -3: must be from 1 to 1073741824");
  EXPECT_EQ(Softmax::refuse({1, 1 << 30}), std::nullopt);
  EXPECT_EQ(Softmax::refuse({1, (1 << 30) + 1}).value().message(),
            "--cols is 1073741825: must be from 1 to 1073741824");
  EXPECT_EQ(Softmax::refuse({std::int64_t(INT_MAX) + 1, 1}).value().message(),
            "--rows is 2147483648: must be from 1 to 2147483647");
  EXPECT_NE(Softmax::refuse({INT_MAX, 1 << 30}), std::nullopt);
}

TEST(SoftmaxShape, DescribesItsTensors) {
  const Softmax::Shape shape{3, 5};
  ASSERT_EQ(Softmax::inputs(shape).size(), 1u);
  EXPECT_EQ(Softmax::inputs(shape)[0].name, "x");
  EXPECT_EQ(Softmax::inputs(shape)[0].shape, (std::vector<std::int64_t>{3, 5}));
  ASSERT_EQ(Softmax::outputs(shape).size(), 1u);
  EXPECT_EQ(Softmax::outputs(shape)[0].name, "y");
  EXPECT_EQ(Softmax::outputs(shape)[0].bytes(), 60u);
  float x = 0, y = 0;
  const Softmax::Args args = Softmax::bind(shape, {{"x", &x}, {"y", &y}});
  EXPECT_EQ(args.x, &x);
  EXPECT_EQ(args.y, &y);
  EXPECT_EQ(args.rows, 3);
  EXPECT_EQ(args.cols, 5);
}

TEST(SoftmaxShape, ToleranceAllowsASumInOrder) {
  EXPECT_DOUBLE_EQ(Softmax::tolerances({1, 1}).at("y").limit, 1e-6);
  EXPECT_DOUBLE_EQ(Softmax::tolerances({1, 10000}).at("y").limit, 1e-5);
  for (const std::int64_t cols : {33, 1000, 20000}) {
    const Softmax::Shape shape{1, cols};
    const TensorMap inputs = random_tensors(Softmax::inputs(shape), Init::kUniform, 1);
    const std::vector<double> expected = Softmax::reference(shape, inputs).at("y");
    float sum = 0;
    for (const float x : inputs.at("x").data) sum += std::exp(x);
    double squared_error = 0, squared_norm = 0;
    for (std::size_t col = 0; col < expected.size(); ++col) {
      const double error = std::exp(inputs.at("x").data[col]) / sum - expected[col];
      squared_error += error * error;
      squared_norm += expected[col] * expected[col];
    }
    EXPECT_LE(std::sqrt(squared_error / squared_norm), Softmax::tolerances(shape).at("y").limit) << cols;
  }
}

TEST(SoftmaxInputs, AreThoseOfTheRow) {
  const TensorMap x = {{"x", {{2, 3}, {1, 2, 3, -4, 120.3f, 0.25f}}}};
  EXPECT_EQ(Softmax::describe_inputs({2, 3}, x, "y", {1, 0}), "row 1 of x is -4, 120.3, 0.25");
  TensorMap wide = {{"x", {{1, 9}, std::vector<float>(9, 0.5f)}}};
  wide["x"].data[7] = 3.25f;
  EXPECT_EQ(Softmax::describe_inputs({1, 9}, wide, "y", {0, 2}),
            "x[0, 2] is 0.5, the maximum of its row is x[0, 7] = 3.25");
}

}  // namespace
}  // namespace fa
