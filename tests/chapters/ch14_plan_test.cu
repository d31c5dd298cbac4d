// Which block has which keys, and how many blocks there are.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "longest_blocks.hpp"
#include "plan.cuh"
#include "schedules.hpp"

namespace fa::ch14 {
namespace {

TEST(DecodingPlan, BlocksHaveEqualSharesOfAllGranules) {
  for (int total = 1; total < 200; total += 1 + total / 9) {
    for (int blocks = 1; blocks < 150; blocks += 1 + blocks / 7) {
      const Division division = Division::of(total, blocks);
      ASSERT_EQ(division.blocks, std::min(total, blocks));
      ASSERT_EQ(division.first(0), 0);
      ASSERT_EQ(division.first(division.blocks), total);
      for (int block = 0; block < division.blocks; ++block) {
        const int count = division.first(block + 1) - division.first(block);
        ASSERT_GE(count, total / division.blocks);
        ASSERT_LE(count, (total + division.blocks - 1) / division.blocks);
        for (int granule = division.first(block); granule < division.first(block + 1); ++granule)
          ASSERT_EQ(division.block_of(granule), block);
      }
    }
  }
}

TEST(DecodingPlan, EveryPartHasASlotOfItsOwn) {
  std::mt19937 random(1);
  for (int problem = 0; problem < 300; ++problem) {
    std::vector<int> tiles_of_heads;
    int total = 0;
    for (unsigned head = 0; head < 1 + random() % 12; ++head) {
      tiles_of_heads.push_back(int(random() % 40));
      total += tiles_of_heads.back();
    }
    if (total == 0) continue;
    const Division division = Division::of(total, 1 + int(random() % 30));
    std::set<int> slots;
    int granule = 0;
    for (const int tiles : tiles_of_heads) {
      if (tiles == 0) continue;
      const Parts parts = Parts::of(division, granule, tiles);
      ASSERT_EQ(parts.first_block, division.block_of(granule));
      granule += tiles;
      ASSERT_EQ(parts.first_block + parts.count - 1, division.block_of(granule - 1));
      for (int part = 0; parts.count > 1 && part < parts.count; ++part) {
        const int slot = parts.slot(part);
        ASSERT_LT(slot, 2 * division.blocks);
        ASSERT_TRUE(slots.insert(slot).second) << slot;
      }
    }
  }
}

// 132 multiprocessors.
TEST(DecodingPlan, BlocksForEqualLengths) {
  EXPECT_EQ(blocks_of_equal_units(8, 132), 128);  // 16 for each head
  EXPECT_EQ(blocks_of_equal_units(1, 132), 132);
  EXPECT_EQ(blocks_of_equal_units(64, 132), 128);
  EXPECT_EQ(blocks_of_equal_units(100, 132), 100);  // never slightly more than run at the same time
  EXPECT_EQ(blocks_of_equal_units(132, 132), 132);
  EXPECT_EQ(blocks_of_equal_units(512, 132), 128);  // 4 heads for each
  EXPECT_EQ(blocks_of_equal_units(131 * 131, 132), 131);
  EXPECT_EQ(blocks_of_equal_units(10007, 132), 132);  // a prime number of heads: parts of heads
  EXPECT_EQ(blocks_of(8, true, 132, 0), 128);
  EXPECT_EQ(blocks_of(8, false, 132, 0), 132);  // of equal numbers of tokens
  EXPECT_EQ(blocks_of(8, true, 132, 5), 40);
}

// 7000 and 1000 keys of one head on 8 blocks, as in the lesson: the longest part has 55 granules of 32 keys,
// the longest share 32.
TEST(DecodingPlan, LongestBlocksOfTwoSchedules) {
  const std::int32_t lengths[] = {7000, 1000};
  const Granules of = {
      .key_lengths = lengths, .batch = 2, .heads = 1, .seq_k = 7000, .keys = 32, .blocks = 8};
  EXPECT_EQ(longest_part(of, 4), 55);
  EXPECT_EQ(longest_share(of, 8), 32);
  EXPECT_TRUE(equal_shares_are_faster(of, 4, 22));
  EXPECT_FALSE(equal_shares_are_faster(of, 4, 23));  // both end together
  const Granules equal = {
      .key_lengths = nullptr, .batch = 2, .heads = 3, .seq_k = 4000, .keys = 32, .blocks = 8};
  EXPECT_FALSE(equal_shares_are_faster(equal, 4, 0));
  EXPECT_EQ(wrong_schedule(), std::nullopt);
}

}  // namespace
}  // namespace fa::ch14
