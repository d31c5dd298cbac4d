// Compares the simulator's bank model with wavefronts that Nsight Compute counted on a GPU.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "gpusim/runtime/cost.hpp"
#include "shared_patterns.hpp"

namespace gpusim {
namespace {

TEST(Wavefronts, EqualThoseMeasuredOnAGpu) {
  std::ifstream file(FA_SOURCE_DIR "/docs/results/shared_wavefronts.json");
  ASSERT_TRUE(file) << "docs/results/shared_wavefronts.json is missing";
  const auto measured = nlohmann::json::parse(file);
  ASSERT_EQ(measured.at("patterns").size(), 4u * gpusim_test::kPatternCount);
  for (const auto& entry : measured.at("patterns")) {
    const auto size = entry.at("bytes").get<std::size_t>();
    const auto name = entry.at("element").get<std::string>();
    int pattern = 0;
    while (pattern < gpusim_test::kPatternCount && gpusim_test::kPatternNames[pattern] != name) ++pattern;
    ASSERT_LT(pattern, gpusim_test::kPatternCount) << name;
    LaneAddresses addresses;
    for (int lane = 0; lane < kWarpSize; ++lane) {
      const std::size_t element =
          std::size_t(gpusim_test::element_of_lane(pattern, lane)) % (32 * 1024 / size);
      addresses[std::size_t(lane)] = 0x10000 + element * size;
    }
    EXPECT_EQ(shared_cost(addresses, 0xffffffffu, size).wavefronts,
              entry.at("wavefronts").get<std::int64_t>())
        << size << "-byte elements, lane l reads element " << name;
  }
}

}  // namespace
}  // namespace gpusim
