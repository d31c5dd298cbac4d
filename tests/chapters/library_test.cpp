// Chapter 08 through the functions that other programs call: on their own O, LSE and workspace, or without.

#include "harness/library.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "harness/device_buffer.hpp"
#include "harness/runner.hpp"

namespace fa {
namespace {

using Shape = AttentionBackward::Shape;

const Shape kShape{.heads = 2, .kv_heads = 1, .seq_q = 37, .seq_k = 50, .head_dim = 32, .causal = true};

/// Tensors in device memory.
class Memory {
 public:
  void add(const std::string& name, const Tensor& tensor) {
    DeviceBuffer buffer(name, tensor.data.size() * sizeof(float));
    buffer.upload(tensor.data.data());
    buffers_.emplace(name, std::move(buffer));
  }
  void add(const TensorSpec& spec) { buffers_.emplace(spec.name, DeviceBuffer(spec.name, spec.bytes())); }
  void* at(const std::string& name) const {
    return buffers_.contains(name) ? buffers_.at(name).get() : nullptr;
  }
  std::vector<float> values(const std::string& name) const {
    std::vector<float> values(buffers_.at(name).bytes() / sizeof(float));
    buffers_.at(name).download(values.data());
    return values;
  }

 private:
  std::map<std::string, DeviceBuffer> buffers_;
};

class LibraryTest : public ::testing::Test {
 protected:
  LibraryTest() {
    for (const auto& [name, tensor] : inputs) memory.add(name, tensor);
    for (const TensorSpec& spec : AttentionBackward::outputs(kShape)) memory.add(spec);
  }

  FaAttention given() const {
    return {.batch = kShape.batch,
            .heads = kShape.heads,
            .kv_heads = kShape.kv_heads,
            .seq_q = kShape.seq_q,
            .seq_k = kShape.seq_k,
            .head_dim = kShape.head_dim,
            .head_dim_v = kShape.head_dim,
            .dtype = 0,
            .causal = kShape.causal,
            .scale = kShape.logit_scale(),
            .q = memory.at("q"),
            .k = memory.at("k"),
            .v = memory.at("v"),
            .o = memory.at("o"),
            .lse = memory.at("lse"),
            .d_o = memory.at("do"),
            .dq = memory.at("dq"),
            .dk = memory.at("dk"),
            .dv = memory.at("dv"),
            .workspace = memory.at("workspace"),
            .q_strides = dense("q"),
            .k_strides = dense("k"),
            .v_strides = dense("v"),
            .o_strides = dense("o"),
            .d_o_strides = dense("do"),
            .dq_strides = dense("dq"),
            .dk_strides = dense("dk"),
            .dv_strides = dense("dv")};
  }

  static FaStrides dense(const char* name) {
    const Strides strides = kShape.strides_of(name);
    return {strides.batch, strides.head, strides.row};
  }

  void launch(const FaAttention& attention) {
    void* const bound = fa_bind("fp32_two_kernels", &attention);
    ASSERT_NE(bound, nullptr) << fa_error();
    EXPECT_TRUE(fa_launch(bound, nullptr)) << fa_error();
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    fa_release(bound);
  }

  void expect_gradients() {
    const VariantResult right =
        run<AttentionBackward>(describe_chapter(), "fp32_two_kernels", kShape, inputs);
    ASSERT_EQ(right.complaint(), "");
    for (const auto& [name, tensor] : right.outputs) EXPECT_EQ(memory.values(name), tensor.data) << name;
  }

  const TensorMap inputs = random_inputs<AttentionBackward>(kShape, Init::kNormal);
  Memory memory;
};

TEST_F(LibraryTest, NamesTheVariantsOfTheChapter) {
  std::istringstream lines(fa_variants());
  std::vector<std::string> names;
  for (std::string name; std::getline(lines, name);) names.push_back(name);
  EXPECT_EQ(names, variant_names(describe_chapter()));
  EXPECT_EQ(fa_interface(), kFaInterface);
}

TEST_F(LibraryTest, RunsTheForwardPassItself) {
  launch(given());
  expect_gradients();
}

TEST_F(LibraryTest, WorksInTheMemoryOfTheCaller) {
  const Shape& s = kShape;
  const std::int64_t o = s.heads * s.seq_q * s.head_dim * 4, rows = s.heads * s.seq_q * 4;
  const auto aligned = [](std::int64_t bytes) { return (bytes + 255) / 256 * 256; };
  FaAttention attention = given();
  const std::int64_t bytes = fa_workspace_bytes("fp32_two_kernels", &attention);
  EXPECT_EQ(bytes, aligned(o) + 2 * aligned(rows));  // O, LSE and delta
  memory.add(TensorSpec{.name = "workspace", .shape = {bytes / 4}});
  launch(given());
  expect_gradients();
}

TEST_F(LibraryTest, TakesTheResultsOfTheForwardPass) {
  const Reference reference = AttentionForward::reference(
      kShape, {{"q", inputs.at("q")}, {"k", inputs.at("k")}, {"v", inputs.at("v")}});
  Tensor o{.shape = inputs.at("q").shape}, lse{.shape = {1, kShape.heads, kShape.seq_q}};
  for (const double x : reference.at("o")) o.data.push_back(float(x));
  for (const double x : reference.at("lse")) lse.data.push_back(float(x) + 1000);  // then P is 0
  memory.add("o", o);
  memory.add("lse", lse);
  launch(given());
  for (const char* name : {"dq", "dk", "dv"})
    for (const float x : memory.values(name)) ASSERT_EQ(x, 0.0f) << name;
}

TEST_F(LibraryTest, SaysWhyItRefuses) {
  using enum Refusal::Reason;
  const auto expect = [](const char* variant, const FaAttention& attention, Refusal::Reason reason,
                         const std::string& text) {
    EXPECT_EQ(fa_workspace_bytes(variant, &attention), -1);
    EXPECT_EQ(fa_bind(variant, &attention), nullptr);
    EXPECT_EQ(fa_error(), text);
    EXPECT_EQ(fa_reason(), int(reason)) << text;
  };
  FaAttention attention = given();
  expect("fp32", attention, kName, "no variant fp32");
  expect("mma_fused", attention, kVariant, "--dtype is fp32: this variant takes fp16, bf16");
  attention.k_strides.row += 8;
  EXPECT_GT(fa_workspace_bytes("fp32_fused", &attention), 0);
  attention.k_strides.row += 1;
  expect("fp32_fused", attention, kProblem,
         "k has the strides (1600, 1600, 41, 1): all but the last must be multiples of 4 (16 bytes)");
  attention = given();
  attention.v = static_cast<float*>(attention.v) + 1;
  expect("fp32_fused", attention, kAddress, "v begins 4 bytes after a multiple of 16: must begin at one");
  attention = given();
  attention.workspace = static_cast<char*>(attention.v) + 16;
  EXPECT_EQ(fa_bind("fp32_fused", &attention), nullptr);
  EXPECT_EQ(std::string(fa_error()),
            "the workspace begins 16 bytes after a multiple of 256: must begin at one");
  EXPECT_EQ(fa_reason(), int(kAddress));
  attention = given();
  attention.v_strides.batch = attention.v_strides.head = 7;  // of a dimension of length 1
  expect("fp32", attention, kName, "no variant fp32");
  EXPECT_GT(fa_workspace_bytes("fp32_fused", &attention), 0);
  attention = given();
  attention.head_dim = attention.head_dim_v = 12;
  expect("fp32_fused", attention, kProblem, "--head-dim is 12: must be a multiple of 8 up to 256");
  attention = given();
  attention.batch = 1 << 30;
  expect("fp32_fused", attention, kProblem,
         "--batch 1073741824 times --heads 2 times --seq-q 37, rounded up to a multiple of 256: must be at "
         "most 2147483647");
  attention.heads = 0;
  expect("fp32_fused", attention, kProblem, "--heads is 0: must be from 1 to 2147483647");
  attention = given();
  attention.k_strides.row += 8;
  expect("standard", attention, kLayout,
         "k has the strides (1600, 1600, 40, 1): this variant takes (1600, 1600, 32, 1)");
}

}  // namespace
}  // namespace fa
