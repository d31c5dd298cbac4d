// The tiles that chapter 07 uses for head_dim 256 if a block cannot have 192 KiB of shared memory.

#include <cuda_bf16.h>
#include <gtest/gtest.h>

#include <utility>

#include "attention/attention_forward.hpp"
#include "device/launch.cuh"
#include "harness/runner.hpp"
#include "kernel.cuh"

namespace fa {
using namespace ch07;
namespace {

using Tile = MultiStageTiles<__nv_bfloat16, 256, FinalChoices<256>>;
static_assert(Tile::kSharedBytes <= 99 * 1024, "what a GeForce RTX 30 or 40 has");

void launch_small(const AttentionForward::Args& a, cudaStream_t stream) {
  const unsigned tiles = unsigned((a.seq_q + Tile::Br - 1) / Tile::Br);
  launch(masked_first_attention<Tile>, tiles * unsigned(a.batch) * unsigned(a.heads), Tile::kThreads,
         Tile::kSharedBytes, stream, a.as<__nv_bfloat16>());
}

TEST(MultiStage, SmallTilesOfTheLargestHeadDimensionAreRight) {
  if (const auto reason = backend::why_unusable()) GTEST_SKIP() << *reason;
  Variant<AttentionForward> variant;
  variant.name = "small";
  variant.launch = launch_small;
  variant.traffic = [](const AttentionShape&) { return Traffic{}; };
  for (const auto& [queries, keys] : {std::pair{1, 1}, {64, 160}, {65, 170}, {70, 33}}) {
    for (const bool causal : {false, true}) {
      const AttentionShape shape{
          .seq_q = queries, .seq_k = keys, .head_dim = 256, .causal = causal, .dtype = DType::kBFloat16};
      const TensorMap inputs = random_inputs<AttentionForward>(shape, Init::kNormal, 7);
      const Reference reference = AttentionForward::reference(shape, inputs);
      const VariantResult result = run_variant<AttentionForward>(variant, shape, inputs, &reference);
      ASSERT_TRUE(result.check.has_value()) << result.failure.value_or("");
      EXPECT_TRUE(result.check->passed()) << queries << " x " << keys << ' ' << causal;
      EXPECT_TRUE(result.defects.empty()) << queries << " x " << keys << ' ' << causal;
    }
  }
}

}  // namespace
}  // namespace fa
