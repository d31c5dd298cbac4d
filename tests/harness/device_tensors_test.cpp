#include "harness/device_tensors.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "attention/half.hpp"
#include "device/launch.cuh"
#include "harness/backend.hpp"

namespace fa {
namespace {

class DeviceTensorsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = backend::why_unusable()) GTEST_SKIP() << *reason;
  }

  /// Copies x to y on the device, byte by byte, and downloads y.
  static Tensor through_device(DType dtype, const Tensor& x) {
    const TensorSpec in{.name = "x", .shape = x.shape, .dtype = dtype};
    const TensorSpec out{.name = "y", .shape = x.shape, .dtype = dtype};
    const DeviceTensors tensors({in}, {out}, {}, {{"x", x}});
    const auto addresses = tensors.addresses();
    FA_CUDA_CHECK(cudaMemcpy(addresses.at("y"), addresses.at("x"), out.bytes(), cudaMemcpyDeviceToDevice));
    return tensors.download_outputs().at("y");
  }
};

TEST_F(DeviceTensorsTest, ValuesAreRoundedToTheTypeOfTheDevice) {
  const Tensor x{{2, 3}, {0.1f, -2.5f, 3.14159f, 0.0f, 1e-3f, 65504.0f}};
  EXPECT_EQ(through_device(DType::kFloat32, x).data, x.data);
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const Tensor y = through_device(dtype, x);
    EXPECT_EQ(y.shape, x.shape);
    EXPECT_EQ(y.data, rounded_to(dtype, x.data));
    EXPECT_NE(y.data, x.data);
  }
}

TEST_F(DeviceTensorsTest, SixteenBitsOnTheDevice) {
  const DeviceTensors tensors({{.name = "x", .shape = {2}, .dtype = DType::kBFloat16}}, {}, {},
                              {{"x", {{2}, {1.0f, -2.0f}}}});
  std::uint16_t bits[2] = {};
  FA_CUDA_CHECK(cudaMemcpy(bits, tensors.addresses().at("x"), sizeof bits, cudaMemcpyDeviceToHost));
  EXPECT_EQ(bits[0], 0x3f80);
  EXPECT_EQ(bits[1], 0xc000);
}

TEST_F(DeviceTensorsTest, EightBitsOnTheDevice) {
  const Tensor x{{3}, {1.0f, -0.3f, 1000.0f}};
  EXPECT_EQ(through_device(DType::kFloat8, x).data, rounded_to(DType::kFloat8, x.data));
  const DeviceTensors tensors({{.name = "x", .shape = {3}, .dtype = DType::kFloat8}}, {}, {}, {{"x", x}});
  std::uint8_t bits[3] = {};
  FA_CUDA_CHECK(cudaMemcpy(bits, tensors.addresses().at("x"), sizeof bits, cudaMemcpyDeviceToHost));
  EXPECT_EQ(bits[0], 0x38);
}

TEST_F(DeviceTensorsTest, WholeNumbersOnTheDevice) {
  const Tensor numbers{{3}, {0, 16777216, -5}}, bytes{{2, 2}, {0, 1, 128, 255}};
  EXPECT_EQ(through_device(DType::kInt32, numbers).data, numbers.data);
  EXPECT_EQ(through_device(DType::kUint8, bytes).data, bytes.data);
  const DeviceTensors tensors({{.name = "n", .shape = {3}, .dtype = DType::kInt32},
                               {.name = "b", .shape = {2, 2}, .dtype = DType::kUint8}},
                              {}, {}, {{"n", numbers}, {"b", bytes}});
  std::int32_t words[3] = {};
  FA_CUDA_CHECK(cudaMemcpy(words, tensors.addresses().at("n"), sizeof words, cudaMemcpyDeviceToHost));
  EXPECT_EQ(words[1], 16777216);
  EXPECT_EQ(words[2], -5);
  std::uint8_t elements[4] = {};
  FA_CUDA_CHECK(cudaMemcpy(elements, tensors.addresses().at("b"), sizeof elements, cudaMemcpyDeviceToHost));
  EXPECT_EQ(elements[2], 128);
  EXPECT_EQ(elements[3], 255);
}

TEST_F(DeviceTensorsTest, StridesSayWhereAnElementLies) {
  const TensorSpec x{.name = "x", .shape = {2, 3, 4}, .strides = {5, 12, 1}};
  const TensorSpec y{.name = "y", .shape = {2, 3, 4}, .strides = {5, 12, 1}};
  EXPECT_EQ(x.extent(), 5 + 2 * 12 + 4);
  Tensor values{x.shape, {}};
  for (int i = 0; i < 24; ++i) values.data.push_back(float(i));
  const DeviceTensors tensors({x}, {y}, {}, {{"x", values}});
  const auto addresses = tensors.addresses();
  std::vector<float> memory(std::size_t(x.extent()));
  FA_CUDA_CHECK(cudaMemcpy(memory.data(), addresses.at("x"), x.extent_bytes(), cudaMemcpyDeviceToHost));
  EXPECT_EQ(memory[1 * 5 + 2 * 12 + 3], 23.0f);
  EXPECT_EQ(memory[5], 12.0f);
  EXPECT_TRUE(std::isnan(memory[4]));
  FA_CUDA_CHECK(cudaMemcpy(addresses.at("y"), addresses.at("x"), x.extent_bytes(), cudaMemcpyDeviceToDevice));
  EXPECT_EQ(tensors.download_outputs().at("y").data, values.data);
  EXPECT_EQ(tensors.overwritten_gap(), "");
}

TEST_F(DeviceTensorsTest, FindsWhatIsWrittenBetweenTheRows) {
  const TensorSpec x{.name = "x", .shape = {2, 3, 4}, .dtype = DType::kBFloat16, .strides = {5, 12, 1}};
  for (int at = 0; at < x.extent(); ++at) {
    const DeviceTensors tensors({}, {x}, {}, {});
    const std::uint16_t one = 1;
    FA_CUDA_CHECK(cudaMemcpy(static_cast<std::uint16_t*>(tensors.addresses().at("x")) + at, &one, sizeof one,
                             cudaMemcpyHostToDevice));
    const int of_pair = at % 12;
    EXPECT_EQ(tensors.overwritten_gap(), of_pair == 4 || of_pair > 8 ? "x" : "") << at;
  }
}

TEST_F(DeviceTensorsTest, WhatNothingHasWrittenIsNaN) {
  const std::vector<TensorSpec> specs = {{.name = "a", .shape = {3}},
                                         {.name = "b", .shape = {3}, .dtype = DType::kFloat16},
                                         {.name = "c", .shape = {3}, .dtype = DType::kBFloat16}};
  for (const auto& [name, tensor] : DeviceTensors({}, specs, {}, {}).download_outputs()) {
    for (const float value : tensor.data) EXPECT_TRUE(std::isnan(value)) << name;
  }
}

TEST_F(DeviceTensorsTest, TheWorkspaceHasAddressesAndNoValues) {
  const DeviceTensors tensors({}, {{.name = "y", .shape = {3}}}, {{.name = "s", .shape = {5}}}, {});
  EXPECT_EQ(tensors.addresses().count("s"), 1u);
  EXPECT_EQ(tensors.download_outputs().count("s"), 0u);
  float values[5] = {};
  FA_CUDA_CHECK(cudaMemcpy(values, tensors.addresses().at("s"), sizeof values, cudaMemcpyDeviceToHost));
  for (const float value : values) EXPECT_TRUE(std::isnan(value));
}

TEST_F(DeviceTensorsTest, InputsMustBeThereInTheirShape) {
  const TensorSpec x{.name = "x", .shape = {2, 3}};
  EXPECT_THROW(DeviceTensors({x}, {}, {}, {}), std::invalid_argument);
  EXPECT_THROW(DeviceTensors({x}, {}, {}, {{"x", {{3, 2}, std::vector<float>(6)}}}), std::invalid_argument);
  EXPECT_THROW(DeviceTensors({x}, {}, {}, {{"x", {{2, 3}, std::vector<float>(5)}}}), std::invalid_argument);
}

}  // namespace
}  // namespace fa
