// Tests every variant of chapter 14 on every kind of problem: right O and LSE, no defects, and exactly the
// bytes of its formula; and the claims of the lesson. Keys past the end of a sequence hold NaN.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../harness/run_chapter.hpp"
#include "attention/half.hpp"
#include "decoding_shapes.hpp"
#include "device/launch.cuh"
#include "harness/device_tensors.hpp"
#include "harness/runner.hpp"

namespace fa {
namespace {

using Shape = DecodingShape;

const AnyChapter& chapter() {
  static const AnyChapter instance = describe_chapter();
  return instance;
}

const Variant<DecodingAttention>& variant_named(const std::string& name) {
  for (const auto& variant : chapter_of<DecodingAttention>(chapter()).variants) {
    if (variant.name == name) return variant;
  }
  throw std::invalid_argument("no variant " + name);
}

class Decodes : public testing::TestWithParam<std::string> {
 protected:
  static const Variant<DecodingAttention>& variant() { return variant_named(GetParam()); }
  void SetUp() override {
    if (const auto lacking = what_device_lacks<DecodingAttention>(variant(), as_taken(decoding_shape(1))))
      GTEST_SKIP() << lacking->reason;
  }
  void TearDown() override {
    if (!IsSkipped() && runs_ == 0) GTEST_SKIP() << "the variant takes none of these problems";
  }
  /// With the cache that the variant is about.
  static Shape as_taken(Shape shape) {
    shape.fp8 = GetParam() == "fp8_cache";
    return shape;
  }
  static bool takes(const Shape& shape) { return !why_refused<DecodingAttention>(variant(), shape); }

  VariantResult run_on(const Shape& shape, Init init = Init::kNormal, std::uint64_t seed = 14) {
    ++runs_;
    return run<DecodingAttention>(chapter(), GetParam(), shape,
                                  random_inputs<DecodingAttention>(shape, init, seed));
  }
  /// The variant refuses, or is right.
  void expect_right(const Shape& given, Init init = Init::kNormal, std::uint64_t seed = 14) {
    const Shape shape = as_taken(given);
    if (!takes(shape)) return;
    EXPECT_EQ(run_on(shape, init, seed).complaint(), "") << text(shape);
  }

  int runs_ = 0;
};

TEST_P(Decodes, AFewNumbersOfKeys) {
  for (const std::int64_t keys : {1, 33, 128, 200}) expect_right(decoding_shape(keys));
}

TEST_P(Decodes, SLOW_AnyNumberOfKeys) {
  for (const std::int64_t keys : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 400})
    expect_right(decoding_shape(keys));
}

TEST_P(Decodes, ForTilesOfAnyNumberOfRows) {
  for (const std::int64_t group : {1, 12, 70}) expect_right(decoding_shape(70, group));
}

TEST_P(Decodes, SLOW_ForAnyNumberOfHeadsThatShareK) {
  for (const std::int64_t group : {1, 3, 8, 9, 16, 17, 40, 64, 70}) {
    Shape shape = decoding_shape(70, group);
    expect_right(shape);
    if (group > 3) continue;
    shape.batch = shape.kv_heads = 2;
    shape.heads = 2 * group;
    expect_right(shape);
  }
}

TEST_P(Decodes, QueriesAtTheEndOfTheSequence) {
  expect_right(decoding_shape(3, 1, 3));  // the first one sees one key
  expect_right(decoding_shape_of({40, 0, 17}, 2, 16));
}

TEST_P(Decodes, SLOW_AnyNumberOfQueriesAtTheEndOfTheSequence) {
  for (std::int64_t queries = 2; queries <= kMostDecodingQueries; queries += queries < 5 ? 1 : 3) {
    expect_right(decoding_shape(queries, 1, queries));  // the first one sees one key
    expect_right(decoding_shape(40 + queries, 2, queries));
  }
}

TEST_P(Decodes, SequencesOfDifferentLengths) {
  expect_right(decoding_shape_of({0, 1, 16, 33, 0, 128, 70}));
  expect_right(decoding_shape_of({0, 0}));
}

TEST_P(Decodes, SLOW_SequencesOfAnyLengths) {
  using Lengths = std::vector<std::int32_t>;
  for (const Lengths& lengths : {Lengths{0, 1, 16, 33, 0, 128, 70}, Lengths{200, 0, 0, 3}, Lengths{0, 0, 5},
                                 Lengths{0, 0}, Lengths{0}, Lengths{64, 64}, Lengths{1, 300}}) {
    expect_right(decoding_shape_of(lengths));
  }
  expect_right(decoding_shape_of({3, 0, 50, 64, 17}, 3, 3));
}

// Lanes look at the lengths of 32 sequences at a time.
TEST_P(Decodes, SLOW_ManySequences) {
  std::vector<std::int32_t> lengths;
  for (int number = 0; number < 70; ++number) lengths.push_back(number * 37 % 23 % 7 * 9);
  expect_right(decoding_shape_of(lengths, 1));
}

TEST_P(Decodes, EveryWidth) {
  for (const std::int64_t head_dim : {128, 256}) {
    Shape shape = decoding_shape_of({75, 0, 20});
    shape.head_dim = head_dim, shape.dtype = DType::kFloat16;
    expect_right(shape);
  }
}

TEST_P(Decodes, SLOW_EveryWidthInBothTypes) {
  for (const std::int64_t head_dim : {64, 128, 256}) {
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
      for (const std::int64_t group : {2, 12, 20}) {
        Shape shape = decoding_shape_of({75, 0, 20}, group);
        shape.head_dim = head_dim, shape.dtype = dtype;
        if (dtype == DType::kBFloat16 || group == 2) expect_right(shape);
      }
    }
  }
}

TEST_P(Decodes, PagesThatLieAnywhere) {
  for (const std::int64_t page_size : {16, 64})
    expect_right(in_pages(decoding_shape_of({100, 0, 1, 64}), page_size, page_size == 16, 3));
}

TEST_P(Decodes, SLOW_PagesOfAnySize) {
  for (const std::int64_t page_size : {16, 64, 256}) {
    for (const bool shared : {false, true}) {
      const std::uint64_t seed = std::uint64_t(page_size) + shared;
      expect_right(in_pages(decoding_shape_of({300, 0, 1, 64, 129}), page_size, shared, seed));
      Shape wide = decoding_shape_of({100, 47}, 20, 2);
      wide.head_dim = 128;
      expect_right(in_pages(wide, page_size, shared, seed));
    }
  }
}

TEST_P(Decodes, AnyNumberOfSplits) {
  for (const std::int64_t splits : {1, 3, 20}) {
    Shape equal = decoding_shape(130, 5);
    Shape ragged = decoding_shape_of({130, 0, 31, 2});
    equal.splits = ragged.splits = splits;
    expect_right(equal);
    expect_right(ragged);
  }
}

TEST_P(Decodes, SLOW_InputsOfAnyDistribution) {
  for (const Init init : {Init::kUniform, Init::kOutliers, Init::kOffset})
    expect_right(decoding_shape_of({150, 40}, 9), init);
}

// The maximum grows with every key, or falls: with and without rescaling.
TEST_P(Decodes, ScoresThatRiseAndFall) {
  for (const float step : {0.25f, -0.25f}) {
    const Shape shape = as_taken(decoding_shape(200));
    if (!takes(shape)) continue;
    TensorMap inputs = random_inputs<DecodingAttention>(shape, Init::kNormal, 3);
    std::vector<float>&q = inputs.at("q").data, &k = inputs.at("k").data;
    std::fill(q.begin(), q.end(), 1.0f);
    for (float& x : k) x = shape.fp8 ? x : x / 64;
    for (std::size_t key = 0; key < 200; ++key) k[key * 64] = step * float(key);
    if (shape.fp8) {
      k = rounded_to(DType::kFloat8, k);
      inputs.at("k_scale").data[0] = 1.0f;
    }
    ++runs_;
    EXPECT_EQ(run<DecodingAttention>(chapter(), GetParam(), shape, inputs).complaint(), "") << step;
  }
}

// Exponents of some 10^10, of which fp32 has only every thousandth: all keys have the same weight, and O is
// V.
TEST_P(Decodes, HugeScores) {
  for (const std::int64_t group : {2, 20}) {  // tiles of a warp, and of a warpgroup
    const Shape shape = as_taken(decoding_shape(200, group));
    if (!takes(shape)) continue;
    TensorMap inputs = random_inputs<DecodingAttention>(shape, Init::kNormal, 3);
    const float query = shape.fp8 ? 32768.0f : 133120.0f;  // Q becomes fp16 beside an fp8 cache
    std::fill(inputs.at("q").data.begin(), inputs.at("q").data.end(), query);
    std::fill(inputs.at("k").data.begin(), inputs.at("k").data.end(), shape.fp8 ? 416.0f : 133120.0f);
    std::fill(inputs.at("v").data.begin(), inputs.at("v").data.end(), 1.0f);
    if (shape.fp8) inputs.at("k_scale").data.assign(1, 1300.0f), inputs.at("v_scale").data.assign(1, 1.0f);
    ++runs_;
    const VariantResult result = run<DecodingAttention>(chapter(), GetParam(), shape, inputs);
    for (const float o : result.outputs.at("o").data) ASSERT_NEAR(o, 1.0f, 1e-2f) << group;
  }
}

// What a kernel leaves in the workspace must not disturb the next call.
// In between, a call with other lengths: heads have other numbers of parts.
TEST_P(Decodes, AgainInTheSameWorkspace) {
  const Shape shape = as_taken(decoding_shape_of({150, 0, 40}, 3));
  if (!takes(shape)) return;
  const TensorMap inputs = random_inputs<DecodingAttention>(shape, Init::kNormal, 5);
  const DeviceTensors tensors(DecodingAttention::inputs(shape), DecodingAttention::outputs(shape),
                              workspace_of(variant(), shape), inputs);
  const DecodingAttention::Args args = DecodingAttention::bind(shape, tensors.addresses());
  const TensorMap expected = run_on(shape, Init::kNormal, 5).outputs;
  if (variant().before) variant().before(args, nullptr);
  const std::vector<std::int32_t> others = {70, 33, 40};
  for (const auto& lengths : {*shape.key_lengths, others, *shape.key_lengths}) {
    FA_CUDA_CHECK(cudaMemset(args.buffer<float>("o"), 0xFF,
                             std::size_t(shape.batch * shape.heads * shape.head_dim) * 2));
    FA_CUDA_CHECK(cudaMemcpy(args.buffer<std::int32_t>("key_lengths"), lengths.data(),
                             lengths.size() * sizeof(std::int32_t), cudaMemcpyHostToDevice));
    variant().launch(args, nullptr);
    FA_CUDA_CHECK(cudaDeviceSynchronize());
    if (variant().fault) {
      EXPECT_EQ(variant().fault(shape, args), std::nullopt);
    }
    if (lengths == others) continue;
    const TensorMap outputs = tensors.download_outputs();
    EXPECT_EQ(outputs.at("o").data, expected.at("o").data);
    EXPECT_EQ(outputs.at("lse").data, expected.at("lse").data);
  }
}

// On a machine with few multiprocessors, a block has parts of many heads.
TEST_P(Decodes, SLOW_ManyHeadsInEachBlock) {
  Shape shape = decoding_shape_of({40, 0, 100, 17, 64}, 1);
  shape.heads = shape.kv_heads = 60;
  expect_right(shape);
  shape.heads = 120;
  expect_right(shape);
}

INSTANTIATE_TEST_SUITE_P(Variants, Decodes, testing::ValuesIn(variant_names(chapter())),
                         [](const auto& of) { return of.param; });

// --- the claims of the lesson ------------------------------------------------------------------------------

class DecodingClaims : public testing::Test {
 protected:
  static VariantResult run_on(const std::string& variant, const Shape& shape) {
    VariantResult result = run<DecodingAttention>(chapter(), variant, shape,
                                                  random_inputs<DecodingAttention>(shape, Init::kNormal, 1));
    EXPECT_EQ(result.complaint(), "") << variant << ' ' << text(shape);
    return result;
  }
  /// Whether the device runs TMA.
  static bool has_tma() {
    return !what_device_lacks<DecodingAttention>(variant_named("paged"), decoding_shape(1));
  }
};

TEST_F(DecodingClaims, PackedHeadsReadKAndVOnce) {
  const Shape shape = decoding_shape(200, 4);
  const VariantResult apart = run_on("one_block_a_head", shape), packed = run_on("packed_heads", shape);
  if (!packed.counted) GTEST_SKIP() << "bytes are counted on the simulator";
  for (const char* name : {"k", "v"}) {
    EXPECT_EQ(packed.counted->traffic.tensors.at(name).read_bytes, 200 * 64 * 2);
    EXPECT_EQ(apart.counted->traffic.tensors.at(name).read_bytes, 4 * 200 * 64 * 2);
  }
}

// In pages as well, wherever they lie: the products are the same.
TEST_F(DecodingClaims, PagesChangeNoBit) {
  if (!has_tma()) GTEST_SKIP() << "this device has no TMA";
  const Shape contiguous = decoding_shape_of({300, 0, 47}, 4);
  const VariantResult expected = run_on("one_kernel", contiguous);
  for (const std::int64_t page_size : {16, 64, 256}) {
    const VariantResult result = run_on("paged", in_pages(contiguous, page_size, false, 2));
    EXPECT_EQ(result.outputs.at("o").data, expected.outputs.at("o").data) << page_size;
    EXPECT_EQ(result.outputs.at("lse").data, expected.outputs.at("lse").data) << page_size;
  }
}

TEST_F(DecodingClaims, Fp8HalvesTheBytesOfTheCache) {
  if (!has_tma()) GTEST_SKIP() << "this device has no TMA";
  Shape shape = decoding_shape(256, 4);
  shape.head_dim = 128;
  const Traffic wide = variant_named("one_kernel").traffic(shape);
  shape.fp8 = true;
  const Traffic narrow = variant_named("fp8_cache").traffic(shape);
  for (const char* name : {"k", "v"})
    EXPECT_EQ(2 * narrow.tensors.at(name).read_bytes, wide.tensors.at(name).read_bytes);
}

// --- what is refused ---------------------------------------------------------------------------------------

class DecodingRefusals : public RefusalTest {
 protected:
  DecodingRefusals() : RefusalTest(describe_chapter()) {}
  void expect_of(const std::string& variant, std::vector<std::string> options, const std::string& line) {
    options.insert(options.end(), {"--variant", variant});
    expect(options, "--variant " + variant + " cannot run this: " + line);
  }
};

TEST_F(DecodingRefusals, NameAVariantThatTakesTheCache) {
  for (const char* variant :
       {"one_block_a_head", "packed_heads", "split_keys", "in_flight", "balanced", "one_kernel"}) {
    expect_of(variant, {"--page-size", "16"},
              "--page-size is given: this variant takes a contiguous cache; paged takes pages");
  }
  for (const char* variant : {"one_kernel", "paged", "ampere"}) {
    expect_of(variant, {"--cache", "fp8"},
              "--cache is fp8: this variant takes elements of 16 bits; fp8_cache takes fp8");
  }
  expect_of("fp8_cache", {}, "--cache is not given: must be --cache fp8; paged takes elements of 16 bits");
  for (const char* variant : {"one_block_a_head", "packed_heads"}) {
    expect_of(variant, {"--splits", "3"},
              "--splits is given: this variant does not split keys; split_keys does");
  }
}

TEST_F(DecodingRefusals, SizesAndTypes) {
  for (const std::string& variant : variant_names(chapter_)) {
    std::vector<std::string> options = {"--head-dim", "96"};
    if (variant == "fp8_cache") options.insert(options.end(), {"--cache", "fp8"});
    expect_of(variant, options, "--head-dim is 96: must be one of 64, 128, 256");
    options = {"--dtype", "fp32"};
    if (variant == "fp8_cache") options.insert(options.end(), {"--cache", "fp8"});
    expect_of(variant, options, "--dtype is fp32: this variant takes fp16, bf16");
  }
}

}  // namespace
}  // namespace fa
