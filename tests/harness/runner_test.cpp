#include "harness/runner.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "device/launch.cuh"
#include "fake_chapter.hpp"
#include "harness/backend.hpp"

namespace fa {
namespace {

const Softmax::Shape kShape{3, 5};

class Runner : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = backend::why_unusable()) GTEST_SKIP() << *reason;
  }

  VariantResult run(const char* variant, const Softmax::Shape& shape = kShape) {
    return fa::run<Softmax>(chapter_, variant, shape, random_inputs<Softmax>(shape, Init::kNormal));
  }

  const AnyChapter chapter_ = fake_chapter();
  const bool counts_ = backend::name() == "sim";
};

TEST_F(Runner, RightIsOk) {
  const VariantResult result = run("right");
  EXPECT_EQ(result.name, "right");
  EXPECT_EQ(result.complaint(), "");
  EXPECT_EQ(result.verdict(), Verdict::kOk);
  EXPECT_TRUE(result.ok());
  ASSERT_TRUE(result.check);
  EXPECT_TRUE(result.check->passed());
  EXPECT_EQ(result.counted.has_value(), counts_);
  EXPECT_EQ(result.outputs.at("y").data.size(), 15u);
}

TEST_F(Runner, WrongIsSaidWithTheElement) {
  const VariantResult result = run("wrong");
  EXPECT_EQ(result.verdict(), Verdict::kWrong);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.complaint().substr(0, 13), "y[1, 2] is 1.");
  EXPECT_EQ(result.check->tensors.at("y").wrong_elements, 1);
}

TEST_F(Runner, AFaultThatOutputsDoNotShowIsWrong) {
  Variant<Softmax> variant = chapter_of<Softmax>(chapter_).variants.front();
  const TensorMap inputs = random_inputs<Softmax>(kShape, Init::kNormal);
  const auto found = [&](std::optional<std::string> fault) {
    variant.fault = [=](const Softmax::Shape&, const Softmax::Args&) { return fault; };
    return run_variant<Softmax>(variant, kShape, inputs, nullptr);
  };
  EXPECT_EQ(found(std::nullopt).verdict(), Verdict::kOk);
  const VariantResult faulty = found("leaves a counter at 3");
  EXPECT_EQ(faulty.verdict(), Verdict::kWrong);
  EXPECT_EQ(faulty.complaint(), "leaves a counter at 3");
}

TEST_F(Runner, WhatIsNotWrittenIsNaN) {
  const VariantResult result = run("forgets");
  EXPECT_EQ(result.verdict(), Verdict::kWrong);
  EXPECT_TRUE(std::isnan(result.outputs.at("y").data.back()));
  EXPECT_EQ(result.complaint().substr(0, 15), "y[2, 4] is nan,");
}

TEST_F(Runner, BuffersArePoisonedForEveryRun) {
  EXPECT_TRUE(run("right").ok());
  EXPECT_FALSE(run("forgets").ok());  // not hidden by what the previous run left in memory
}

TEST_F(Runner, KnownFailureIsOkAndStillNotPassed) {
  const VariantResult result = run("declared");
  EXPECT_EQ(result.verdict(), Verdict::kFailsAsDeclared);
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.complaint(), "");
  EXPECT_FALSE(result.check->passed());
  EXPECT_EQ(result.known_failure, "it is wrong on more than one row");
}

TEST_F(Runner, FailureThatIsNotDeclaredForTheseInputsIsWrong) {
  const VariantResult result = run("declared", {1, 5});
  EXPECT_EQ(result.verdict(), Verdict::kWrong);
  EXPECT_FALSE(result.known_failure);
}

TEST_F(Runner, LaunchThatTheDeviceRefusesIsAResult) {
  const VariantResult result = run("refused");
  EXPECT_EQ(result.verdict(), Verdict::kDidNotRun);
  EXPECT_FALSE(result.check);
  EXPECT_TRUE(result.outputs.empty());
  EXPECT_NE(result.complaint().find("did not finish"), std::string::npos);
  EXPECT_TRUE(run("right").ok());
}

TEST_F(Runner, FailureOfALibraryIsAResult) {
  const VariantResult result = run("library");
  EXPECT_EQ(result.verdict(), Verdict::kDidNotRun);
  EXPECT_EQ(result.complaint(), "did not finish: the library failed");
}

TEST_F(Runner, PredictedMustEqualCounted) {
  const VariantResult result = run("lies");
  if (!counts_) {
    EXPECT_TRUE(result.ok());
    GTEST_SKIP() << "this backend does not count";
  }
  EXPECT_EQ(result.verdict(), Verdict::kTrafficDiffers);
  EXPECT_EQ(result.complaint(), "reads of x: the formula predicts 4 bytes, 0 were counted");
}

TEST_F(Runner, RefusalOfAVariantIsAUsageError) {
  EXPECT_THROW(run("narrow", {3, 9}), UsageError);
  EXPECT_TRUE(run("narrow", {3, 8}).ok());
}

TEST_F(Runner, SaysWhatTheDeviceLacks) {
  const std::size_t limit = shared_bytes_limit();
  EXPECT_FALSE(what_device_lacks({}));
  EXPECT_FALSE(what_device_lacks({.shared_bytes = limit, .compute_capability = compute_capability()}));
  const auto small = what_device_lacks({.shared_bytes = limit + 1});
  ASSERT_TRUE(small);
  EXPECT_EQ(small->reason, "a block needs " + std::to_string(limit + 1) +
                               " bytes of shared memory, this device has " + std::to_string(limit));
  EXPECT_FALSE(small->device_too_old);
  const auto old = what_device_lacks({.shared_bytes = limit + 1, .compute_capability = 991});
  ASSERT_TRUE(old);
  EXPECT_EQ(old->reason.find("needs compute capability 99.1, this device has "), 0u) << old->reason;
  EXPECT_TRUE(old->device_too_old);
}

TEST_F(Runner, SaysThatTheDeviceIsTooNew) {
  const int here = compute_capability();
  EXPECT_FALSE(what_device_lacks({.compute_capability = here, .exactly = true}));
  EXPECT_FALSE(what_device_lacks({.compute_capability = here - 10}));
  const auto other = what_device_lacks({.compute_capability = here - 10, .exactly = true});
  ASSERT_TRUE(other);
  const auto number = [](int capability) {
    return std::to_string(capability / 10) + "." + std::to_string(capability % 10);
  };
  EXPECT_EQ(other->reason,
            "needs compute capability " + number(here - 10) + " exactly, this device has " + number(here));
  EXPECT_TRUE(other->device_too_old);
}

TEST_F(Runner, UnknownVariantIsAnError) { EXPECT_THROW(run("unknown"), std::invalid_argument); }

TEST_F(Runner, InputsOfAnotherShapeAreAnError) {
  const TensorMap inputs = random_inputs<Softmax>({3, 5}, Init::kNormal);
  EXPECT_THROW(fa::run<Softmax>(chapter_, "right", {5, 3}, inputs), std::invalid_argument);
  EXPECT_THROW(fa::run<Softmax>(chapter_, "right", {3, 5}, {{"q", inputs.at("x")}}), std::exception);
}

TEST_F(Runner, Bench) {
  if (!backend::can_time()) GTEST_SKIP() << "times mean nothing here";
  EXPECT_GT(backend::copy_gb_per_s(5), 0);
}

TEST(Evaluate, BandwidthAndOperations) {
  const Timing time{.median_ms = 2, .min_ms = 1, .max_ms = 3, .repeats = 20};
  const BenchResult bytes = evaluate(time, 4'000'000'000, 0, 2500);
  EXPECT_DOUBLE_EQ(bytes.gb_per_s, 2000);
  EXPECT_DOUBLE_EQ(bytes.share_of_copy, 0.8);
  EXPECT_FALSE(bytes.tflops);
  EXPECT_DOUBLE_EQ(*evaluate(time, 1, 8e12, 1).tflops, 4000);
}

TEST(Verdict, TheWorstIsNamed) {
  VariantResult result{.name = "v"};
  EXPECT_EQ(result.verdict(), Verdict::kOk);

  result.check.emplace().tensors["y"] = {.rel_l2 = 1, .max_abs = 1, .tolerance = 1e-6, .passed = false};
  result.known_failure = "declared";
  EXPECT_EQ(result.verdict(), Verdict::kFailsAsDeclared);

  result.counted.emplace().traffic.tensors["x"] = {.read_bytes = 8};
  EXPECT_EQ(result.verdict(), Verdict::kTrafficDiffers);
  EXPECT_FALSE(result.ok());
  result.predicted.tensors["x"] = {.read_bytes = 8};
  EXPECT_EQ(result.verdict(), Verdict::kFailsAsDeclared);
  result.predicted.tensors["x"] = {.read_bytes = 8, .write_bytes = 1};
  EXPECT_EQ(result.complaint(), "writes of x: the formula predicts 1 bytes, 0 were counted");

  result.known_failure.reset();
  EXPECT_EQ(result.verdict(), Verdict::kWrong);

  result.defects.push_back({"race", "Race reported\nsecond line", 3});
  EXPECT_EQ(result.verdict(), Verdict::kDefects);

  result.failure = "refused";
  EXPECT_EQ(result.verdict(), Verdict::kDidNotRun);
}

TEST(Verdict, DefectsFailAResultThatIsRight) {
  VariantResult result{.name = "v"};
  result.check.emplace().tensors["y"] = {.passed = true};
  result.defects.push_back({"race", "Race reported at kernel.cuh:48\nsecond line", 3});
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.complaint(), "race: Race reported at kernel.cuh:48");
}

TEST(Counters, SectorEfficiency) {
  Counters counters;
  EXPECT_FALSE(counters.sector_efficiency());
  counters.traffic.tensors["x"] = {.read_bytes = 128, .write_bytes = 64};
  counters.read_sectors = 32;
  counters.write_sectors = 4;
  EXPECT_DOUBLE_EQ(*counters.sector_efficiency(), 192.0 / (36 * 32));
}

TEST(ChapterOf, GivesTheDescriptionBack) {
  const AnyChapter chapter = fake_chapter();
  EXPECT_EQ(chapter_of<Softmax>(chapter).variants.size(), 8u);
  EXPECT_EQ(variant_names(chapter).back(), "right");
  EXPECT_EQ(chapter.program().title(), "Known mistakes");
  EXPECT_THROW(AnyChapter(Chapter<Softmax>{.name = "n", .title = "t", .variants = {}}),
               std::invalid_argument);
}

}  // namespace
}  // namespace fa
