/// @file
/// The ends of the range of --scale, as a chapter's program sees them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../harness/run_chapter.hpp"

namespace fa {

constexpr double kLeastScale = 1.2e-38, kMostScale = 2.3e38;

/// Scales that fp32 cannot hold, alone or times log2 e: exit status 2 and one line.
inline void expect_bad_scales_refused(const AnyChapter& chapter, std::vector<std::string> arguments = {}) {
  for (const std::string scale : {"1e-46", "1e-38", "2.4e+38", "3e+38", "1e+39", "-1"}) {
    arguments.insert(arguments.end(), {"--scale", scale});
    const Outcome outcome = run_chapter(chapter, arguments);
    EXPECT_EQ(outcome.status, 2) << scale;
    EXPECT_EQ(outcome.err, "error: --scale is " + scale + ": must be from 1.2e-38 to 2.3e+38\n");
    EXPECT_EQ(outcome.out, "");
    arguments.resize(arguments.size() - 2);
  }
}

}  // namespace fa
