/// @file
/// Prints as JSON what each rank of chapter 13 computes in each step under a causal mask, for
/// tools/docs/ring.py.
#include <cstdint>
#include <cstdio>

#include "13_ring/plan.hpp"

namespace {

using fa::ch13::Call;
using fa::ch13::Ring;
using fa::ch13::Split;

constexpr int kRanks = 4;
constexpr std::int64_t kTokens = 4096;

/// Pairs of a query and a key that a call computes.
std::int64_t pairs(const Call& call) {
  const std::int64_t all = call.queries.length() * call.keys.length();
  return call.causal ? (all + call.queries.length()) / 2 : all;
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
      const auto call = call_of(split, rank, Ring{split.R, rank}.previous(step), true);
      std::printf("%s%ld", step == 0 ? "" : ", ", call ? long(pairs(*call)) : 0L);
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
