#include "harness/text.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace fa {
namespace {

TEST(Text, Prefixes) {
  EXPECT_EQ(with_prefix(0), "0");
  EXPECT_EQ(with_prefix(999), "999");
  EXPECT_EQ(with_prefix(1000), "1 k");
  EXPECT_EQ(with_prefix(12345), "12.3 k");
  EXPECT_EQ(with_prefix(999600), "1 M");
  EXPECT_EQ(with_prefix(1.61e9), "1.61 G");
  EXPECT_EQ(in_bytes(512), "512 B");
  EXPECT_EQ(in_bytes(2.5e12), "2.5 TB");
}

TEST(Text, Scientific) {
  EXPECT_EQ(scientific(3.14e-7), "3.1e-7");
  EXPECT_EQ(scientific(2e-6), "2e-6");
  EXPECT_EQ(scientific(0.5), "5e-1");
  EXPECT_EQ(scientific(1), "1e0");
  EXPECT_EQ(scientific(1.5e12), "1.5e12");
  EXPECT_EQ(scientific(0), "0");
  EXPECT_EQ(scientific(std::nan("")), "nan");
  EXPECT_EQ(scientific(HUGE_VAL), "inf");
}

TEST(Text, Closest) {
  const std::vector<std::string> words = {"--rows", "--cols", "--repeat", "--seq-k", "--seq-q"};
  EXPECT_EQ(closest("--row", words), "--rows");
  EXPECT_EQ(closest("--col", words), "--cols");
  EXPECT_EQ(closest("--repaet", words), "--repeat");
  EXPECT_EQ(closest("--seqk", words), "--seq-k");
  EXPECT_EQ(closest("--unknown", words), "");
  EXPECT_EQ(closest("--row", {}), "");
}

TEST(InShell, QuotesWhatMeansSomethingToAShell) {
  EXPECT_EQ(in_shell("--rows=5"), "--rows=5");
  EXPECT_EQ(in_shell("data/q.npy"), "data/q.npy");
  EXPECT_EQ(in_shell("a b"), "'a b'");
  EXPECT_EQ(in_shell("it's"), "'it'\\''s'");
  EXPECT_EQ(in_shell("$HOME"), "'$HOME'");
  EXPECT_EQ(in_shell(""), "''");
}

TEST(InLines, BreaksBeforeTheWordThatDoesNotFit) {
  EXPECT_EQ(in_lines({}, 10), "");
  EXPECT_EQ(in_lines({"one"}, 10), "one");
  EXPECT_EQ(in_lines({"one", "two", "for"}, 11), "one two for");
  EXPECT_EQ(in_lines({"one", "two", "four", "fives"}, 11), "one two\n  four\n  fives");
  EXPECT_EQ(in_lines({"one", "two", "four", "five"}, 11), "one two\n  four five");
  EXPECT_EQ(in_lines({"a word longer", "b"}, 5), "a word longer\n  b");
}

}  // namespace
}  // namespace fa
