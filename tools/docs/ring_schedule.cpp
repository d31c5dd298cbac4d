/// @file
/// Prints as JSON what each rank of chapter 13 computes in each step under a causal mask, for
/// tools/docs/ring.py.
#include <cstdint>
#include <cstdio>

#include "13_ring/plan.hpp"

namespace {

using fa::ch13::Part;
using fa::ch13::Ring;
using fa::ch13::Split;

constexpr int kRanks = 4;
constexpr std::int64_t kTokens = 4096;

/// Pairs of a query and a key that a call computes.
std::int64_t pairs(const Part& part) {
  const std::int64_t all = part.queries.length() * part.keys.length();
  return part.causal ? (all + part.queries.length()) / 2 : all;
}

void print(const char* name, const Split& split) {
  std::printf("\"%s\": {\"pieces\": [", name);
  for (int rank = 0; rank < split.R; ++rank) {
    std::printf("%s[", rank == 0 ? "" : ", ");
    for (const int number : split.pieces_of(rank)) {
      const auto [begin, end] = split.piece(number);
      std::printf("%s[%ld, %ld]", number == split.pieces_of(rank)[0] ? "" : ", ", long(begin), long(end));
    }
    std::printf("]");
  }
  std::printf("], \"pairs\": [");
  for (int rank = 0; rank < split.R; ++rank) {
    std::printf("%s[", rank == 0 ? "" : ", ");
    for (int step = 0; step < split.R; ++step) {
      const auto part = part_of(split, rank, Ring{split.R, rank}.owner(step), true);
      std::printf("%s%ld", step == 0 ? "" : ", ", part ? long(pairs(*part)) : 0L);
    }
    std::printf("]");
  }
  std::printf("]}");
}

}  // namespace

int main() {
  std::printf("{\"ranks\": %d, \"tokens\": %ld, ", kRanks, long(kTokens));
  print("ring", {.R = kRanks, .tokens = kTokens, .zigzag = false});
  std::printf(", ");
  print("zigzag", {.R = kRanks, .tokens = kTokens, .zigzag = true});
  std::printf("}\n");
}
