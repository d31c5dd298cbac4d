/// @file
/// Runs a chapter's program in a test as from a shell.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "harness/program.hpp"
#include "temporary_folder.hpp"

namespace fa {

struct Outcome {
  int status;
  std::string out, err;
};

inline Outcome run_chapter(const AnyChapter& chapter, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "/some/folder/ch99_fake");
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out, err;
  const int status = run_program(chapter, int(argv.size()), argv.data(), out, err);
  return {status, out.str(), err.str()};
}

/// Arguments that must be refused.
class RefusalTest : public ::testing::Test {
 protected:
  explicit RefusalTest(AnyChapter chapter) : chapter_(std::move(chapter)) {}

  /// Exit status 2, one line on standard error, nothing on standard output, no file made.
  void expect(const std::vector<std::string>& arguments, const std::string& line) {
    const std::ptrdiff_t entries = folder_.entries();
    const Outcome outcome = run_chapter(chapter_, arguments);
    EXPECT_EQ(outcome.status, 2) << line;
    EXPECT_EQ(outcome.err, "error: " + line + "\n");
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(folder_.entries(), entries);
  }

  /// The same if the library writes the message: it must be one line that names the option.
  void expect_mention(const std::vector<std::string>& arguments, const std::string& option) {
    const Outcome outcome = run_chapter(chapter_, arguments);
    EXPECT_EQ(outcome.status, 2);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_NE(outcome.err.find(option), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }

  TemporaryFolder folder_;
  const AnyChapter chapter_;
};

}  // namespace fa
