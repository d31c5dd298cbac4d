/// @file
/// setmaxnreg: who may give registers back and take them, and who waits for them in vain.
#include <gpusim_hopper.h>

#include <string>

#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;
namespace ptx = gpusim::ptx;

template <class... Args>
gpusim::Report report_of(int threads, void (*kernel)(float*, Args...), Args... args) {
  const Buffer<float> out("out", 1024);
  return run({.block = unsigned(threads)}, kernel, out.get(), args...);
}

testing::AssertionResult tells(const gpusim::Report& report, DefectKind kind, const std::string& message) {
  if (report.defects.size() == 1 && report.defects[0].kind == kind && report.defects[0].message == message)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << "not only: " << message << "\n" << gpusim::format_defects(report);
}

std::string at(const std::string& tag) { return "setmaxnreg_test.cu:" + std::to_string(line_of(tag)); }

/// One producer and two consumers. The block begins with 168 registers for each thread.
template <int kProducer, int kConsumer>
__global__ void share(float* out) {
  if (threadIdx.x < 128) {
    ptx::setmaxnreg_dec<kProducer>();
  } else {
    ptx::setmaxnreg_inc<kConsumer>();  // takes
  }
  out[threadIdx.x] = 1.0f;
}

TEST(Setmaxnreg, MovesRegistersBetweenWarpgroups) {
  EXPECT_TRUE(is_clean(report_of(384, share<24, 240>)));
  EXPECT_TRUE(is_clean(report_of(384, share<40, 232>)));
  EXPECT_TRUE(is_clean(report_of(384, share<168, 168>)));
}

TEST(Setmaxnreg, ReportsATakerThatGetsNothing) {
  EXPECT_TRUE(tells(report_of(384, share<40, 240>), DefectKind::kMisuse,
                    "Misuse at " + at("takes") +
                        " by thread (352,0,0) in block (0,0,0)\n"
                        "    setmaxnreg_inc<240>() waits for registers that nobody gives back\n"
                        "    warps 0 to 3 have 40 registers for each thread\n"
                        "    warps 4 to 10 have 240 registers for each thread\n"
                        "    warp 11 has 168 registers for each thread\n"
                        "    the warp needs 2304 more, 256 are free; all threads began with 168"));
}

enum class Giving { kNever, kFewer, kMore, kOneWarp, kOneLane };

__global__ void give(float* out, Giving how) {
  const int warp = threadIdx.x / 32;
  if (how == Giving::kFewer) ptx::setmaxnreg_inc<128>();                       // fewer
  if (how == Giving::kMore) ptx::setmaxnreg_dec<192>();                        // more
  if (how == Giving::kOneWarp && warp == 1) ptx::setmaxnreg_dec<32>();         // one warp
  if (how == Giving::kOneLane && threadIdx.x == 1) ptx::setmaxnreg_dec<32>();  // one lane
  if (how == Giving::kNever && warp >= 8) ptx::setmaxnreg_inc<176>();          // never
  out[threadIdx.x] = 1.0f;
}

TEST(Setmaxnreg, ReportsATakerIfNobodyGives) {
  const gpusim::Report report = report_of(384, give, Giving::kNever);
  EXPECT_TRUE(says(report, "setmaxnreg_inc<176>() waits for registers that nobody gives back"));
  EXPECT_TRUE(says(report, "warps 0 to 11 have 168 registers for each thread"));
  EXPECT_TRUE(says(report, "the warp needs 256 more, 0 are free; all threads began with 168"));
}

TEST(Setmaxnreg, ReportsTheWrongDirection) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_TRUE(tells(report_of(384, give, Giving::kFewer), DefectKind::kMisuse,
                    "Misuse at " + at("fewer") +
                        " by thread (0,0,0) in block (0,0,0)\n"
                        "    setmaxnreg_inc<128>() would take registers from threads that have 168"));
  EXPECT_TRUE(tells(report_of(384, give, Giving::kMore), DefectKind::kMisuse,
                    "Misuse at " + at("more") +
                        " by thread (0,0,0) in block (0,0,0)\n"
                        "    setmaxnreg_dec<192>() would give registers to threads that have 168"));
}

TEST(Setmaxnreg, NeedsAllThreadsOfAWarpgroup) {
  GPUSIM_NEEDS_EXACT_ACCESSES();
  EXPECT_TRUE(
      tells(report_of(384, give, Giving::kOneWarp), DefectKind::kBarrierDivergence,
            "Barrier error detected. Divergent thread(s) in warpgroup 0 of block (0,0,0): 32 of 128 threads "
            "reached setmaxnreg_dec() at " +
                at("one warp") +
                "\n    threads 32 to 63 have executed it\n    threads 0 to 31 and 64 to 127 have returned"));
  EXPECT_TRUE(says(report_of(384, give, Giving::kOneLane),
                   "1 of 32 threads named in mask 0xffffffff reached "
                   "setmaxnreg_dec() at " +
                       at("one lane")));
  EXPECT_TRUE(says(report_of(64, share<24, 240>), " needs a warpgroup of 128 threads"));
}

TEST(Setmaxnreg, BeginsWithWhatTheBlockAllows) {
  EXPECT_TRUE(says(report_of(512, give, Giving::kMore), "threads that have 128"));
  EXPECT_TRUE(says(report_of(1024, give, Giving::kMore), "threads that have 64"));
  EXPECT_TRUE(is_clean(report_of(256, give, Giving::kMore)));  // 255
  EXPECT_TRUE(says(report_of(128, give, Giving::kFewer), "threads that have 255"));
}

}  // namespace
}  // namespace gpusim_test
