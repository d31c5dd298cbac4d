/// @file
/// The accesses of a library routine on the host, counted and checked like those of a kernel.
#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim::DefectKind;

TEST(Accounting, CountsBytesSectorsAndRequests) {
  gpusim::take_report();
  const auto x = Buffer<float>::zeros("x", 256);
  const Buffer<float> y("y", 256);
  EXPECT_TRUE(gpusim::account_read(x.get(), 1024, "routine"));
  EXPECT_TRUE(gpusim::account_read(x.get() + 7, 8, "routine"));  // the ends of two sectors
  EXPECT_TRUE(gpusim::account_write(y.get(), 516, "routine"));
  EXPECT_TRUE(gpusim::account_write(y.get(), 0, "routine"));
  const gpusim::Report report = gpusim::take_report();
  EXPECT_TRUE(report.defects.empty());
  EXPECT_EQ(report.launches, 0);
  const gpusim::GlobalCounters read = report.tensors.at("x"), written = report.tensors.at("y");
  EXPECT_EQ(read.read_bytes, 1032);
  EXPECT_EQ(read.read_sectors, 32 + 2);
  EXPECT_EQ(read.read_requests, 2 + 1);
  EXPECT_EQ(read.write_bytes, 0);
  EXPECT_EQ(written.write_bytes, 516);
  EXPECT_EQ(written.write_sectors, 17);
  EXPECT_EQ(written.write_requests, 2);
  EXPECT_EQ(written.read_bytes, 0);
}

TEST(Accounting, WhatIsWrittenCanBeRead) {
  gpusim::take_report();
  const Buffer<float> x("x", 8);
  gpusim::account_write(x.get(), 13, "writer");
  EXPECT_TRUE(gpusim::account_read(x.get(), 13, "reader"));
  EXPECT_TRUE(gpusim::take_report().defects.empty());
  EXPECT_TRUE(gpusim::account_read(x.get(), 14, "reader"));
  EXPECT_TRUE(gpusim::account_read(x.get(), 14, "reader"));
  const gpusim::Report report = gpusim::take_report();
  ASSERT_EQ(report.defects.size(), 1u);
  EXPECT_EQ(report.defects[0].kind, DefectKind::kUninitializedRead);
  EXPECT_EQ(report.defects[0].count, 2);
  EXPECT_EQ(report.defects[0].message,
            "Uninitialized __global__ memory read of size 14 bytes by reader\n"
            "    address is byte 13 of \"x\", which nothing has written");
}

TEST(Accounting, ARangeBeyondItsAllocationIsADefectAndNotCounted) {
  gpusim::take_report();
  const auto x = Buffer<float>::zeros("x", 8);
  EXPECT_TRUE(gpusim::account_read(x.get(), 32, "reader"));
  EXPECT_FALSE(gpusim::account_read(x.get() + 1, 32, "reader"));
  float local = 0;
  EXPECT_FALSE(gpusim::account_write(&local, 4, "writer"));
  const gpusim::Report report = gpusim::take_report();
  EXPECT_EQ(report.tensors.at("x").read_bytes, 32);
  ASSERT_EQ(report.defects.size(), 2u);
  EXPECT_EQ(report.defects[0].kind, DefectKind::kOutOfBounds);
  EXPECT_EQ(report.defects[0].message,
            "Invalid __global__ read of size 32 bytes by reader\n"
            "    address is 0 bytes after the end of \"x\" (32 bytes)");
  EXPECT_EQ(report.defects[1].kind, DefectKind::kOutOfBounds);
  EXPECT_EQ(report.defects[1].message.find("Invalid __global__ write of size 4 bytes by writer"), 0u);
}

}  // namespace
}  // namespace gpusim_test
