/// @file
/// Who has which tokens, and who computes what with whose keys.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace fa::ch13 {

/// Tokens begin .. end - 1.
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t length() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// How a sequence is divided: into one piece per rank, or with zigzag into two, of which the second one is
/// late if the first one is early. All pieces are equally long, except that the last ones end with the
/// sequence: they may be empty.
struct Split {
  int R = 1;  ///< ranks
  std::int64_t tokens = 0;
  bool zigzag = false;

  int pieces() const { return zigzag ? 2 * R : R; }
  std::int64_t length() const { return (tokens + pieces() - 1) / pieces(); }

  /// A piece, in tokens of the sequence.
  Range piece(int number) const {
    return {std::min(tokens, number * length()), std::min(tokens, (number + 1) * length())};
  }

  /// The numbers of a rank's pieces, in the order of the sequence: plan.hpp.
  std::vector<int> pieces_of(int rank) const;

  /// The same pieces, in tokens of the rank, which has them one after the other.
  std::vector<Range> local_pieces_of(int rank) const {
    std::vector<Range> pieces;
    std::int64_t begin = 0;
    for (const int number : pieces_of(rank)) {
      const std::int64_t end = begin + piece(number).length();
      pieces.push_back({begin, end});
      begin = end;
    }
    return pieces;
  }

  std::int64_t tokens_of(int rank) const { return local_pieces_of(rank).back().end; }

  /// The most that a rank has.
  std::int64_t most_tokens() const { return length() * (zigzag ? 2 : 1); }
};

/// A call of attention: queries of one rank, keys of another, both in tokens of their ranks.
struct Call {
  Range queries, keys;
  bool causal;
  bool operator==(const Call&) const = default;
};

/// What a rank computes with the keys of rank `from`; nothing if it sees none of them.
inline std::optional<Call> call_of(const Split& split, int rank, int from, bool causal) {
  const Range queries = {0, split.tokens_of(rank)}, keys = {0, split.tokens_of(from)};
  Call call = {queries, keys, false};
  if (causal && from == rank) {
    call.causal = true;  // its pieces are in the order of the sequence: local positions tell who is earlier
  } else if (causal && split.zigzag) {
    // The early piece of an earlier rank is before both of ours, and its late piece after both. A later
    // rank's are both between ours.
    if (from < rank) call.keys = split.local_pieces_of(from)[0];
    if (from > rank) call.queries = split.local_pieces_of(rank)[1];
  } else if (causal && from > rank) {
    return std::nullopt;
  }
  if (call.queries.length() == 0 || call.keys.length() == 0) return std::nullopt;
  return call;
}

/// How many calls the queries of a range, one of the rank's pieces, belong to.
inline int calls_with(const Split& split, int rank, const Range& queries, bool causal) {
  int calls = 0;
  for (int from = 0; from < split.R; ++from) {
    const auto call = call_of(split, rank, from, causal);
    calls += call && call->queries.begin <= queries.begin && queries.end <= call->queries.end;
  }
  return calls;
}

}  // namespace fa::ch13
