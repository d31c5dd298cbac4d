// A workspace is checked and counted like any other tensor.

#include <gtest/gtest.h>

#include "device/launch.cuh"
#include "harness/runner.hpp"

namespace fa {
namespace workspace_test {

__global__ void twice(const float* x, float* t, int n) {
  if (int(threadIdx.x) < n) t[threadIdx.x] = 2 * x[threadIdx.x];
}
__global__ void half_of(const float* t, float* lse) { lse[threadIdx.x] = t[threadIdx.x] / 2; }

constexpr int kQueries = 32;

/// LSE = Q, through a workspace of which the first kernel writes `written` elements.
Variant<AttentionForward> through_workspace(int written) {
  Variant<AttentionForward> variant;
  variant.name = "through_workspace";
  variant.launch = [written](const AttentionForward::Args& args, cudaStream_t stream) {
    launch(twice, 1, kQueries, 0, stream, args.buffer<float>("q"), args.buffer<float>("t"), written);
    launch(half_of, 1, kQueries, 0, stream, args.buffer<float>("t"), args.buffer<float>("lse"));
  };
  variant.traffic = [](const AttentionShape&) {
    const std::int64_t bytes = kQueries * sizeof(float);
    return Traffic{{{"q", {.read_bytes = bytes}},
                    {"t", {.read_bytes = bytes, .write_bytes = bytes}},
                    {"lse", {.write_bytes = bytes}}}};
  };
  variant.workspace = [](const AttentionShape&) {
    return std::vector<TensorSpec>{{.name = "t", .shape = {kQueries}}};
  };
  return variant;
}

class Workspace : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = backend::why_unusable()) GTEST_SKIP() << *reason;
  }
  static VariantResult run(int written) {
    const AttentionShape shape{.seq_q = kQueries};
    const TensorMap inputs = random_inputs<AttentionForward>(shape, Init::kNormal);
    return run_variant<AttentionForward>(through_workspace(written), shape, inputs, nullptr);
  }
};

TEST_F(Workspace, IsAllocatedBoundAndCounted) {
  const VariantResult result = run(kQueries);
  EXPECT_EQ(result.complaint(), "");
  EXPECT_EQ(result.workspace_bytes, kQueries * sizeof(float));
  EXPECT_EQ(result.outputs.count("t"), 0u);
  if (!result.counted) GTEST_SKIP() << "this backend does not count";
  EXPECT_EQ(result.counted->traffic.tensors.at("t").read_bytes, 128);
}

TEST_F(Workspace, ReadingWhatNothingHasWrittenIsADefect) {
  const VariantResult result = run(kQueries - 1);
  EXPECT_TRUE(std::isnan(result.outputs.at("lse").data.back()));
  if (!result.counted) GTEST_SKIP() << "this backend does not check";
  ASSERT_EQ(result.defects.size(), 1u);
  EXPECT_EQ(result.defects[0].kind, "uninitialized_read");
  EXPECT_NE(result.defects[0].message.find("byte 124 of \"t\""), std::string::npos)
      << result.defects[0].message;
}

}  // namespace workspace_test
}  // namespace fa
