/// @file
/// Checks equal_shares_are_faster() on many random lengths, block by block.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "plan.cuh"
#include "schedules.hpp"

namespace fa::ch14 {

/// The granules of the longest block of `in_flight`, which has `splits` parts of each head.
inline int longest_part(const Granules& of, int splits) {
  int longest = 0;
  for (int batch = 0; batch < of.batch; ++batch) {
    const int tiles = of.of_length(of.length(batch));
    for (int split = 0; split < splits; ++split)
      longest = std::max(longest, (split + 1) * tiles / splits - split * tiles / splits);
  }
  return longest;
}

/// The same of `balanced`.
inline int longest_share(const Granules& of, int blocks) {
  int all = 0, longest = 0;
  for (int batch = 0; batch < of.batch; ++batch) all += of.heads * of.of_length(of.length(batch));
  const Division division = Division::of(all, blocks);
  for (int block = 0; block < division.blocks; ++block)
    longest = std::max(longest, division.first(block + 1) - division.first(block));
  return longest;
}

/// What equal_shares_are_faster() says wrongly of some random lengths, on one line; nothing if it is right.
inline std::optional<std::string> wrong_schedule() {
  std::mt19937 random(14);
  const auto up_to = [&](int most) { return 1 + int(random() % unsigned(most)); };
  for (int problem = 0; problem < 1000; ++problem) {
    std::vector<std::int32_t> lengths(std::size_t(up_to(6)));
    const int most = up_to(3000);
    for (std::int32_t& length : lengths) length = up_to(4) == 1 ? most : up_to(most) - 1;
    const Granules of = {.key_lengths = lengths.data(),
                         .batch = int(lengths.size()),
                         .heads = up_to(4),
                         .seq_k = most,
                         .keys = 8 << up_to(3),
                         .blocks = 0};
    const int splits = up_to(8);
    const int part = longest_part(of, splits), share = longest_share(of, splits * of.batch * of.heads);
    const int plan = std::max(0, part - share + up_to(5) - 3);  // often, both end nearly together
    const bool is_faster = plan + share < part;
    if (equal_shares_are_faster(of, splits, plan) == is_faster) continue;
    std::string text;
    for (const std::int32_t length : lengths) text += (text.empty() ? "" : ", ") + std::to_string(length);
    return "equal_shares_are_faster() is " + std::string(is_faster ? "false" : "true") + " for lengths " +
           text + ", " + std::to_string(of.heads) + " heads, granules of " + std::to_string(of.keys) +
           " keys, splits " + std::to_string(splits) + " and plan " + std::to_string(plan) +
           ": the longest part has " + std::to_string(part) + " granules, the longest share " +
           std::to_string(share);
  }
  return std::nullopt;
}

}  // namespace fa::ch14
