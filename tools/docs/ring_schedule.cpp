/// @file
/// Prints as JSON what each rank of chapter 13 computes in each step under a causal mask, and where parts of
/// dK travel, for tools/docs/ring.py.
#include <cstdint>
#include <cstdio>

#include "13_ring/plan.hpp"

namespace {

using fa::ch13::Call;
using fa::ch13::Changes;
using fa::ch13::Kind;
using fa::ch13::Name;
using fa::ch13::Plan;
using fa::ch13::Ring;
using fa::ch13::Share;
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

/// Prints the messages with dK in the backward passes of all ranks: step, rank, peer, bytes of an element.
void print_messages(const char* name, Plan (*plan_of)(const Share&, const Changes&), const Changes& with) {
  std::printf("\"%s\": [", name);
  const char* before = "";
  for (int rank = 0; rank < kRanks; ++rank) {
    const Share share = {.split = {.R = kRanks, .tokens = kTokens, .zigzag = true},
                         .rank = rank,
                         .batch = 1,
                         .heads = 1,
                         .kv_heads = 1,
                         .head_dim = 64,
                         .causal = true};
    int step = 0;
    for (const auto& operations : plan_of(share, with)) {
      for (const auto& op : operations) {
        if (op.kind != Kind::kSend || op.reads[0].buffer.tensor != Name::kDk) continue;
        std::printf("%s[%d, %d, %d, %d]", before, step, rank, op.peer, op.reads[0].element_bytes);
        before = ", ";
      }
      ++step;
    }
  }
  std::printf("]");
}

}  // namespace

int main() {
  std::printf("{\"ranks\": %d, \"tokens\": %ld, ", kRanks, long(kTokens));
  print("ring", {.R = kRanks, .tokens = kTokens, .zigzag = false});
  std::printf(", ");
  print("zigzag", {.R = kRanks, .tokens = kTokens, .zigzag = true});
  std::printf(", ");
  print_messages("round", fa::ch13::ring_backward, {});
  std::printf(", ");
  print_messages("straight", fa::ch13::homeward_backward,
                 {.head_start = true, .steps = true, .parts = true, .registered = true, .homeward = true});
  std::printf("}\n");
}
