/// @file
/// The plan of one rank: operations in the order in which they are enqueued, in steps. There is a function
/// for each way to distribute attention, and each pass.
///
/// A step is no barrier. An operation waits only for those that use the same buffer (order.hpp): for what
/// wrote what it reads, and for what used what it overwrites. For example rank 1 of 4 in `ring`, forward:
///
///   step 0   sends K and V to rank 2, receives those of rank 0 as number 1; attends to its own
///   step 1   sends number 1, receives those of rank 3 as number 0; attends to number 1, merges
///   step 2   sends number 0, receives those of rank 2 as number 1; attends to number 0, merges
///   step 3   attends to number 1, merges
///
/// To add a method, write a function that returns its plan, and a line in chapter.cu. The rest follows from
/// what the operations read and write: how large buffers are (buffers.cpp), what waits for what (order.hpp),
/// and how many bytes that is (bytes.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "operations.hpp"

namespace fa::ch13 {

using enum Name;
using enum Role;
using enum Kind;

/// The numbers of a rank's pieces, in the order of the sequence.
inline std::vector<int> Split::pieces_of(int rank) const {
  if (!zigzag) return {rank};
  // EXERCISE 2: With zigzag, there are 2 * R pieces. Give each rank an early and a late one, so that all have the same work under a causal mask.
  return {rank, 2 * R - 1 - rank};
  // END 2
}

// --- transfers of a ring -----------------------------------------------------------------------------------

using Views = std::vector<View>;

/// Sends views to the rank that is `distance` further on, and receives as many from the rank that is
/// `distance` back.
inline void rotate(Step& now, const Ring& ring, const Views& leaving, const Views& arriving,
                   int distance = 1) {
  now.push_back({.kind = kSend, .reads = leaving, .peer = ring.next(distance), .lane = kTransfers});
  now.push_back({.kind = kReceive, .writes = arriving, .peer = ring.previous(distance), .lane = kTransfers});
}

/// K and V that the rank has in a step: its own in step 0, then those in buffer step % key_buffers().
inline Views keys_of(const Share& s, int step, const Changes& with) {
  const Range tokens = {0, s.split.tokens_of(s.ring().owner(step))};
  if (step == 0) return {s.of({kK}, tokens), s.of({kV}, tokens)};
  const int number = step % with.key_buffers();
  return {s.of({kK, kIn, number}, tokens), s.of({kV, kIn, number}, tokens)};
}

/// K and V of step `from` leave, those of step `to` arrive.
inline void pass_on_keys(const Share& s, Step& now, int from, int to, const Changes& with, int distance = 1) {
  rotate(now, s.ring(), keys_of(s, from, with), keys_of(s, to, with), distance);
}

// --- sums of parts -----------------------------------------------------------------------------------------

/// Rows of which several parts are added up. The first part goes where the result will be, as 16-bit numbers;
/// sums that are not yet complete are fp32; the last part turns them into the result.
struct Sum {
  View result, sums;
  int parts;     ///< in all
  int done = 0;  ///< of these

  /// What the next parts are added to, and where their sum goes.
  std::pair<View, View> next(int more) {
    const View earlier = done == 1 ? result : sums;
    done += more;
    return {earlier, done == parts ? result : sums};
  }
};

/// O or dQ of one piece of the rank's queries.
struct Piece {
  Range queries;
  Sum sum;
  std::vector<View> waiting = {};  ///< parts, for O each with its LSE
};

inline std::vector<Piece> pieces_of(const Share& s, Name tensor) {
  std::vector<Piece> pieces;
  for (const Range& queries : s.split.local_pieces_of(s.rank)) {
    if (queries.length() == 0) continue;
    const View sums = s.sums({tensor, kSums, int(pieces.size())}, {0, queries.length()});
    pieces.push_back(
        {queries, {s.of({tensor}, queries), sums, parts_of(s.split, s.rank, queries, s.causal)}});
  }
  return pieces;
}

/// Whether the parts that wait are merged after part `number`.
inline bool merges_after(const Share& s, int number, const Changes& with) {
  return number % with.parts_at_once() == 0 || number + 1 == s.R();
}

/// Adds the parts that wait to what a piece has had before.
inline void add_waiting(const Share& s, Step& now, Piece& piece, int lane) {
  if (piece.waiting.empty()) return;
  const bool is_o = piece.sum.result.buffer.tensor == kO;
  const auto [earlier, to] = piece.sum.next(int(piece.waiting.size()) / (is_o ? 2 : 1));
  Operation sum = {.kind = is_o ? kMerge : kAdd, .reads = {earlier}, .writes = {to}, .lane = lane};
  if (is_o) {
    sum.reads.push_back(s.lse(piece.queries));
    sum.writes.push_back(s.lse(piece.queries));
  }
  sum.reads.insert(sum.reads.end(), piece.waiting.begin(), piece.waiting.end());
  piece.waiting.clear();
  now.push_back(sum);
}

// --- ring --------------------------------------------------------------------------------------------------

/// Attention to the keys of a step. The first part of O and LSE goes where the result will be.
inline void attend(const Share& s, Step& now, int step, std::vector<Piece>& pieces, const Changes& with) {
  const auto part = s.part(s.ring().owner(step));
  if (!part) return;
  const Range queries = part->queries;
  // O and LSE of some queries, counted from the first one of the part.
  const auto results = [&](const Range& of) -> Views {
    if (step == 0) return {s.of({kO}, of), s.lse(of)};
    const int number = step % with.part_buffers();
    return {s.of({kO, kPart, number}, of), s.lse(kPart, number, of, queries.length())};
  };
  const Views keys = keys_of(s, step, with);
  now.push_back({.kind = kAttend,
                 .reads = {s.of({kQ}, queries), keys[0], keys[1]},
                 .writes = results({0, queries.length()}),
                 .part = *part,
                 .lane = with.lane(step)});
  for (Piece& piece : pieces) {
    if (piece.queries.begin < queries.begin) continue;
    if (step == 0) {
      piece.sum.done = 1;
    } else {
      for (const View& view :
           results({piece.queries.begin - queries.begin, piece.queries.end - queries.begin}))
        piece.waiting.push_back(view);
    }
  }
}

/// Queries stay, keys go round: ring, zigzag and overlapped.
inline Plan ring_forward(const Share& s, const Changes& with) {
  Plan plan(std::size_t(s.R()));
  std::vector<Piece> pieces = pieces_of(s, kO);
  for (int step = 0; step < s.R(); ++step) {
    Step& now = plan[std::size_t(step)];
    if (step + 1 < s.R()) {
      pass_on_keys(s, now, step, step + 1, with);
      if (with.head_start && (step == 0 || !with.steps)) {
        now.push_back({.kind = kHoldUp, .reads = keys_of(s, step, with), .lane = with.lane(step)});
      }
    }
    attend(s, now, step, pieces, with);
    for (Piece& piece : pieces) {
      if (merges_after(s, step, with)) add_waiting(s, now, piece, with.lane(step));
    }
  }
  return plan;
}

/// The gradients that a step's keys get from the rank's queries, given O and LSE.
/// @param number  of the part of dQ    @param dk, dv  where the parts of dK and dV go
inline void differentiate(const Share& s, Step& now, int step, int number, const View& dk, const View& dv,
                          std::vector<Piece>& pieces, const Changes& with, int lane) {
  const auto part = s.part(s.ring().owner(step));
  const std::int64_t seen = part ? part->keys.end : 0;
  for (View unseen : {dk, dv}) {  // 0 for keys that the rank does not see
    const std::int64_t elements = seen * s.row(unseen.buffer.tensor);
    unseen.begin += elements;
    unseen.width -= elements;
    if (unseen.width > 0) now.push_back({.kind = kClear, .writes = {unseen}, .lane = lane});
  }
  if (!part) return;

  const Range queries = part->queries;
  View lse = s.lse(queries);
  if (queries.length() < s.tokens()) {  // without the others between its heads
    lse = s.lse(kLate, lane % 2, {0, queries.length()}, queries.length());
    now.push_back({.kind = kCopy, .reads = {s.lse(queries)}, .writes = {lse}, .lane = lane});
  }
  // dQ goes where the result will be if this is the first part of all its pieces.
  const auto is_of = [&](const Piece& piece) { return piece.queries.begin >= queries.begin; };
  const bool is_first =
      std::ranges::all_of(pieces, [&](const Piece& piece) { return !is_of(piece) || piece.sum.done == 0; });
  const Buffer buffer = is_first ? Buffer{kDq} : Buffer{kDq, kPart, number % with.part_buffers()};
  const std::int64_t begin = is_first ? queries.begin : 0;
  const Views keys = keys_of(s, step, with);
  now.push_back(
      {.kind = kDifferentiate,
       .reads = {s.of({kQ}, queries), keys[0], keys[1], s.of({kO}, queries), s.of({kDo}, queries), lse},
       .writes = {s.of(buffer, {begin, begin + queries.length()}), dk, dv},
       .part = *part,
       .lane = lane});
  for (Piece& piece : pieces) {
    if (!is_of(piece)) continue;
    const std::int64_t first = begin + piece.queries.begin - queries.begin;
    const View dq = s.of(buffer, {first, first + piece.queries.length()});
    if (piece.sum.done > 0) {
      piece.waiting.push_back(dq);
      continue;
    }
    piece.sum.done = 1;
    if (!is_first) now.push_back({.kind = kCopy, .reads = {dq}, .writes = {piece.sum.result}, .lane = lane});
  }
}

/// dQ stays with its queries. The sums of dK and dV follow their keys. Step 1 starts the sum of the previous
/// rank's keys; in each later step, a rank receives a sum, adds its part and sends it on. After the last step
/// it receives the sum of its own keys and adds its own part. A first part is sent as 16-bit numbers; sums
/// are fp32.
inline Plan ring_backward(const Share& s, const Changes& with) {
  Plan plan;
  std::vector<Piece> pieces = pieces_of(s, kDq);
  // Part `number` of dK or dV belongs to the keys of that step; number R, to the rank's own.
  const auto tokens = [&](int number) { return Range{0, s.split.tokens_of(s.ring().owner(number % s.R()))}; };
  const auto sums = [&](Name tensor, Role role, int number, int parts) {
    return parts == 1 ? s.of({tensor, role}, tokens(number)) : s.sums({tensor, role}, tokens(number));
  };
  const auto pass_on_sums = [&](Step& now, int number) {  // which contain part `number`
    const auto both = [&](Role role, int of) -> Views {
      return {sums(kDk, role, of, number), sums(kDv, role, of, number)};
    };
    rotate(now, s.ring(), both(kOut, number), both(kIn, number + 1));
  };
  for (int step = 0; step < s.R(); ++step) {
    Step& now = plan.emplace_back();
    if (step + 1 < s.R()) pass_on_keys(s, now, step, step + 1, with);
    if (step >= 2) pass_on_sums(now, step - 1);
    const Role role = step == 0 ? kOwn : step == 1 ? kOut : kPart;
    const View dk = s.of({kDk, role}, tokens(step)), dv = s.of({kDv, role}, tokens(step));
    differentiate(s, now, step, step, dk, dv, pieces, with, 0);
    for (Piece& piece : pieces) {
      if (merges_after(s, step, with)) add_waiting(s, now, piece, 0);
    }
    if (step < 2) continue;
    for (const View& part : {dk, dv}) {
      const Name tensor = part.buffer.tensor;
      now.push_back({.kind = kAdd,
                     .reads = {sums(tensor, kIn, step, step - 1), part},
                     .writes = {sums(tensor, kOut, step, step)}});
    }
  }
  if (s.R() == 1) return plan;
  Step& last = plan.emplace_back();
  pass_on_sums(last, s.R() - 1);
  for (const Name tensor : {kDk, kDv}) {
    const View own = s.of({tensor}, tokens(0));
    last.push_back({.kind = kAdd, .reads = {sums(tensor, kIn, s.R(), s.R() - 1), own}, .writes = {own}});
  }
  return plan;
}

// --- homeward ----------------------------------------------------------------------------------------------

/// Whether the keys of `step` have to go back to the previous rank: those of the last steps of the forward
/// pass are still in the buffers where they are needed, and each rank has its own.
inline bool keys_go_back(const Share& s, int step, const Changes& with) {
  return step >= 2 && step + with.key_buffers() <= s.R();
}

/// The ring of the forward pass, backwards, right after it. It begins with the keys that the forward pass
/// ended with, which are still here, and ends with the rank's own. Each part of dK and dV goes straight to
/// the rank that has its keys, beside the next products.
inline Plan homeward_backward(const Share& s, const Changes& with) {
  constexpr int kMostArrived = 3;
  Plan plan(std::size_t(s.R()));
  std::vector<Piece> pieces = pieces_of(s, kDq);
  const Range own = {0, s.tokens()};
  int arrived = 0;  // parts of dK and of dV that wait to be added
  bool has_sums = false;
  // Adds what has arrived, in the end to the rank's own part.
  const auto add_arrived = [&](Step& now, bool is_last) {
    for (const Name tensor : {kDk, kDv}) {
      const View sums = s.sums({tensor, kSums}, own), result = s.of({tensor}, own);
      Operation sum = {.kind = kAdd, .writes = {is_last ? result : sums}, .lane = kTransfers};
      if (has_sums) sum.reads.push_back(sums);
      for (int k = 0; k < arrived; ++k) sum.reads.push_back(s.of({tensor, kIn, k}, own));
      if (is_last) sum.reads.push_back(result);
      now.push_back(sum);
    }
    arrived = 0;
    has_sums = true;
  };
  for (int number = 0; number < s.R(); ++number) {
    const int step = s.R() - 1 - number;
    Step& now = plan[std::size_t(number)];
    const Range keys = {0, s.split.tokens_of(s.ring().owner(step))};
    const auto part = [&](Name tensor) {
      return s.of(step == 0 ? Buffer{tensor} : Buffer{tensor, kPart, number % 2}, keys);
    };
    const View dk = part(kDk), dv = part(kDv);
    differentiate(s, now, step, number, dk, dv, pieces, with, with.lane(number));
    if (step > 0) {
      if (arrived == kMostArrived) add_arrived(now, false);
      rotate(now, s.ring(), {dk, dv}, {s.of({kDk, kIn, arrived}, own), s.of({kDv, kIn, arrived}, own)},
             -step);
      ++arrived;
      if (keys_go_back(s, step - 1, with)) pass_on_keys(s, now, step - 1, step - 2, with, -1);
    }
    for (Piece& piece : pieces) {
      if (merges_after(s, number, with)) add_waiting(s, now, piece, with.lane(number));
    }
  }
  if (s.R() > 1) add_arrived(plan.back(), true);
  return plan;
}

inline Plan ring_or_homeward_backward(const Share& s, const Changes& with) {
  return with.homeward ? homeward_backward(s, with) : ring_backward(s, with);
}

// --- all-gather --------------------------------------------------------------------------------------------

/// Every rank gets all of K and V.
inline void gather_keys(const Share& s, Step& now) {
  const std::int64_t length = s.split.length();  // of a rank, with what the last ones lack
  const Range own = {0, length}, all = {0, s.R() * length};
  now.push_back({.kind = kGather,
                 .reads = {s.of({kK}, own), s.of({kV}, own)},
                 .writes = {s.of({kK, kAll}, all), s.of({kV, kAll}, all)},
                 .lane = kTransfers});
}

/// A rank's queries and all keys that one of them sees: its last query is the last one that sees them all, as
/// the mask of a kernel wants it.
inline Part gathered_part(const Share& s) {
  return {{0, s.tokens()}, {0, s.causal ? s.split.piece(s.rank).end : s.split.tokens}, s.causal};
}

inline Plan all_gather_forward(const Share& s, const Changes&) {
  Plan plan(1);
  gather_keys(s, plan[0]);
  const Part part = gathered_part(s);
  if (s.tokens() == 0) return plan;
  plan[0].push_back(
      {.kind = kAttend,
       .reads = {s.of({kQ}, part.queries), s.of({kK, kAll}, part.keys), s.of({kV, kAll}, part.keys)},
       .writes = {s.of({kO}, part.queries), s.lse(part.queries)},
       .part = part});
  return plan;
}

/// Each rank has a part of dK and dV of all keys: they go to the ranks that have the keys, which add them up.
inline Plan all_gather_backward(const Share& s, const Changes&) {
  Plan plan(2);
  gather_keys(s, plan[0]);
  const Part part = gathered_part(s);
  if (s.tokens() > 0) {
    plan[0].push_back(
        {.kind = kDifferentiate,
         .reads = {s.of({kQ}, part.queries), s.of({kK, kAll}, part.keys), s.of({kV, kAll}, part.keys),
                   s.of({kO}, part.queries), s.of({kDo}, part.queries), s.lse(part.queries)},
         .writes = {s.of({kDq}, part.queries), s.of({kDk, kAll}, part.keys), s.of({kDv, kAll}, part.keys)},
         .part = part});
  }
  const Range own = {0, s.tokens()};
  const auto sees = [&](int rank, int from) { return part_of(s.split, rank, from, s.causal).has_value(); };
  for (int other = 0; other < s.R(); ++other) {
    if (other == s.rank) continue;
    if (sees(s.rank, other)) {
      const Range theirs = s.split.piece(other);
      plan[1].push_back({.kind = kSend,
                         .reads = {s.of({kDk, kAll}, theirs), s.of({kDv, kAll}, theirs)},
                         .peer = other,
                         .lane = kTransfers});
    }
    if (sees(other, s.rank)) {
      plan[1].push_back({.kind = kReceive,
                         .writes = {s.of({kDk, kIn, other}, own), s.of({kDv, kIn, other}, own)},
                         .peer = other,
                         .lane = kTransfers});
    }
  }
  if (s.tokens() == 0) return plan;

  for (const Name tensor : {kDk, kDv}) {
    Sum sum = {s.of({tensor}, own), s.sums({tensor, kSums}, own), 0, 1};
    for (int rank = 0; rank < s.R(); ++rank) sum.parts += sees(rank, s.rank);
    plan[1].push_back(
        {.kind = kCopy, .reads = {s.of({tensor, kAll}, s.split.piece(s.rank))}, .writes = {sum.result}});
    for (int other = 0; other < s.R(); ++other) {
      if (other == s.rank || !sees(other, s.rank)) continue;
      const auto [earlier, to] = sum.next(1);
      plan[1].push_back({.kind = kAdd, .reads = {earlier, s.of({tensor, kIn, other}, own)}, .writes = {to}});
    }
  }
  return plan;
}

// --- all-to-all --------------------------------------------------------------------------------------------

/// Heads traded for tokens (Ulysses): a tensor has the rank's tokens with all heads, or all tokens with the
/// rank's heads.
class Trade {
 public:
  explicit Trade(const Share& s) : s_(s) {}

  /// Sends each rank its heads of this rank's tokens. A message must not have the other heads between its
  /// own, so they are packed first.
  void to_heads(Step& now, std::initializer_list<Name> tensors) const {
    for (const Name tensor : tensors) {
      for (int peer = 0; peer < s_.R(); ++peer)
        now.push_back({.kind = kCopy, .reads = {own(tensor, peer)}, .writes = {packed(tensor, peer)}});
    }
    for (int peer = 0; peer < s_.R(); ++peer) {
      Views leaving, arriving;
      for (const Name tensor : tensors) {
        leaving.push_back(flat(packed(tensor, peer)));
        arriving.push_back(heads(tensor, peer));
      }
      trade(now, leaving, arriving, peer);
    }
  }

  /// The way back. The rank's heads of a rank's tokens follow each other, except in LSE.
  void to_tokens(Step& now, std::initializer_list<Name> tensors, bool with_lse) const {
    const std::int64_t rows = s_.batch * s_.heads / s_.R(), share = s_.heads / s_.R() * s_.tokens();
    const auto lse = [&](Role role) { return View{{kLse, role}, sizeof(float)}; };
    const auto lse_out = [&](int peer) {
      const Range theirs = s_.split.piece(peer);
      View view = lse(kOut);
      view.begin = rows * theirs.begin;
      view.width = view.pitch = theirs.length();
      view.rows = rows;
      return view;
    };
    const auto lse_in = [&](int peer) {
      View view = lse(kIn);
      view.begin = peer * rows * s_.tokens();
      view.width = view.pitch = share;
      view.rows = s_.batch;
      return view;
    };
    for (int peer = 0; with_lse && peer < s_.R(); ++peer) {
      View from = lse_out(peer);
      from.buffer.role = kHeads;
      from.begin = s_.split.piece(peer).begin;
      from.pitch = s_.split.tokens;
      now.push_back({.kind = kCopy, .reads = {from}, .writes = {lse_out(peer)}});
    }
    for (int peer = 0; peer < s_.R(); ++peer) {
      Views leaving, arriving;
      for (const Name tensor : tensors) {
        leaving.push_back(heads(tensor, peer));
        arriving.push_back(flat(packed(tensor, peer)));
      }
      if (with_lse) {
        leaving.push_back(flat(lse_out(peer)));
        arriving.push_back(flat(lse_in(peer)));
      }
      trade(now, leaving, arriving, peer);
    }
    for (const Name tensor : tensors) {
      for (int peer = 0; peer < s_.R(); ++peer)
        now.push_back({.kind = kCopy, .reads = {packed(tensor, peer)}, .writes = {own(tensor, peer)}});
    }
    for (int peer = 0; with_lse && peer < s_.R(); ++peer) {
      View to = lse_in(peer);
      to.buffer.role = kOwn;
      to.begin = peer * share;
      to.pitch = s_.heads * s_.tokens();
      now.push_back({.kind = kCopy, .reads = {lse_in(peer)}, .writes = {to}});
    }
  }

  /// The rank's heads of all tokens.
  View all(Name tensor) const {
    return {{tensor, kHeads}, s_.element_bytes, 0, s_.split.tokens * s_.row(tensor) / s_.R()};
  }
  View all_lse() const { return {{kLse, kHeads}, sizeof(float), 0, s_.split.tokens * s_.row(kLse) / s_.R()}; }
  Part part() const { return {{0, s_.split.tokens}, {0, s_.split.tokens}, s_.causal}; }

 private:
  static void trade(Step& now, const Views& leaving, const Views& arriving, int peer) {
    now.push_back({.kind = kSend, .reads = leaving, .peer = peer, .lane = kTransfers});
    now.push_back({.kind = kReceive, .writes = arriving, .peer = peer, .lane = kTransfers});
  }
  /// The same elements, which follow each other, as one row.
  static View flat(View view) {
    view.width *= view.rows;
    view.rows = 1;
    return view;
  }

  /// A rank's heads of this rank's tokens: a row for each token and batch.
  View own(Name tensor, int peer) const {
    const std::int64_t pitch = s_.row(tensor) / s_.batch, width = pitch / s_.R();
    return {{tensor}, s_.element_bytes, peer * width, width, s_.tokens() * s_.batch, pitch};
  }
  View packed(Name tensor, int peer) const {
    View view = own(tensor, peer);
    view.buffer.role = kPacked;
    view.begin = peer * view.rows * view.width;
    view.pitch = view.width;
    return view;
  }
  /// This rank's heads of a rank's tokens.
  View heads(Name tensor, int peer) const {
    const std::int64_t row = s_.row(tensor) / s_.R();
    const Range theirs = s_.split.piece(peer);
    return {{tensor, kHeads}, s_.element_bytes, theirs.begin * row, theirs.length() * row};
  }

  const Share& s_;
};

inline Plan all_to_all_forward(const Share& s, const Changes&) {
  Plan plan(2);
  const Trade trade(s);
  trade.to_heads(plan[0], {kQ, kK, kV});
  plan[1].push_back({.kind = kAttend,
                     .reads = {trade.all(kQ), trade.all(kK), trade.all(kV)},
                     .writes = {trade.all(kO), trade.all_lse()},
                     .part = trade.part(),
                     .shares = s.R()});
  trade.to_tokens(plan[1], {kO}, true);
  return plan;
}

/// Q, K, V, O and LSE of this rank's heads are still there.
inline Plan all_to_all_backward(const Share& s, const Changes&) {
  Plan plan(2);
  const Trade trade(s);
  trade.to_heads(plan[0], {kDo});
  plan[1].push_back(
      {.kind = kDifferentiate,
       .reads = {trade.all(kQ), trade.all(kK), trade.all(kV), trade.all(kO), trade.all(kDo), trade.all_lse()},
       .writes = {trade.all(kDq), trade.all(kDk), trade.all(kDv)},
       .part = trade.part(),
       .shares = s.R()});
  trade.to_tokens(plan[1], {kDq, kDk, kDv}, false);
  return plan;
}

}  // namespace fa::ch13
