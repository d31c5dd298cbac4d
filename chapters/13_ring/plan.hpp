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
/// A rank's keys are named by the *distance* of the rank that they come from, counted backwards round the
/// ring; where they are, by the *number* of a buffer. Each call of attention yields a *part* of O, dQ, dK and
/// dV, and a Sum of parts is the result. A rank has one *piece* of the sequence, or with zigzag two.
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
#include <vector>

#include "operations.hpp"

namespace fa::ch13 {

using enum Name;
using enum Role;
using enum Operation::Kind;

/// The numbers of a rank's pieces, in the order of the sequence. Not inline: other files call it, too, and
/// only chapter.cu includes this one.
std::vector<int> Split::pieces_of(int rank) const {
  if (!zigzag) return {rank};
  // EXERCISE 2: With zigzag, there are 2 * R pieces. Give each rank an early and a late one, from both ends on, so that all have the same work under a causal mask.
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

/// K and V of the rank that is `distance` back; with 0, the rank's own.
inline Views keys_of(const Share& s, int distance, const Changes& with) {
  const Range tokens = {0, s.split.tokens_of(s.ring().previous(distance))};
  if (distance == 0) return {s.of({kK}, tokens), s.of({kV}, tokens)};
  const int number = with.key_buffer(distance);
  return {s.of({kK, kIn, number}, tokens), s.of({kV, kIn, number}, tokens)};
}

/// The keys of the rank that is `from` back leave, those of the rank that is `to` back arrive. One rank
/// further on, keys have come from one rank further back: `to` is from + 1, or from - 1 if keys return.
inline void pass_on_keys(const Share& s, Step& now, int from, int to, const Changes& with) {
  rotate(now, s.ring(), keys_of(s, from, with), keys_of(s, to, with), to - from);
}

// --- sums of parts -----------------------------------------------------------------------------------------

/// The sum of the parts of O (with its LSE), dQ, dK or dV, for a range of tokens. The first part may lie
/// where the result will be, as 16-bit numbers; a sum that lacks parts is fp32; the last ones turn it into
/// the result.
class Sum {
 public:
  /// @param count  of parts, in all    @param number  of the buffer for sums that lack parts
  Sum(const Share& s, Name tensor, const Range& tokens, int count, int number = 0)
      : tokens_(tokens),
        result_(s.of({tensor}, tokens)),
        sum_(s.sums({tensor, kSums, number}, {0, tokens.length()})),
        missing_(count) {
    if (tensor == kO) lse_ = s.lse(tokens);
  }

  const Range& tokens() const { return tokens_; }
  const View& result() const { return result_; }
  bool has_begun() const { return earlier_.has_value(); }
  int waiting() const { return int(waiting_.size()); }

  /// The first part lies where the result will be.
  void begin() {
    earlier_ = result_;
    --missing_;
  }
  /// Another part, which waits to be added: of O, the second view is its LSE.
  void put(const Views& part) { waiting_.push_back(part); }

  /// Adds the parts that wait to those before.
  void add(Step& now, int lane = 0) {
    if (waiting_.empty()) return;
    missing_ -= waiting();
    Operation op = {.kind = lse_ ? kMerge : kAdd, .writes = {missing_ == 0 ? result_ : sum_}, .lane = lane};
    if (earlier_) op.reads.push_back(*earlier_);
    earlier_ = op.writes[0];
    if (lse_) {
      op.reads.push_back(*lse_);
      op.writes.push_back(*lse_);
    }
    for (const Views& part : waiting_) op.reads.insert(op.reads.end(), part.begin(), part.end());
    waiting_.clear();
    now.push_back(op);
  }

 private:
  Range tokens_;
  View result_, sum_;
  std::optional<View> lse_, earlier_;
  int missing_;
  std::vector<Views> waiting_;
};

/// O or dQ: a sum for each piece of the rank's queries.
inline std::vector<Sum> sums_of(const Share& s, Name tensor) {
  std::vector<Sum> sums;
  for (const Range& queries : s.split.local_pieces_of(s.rank)) {
    if (queries.length() == 0) continue;
    sums.emplace_back(s, tensor, queries, calls_with(s.split, s.rank, queries, s.causal), int(sums.size()));
  }
  return sums;
}

// --- ring --------------------------------------------------------------------------------------------------

/// A step of a ring. The forward pass goes further back with each step; homeward_backward() comes nearer.
struct Turn {
  int step;
  int distance;  ///< the rank computes with the keys of the rank that is so far back
  int lane;
};

/// After a step: adds the parts that wait, those of three steps at once if `parts` is on.
inline void add_parts(const Share& s, Step& now, const Turn& turn, std::vector<Sum>& sums,
                      const Changes& with) {
  if (turn.step % with.parts_at_once() != 0 && turn.step + 1 != s.R()) return;
  for (Sum& sum : sums) sum.add(now, turn.lane);
}

/// O and LSE of the rank's queries for the keys of a turn. The first part goes where the result will be.
inline void attend(const Share& s, Step& now, const Turn& turn, std::vector<Sum>& sums, const Changes& with) {
  const auto call = s.call(turn.distance);
  if (!call) return;
  const std::int64_t first = call->queries.begin, length = call->queries.length();
  // O and LSE of some queries, counted from the first one of the call.
  const auto part_of = [&](const Range& queries) -> Views {
    if (turn.step == 0) return {s.of({kO}, queries), s.lse(queries)};
    const int number = with.part_buffer(turn.step);
    return {s.of({kO, kPart, number}, queries), s.lse(kPart, number, queries, length)};
  };
  const Views keys = keys_of(s, turn.distance, with);
  now.push_back({.kind = kAttend,
                 .reads = {s.of({kQ}, call->queries), keys[0], keys[1]},
                 .writes = part_of({0, length}),
                 .call = *call,
                 .lane = turn.lane});
  for (Sum& sum : sums) {
    const auto [begin, end] = sum.tokens();
    if (begin < first) continue;
    turn.step == 0 ? sum.begin() : sum.put(part_of({begin - first, end - first}));
  }
}

/// Queries stay, keys go round: ring, zigzag and overlapped.
inline Plan ring_forward(const Share& s, const Changes& with) {
  Plan plan(std::size_t(s.R()));
  std::vector<Sum> sums = sums_of(s, kO);
  for (int step = 0; step < s.R(); ++step) {
    const Turn turn = {.step = step, .distance = step, .lane = with.lane(step)};
    Step& now = plan[std::size_t(step)];
    if (step + 1 < s.R()) {
      pass_on_keys(s, now, step, step + 1, with);
      // On an idle GPU, attention's blocks may come before the transfer's, and leave no room for them. If
      // steps overlap, the GPU is idle only before step 0. Later, the blocks of a step end one by one, and
      // priority gives their room to the transfer.
      if (with.head_start && (step == 0 || !with.steps))
        now.push_back({.kind = kHoldUp, .reads = keys_of(s, step, with), .lane = turn.lane});
    }
    attend(s, now, turn, sums, with);
    add_parts(s, now, turn, sums, with);
  }
  return plan;
}

/// The gradients that a turn's keys get from the rank's queries, given O and LSE.
/// @param dk, dv  where the parts of dK and dV go
inline void differentiate(const Share& s, Step& now, const Turn& turn, const View& dk, const View& dv,
                          std::vector<Sum>& sums, const Changes& with) {
  const auto call = s.call(turn.distance);
  const std::int64_t seen = call ? call->keys.end : 0;
  for (View unseen : {dk, dv}) {  // 0 for keys that the rank does not see
    const std::int64_t elements = seen * s.row(unseen.buffer.tensor);
    unseen.begin += elements;
    unseen.width -= elements;
    if (unseen.width > 0) now.push_back({.kind = kClear, .writes = {unseen}, .lane = turn.lane});
  }
  if (!call) return;

  const Range queries = call->queries;
  View lse = s.lse(queries);
  if (queries.length() < s.tokens()) {  // without the others between its heads
    lse = s.lse(kLate, turn.lane % 2, {0, queries.length()}, queries.length());
    now.push_back({.kind = kCopy, .reads = {s.lse(queries)}, .writes = {lse}, .lane = turn.lane});
  }
  // dQ goes where the result will be if this is the first part of all its sums.
  const auto is_in_call = [&](const Sum& sum) { return sum.tokens().begin >= queries.begin; };
  const bool is_first =
      std::ranges::none_of(sums, [&](const Sum& sum) { return is_in_call(sum) && sum.has_begun(); });
  const Buffer buffer = is_first ? Buffer{kDq} : Buffer{kDq, kPart, with.part_buffer(turn.step)};
  const std::int64_t begin = is_first ? queries.begin : 0;
  const Views keys = keys_of(s, turn.distance, with);
  now.push_back(
      {.kind = kDifferentiate,
       .reads = {s.of({kQ}, queries), keys[0], keys[1], s.of({kO}, queries), s.of({kDo}, queries), lse},
       .writes = {s.of(buffer, {begin, begin + queries.length()}), dk, dv},
       .call = *call,
       .lane = turn.lane});
  for (Sum& sum : sums) {
    if (!is_in_call(sum)) continue;
    const std::int64_t first = begin + sum.tokens().begin - queries.begin;
    const View dq = s.of(buffer, {first, first + sum.tokens().length()});
    if (sum.has_begun()) {
      sum.put({dq});
      continue;
    }
    sum.begin();
    if (!is_first) now.push_back({.kind = kCopy, .reads = {dq}, .writes = {sum.result()}, .lane = turn.lane});
  }
}

/// dQ stays with its queries. The sums of dK and dV follow their keys. Step 1 starts the sum of the previous
/// rank's keys; in each later step, a rank receives a sum, adds its part and sends it on. After the last step
/// it receives the sum of its own keys and adds its own part. A first part is sent as 16-bit numbers; sums
/// are fp32.
inline Plan ring_backward(const Share& s, const Changes& with) {
  Plan plan;
  std::vector<Sum> sums = sums_of(s, kDq);
  // Of the rank that is `distance` back. With distance R, that is the rank itself: its sums come home.
  const auto tokens = [&](int distance) { return Range{0, s.split.tokens_of(s.ring().previous(distance))}; };
  const auto sum_of = [&](Name tensor, Role role, int distance, int parts) {
    return parts == 1 ? s.of({tensor, role}, tokens(distance)) : s.sums({tensor, role}, tokens(distance));
  };
  // This rank has added the part number `distance` to the sums of that rank's keys.
  const auto pass_on_sums = [&](Step& now, int distance) {
    const auto both = [&](Role role, int from) -> Views {
      return {sum_of(kDk, role, from, distance), sum_of(kDv, role, from, distance)};
    };
    rotate(now, s.ring(), both(kOut, distance), both(kIn, distance + 1));
  };
  for (int step = 0; step < s.R(); ++step) {
    const Turn turn = {.step = step, .distance = step, .lane = 0};
    Step& now = plan.emplace_back();
    if (step + 1 < s.R()) pass_on_keys(s, now, step, step + 1, with);
    if (step >= 2) pass_on_sums(now, step - 1);
    const Role role = step == 0 ? kOwn : step == 1 ? kOut : kPart;
    const View dk = s.of({kDk, role}, tokens(step)), dv = s.of({kDv, role}, tokens(step));
    differentiate(s, now, turn, dk, dv, sums, with);
    add_parts(s, now, turn, sums, with);
    if (step < 2) continue;
    for (const View& part : {dk, dv}) {
      const Name tensor = part.buffer.tensor;
      now.push_back({.kind = kAdd,
                     .reads = {sum_of(tensor, kIn, step, step - 1), part},
                     .writes = {sum_of(tensor, kOut, step, step)}});
    }
  }
  if (s.R() == 1) return plan;
  Step& last = plan.emplace_back();
  pass_on_sums(last, s.R() - 1);
  for (const Name tensor : {kDk, kDv}) {
    const View own = s.of({tensor}, tokens(0));
    last.push_back({.kind = kAdd, .reads = {sum_of(tensor, kIn, s.R(), s.R() - 1), own}, .writes = {own}});
  }
  return plan;
}

// --- homeward ----------------------------------------------------------------------------------------------

/// Whether ring_forward() leaves the keys of the rank that is `distance` back in their buffer: no later step
/// has overwritten them.
inline bool forward_leaves(const Share& s, int distance, const Changes& with) {
  return distance == 0 || distance + with.key_buffers() >= s.R();
}

/// The ring of the forward pass, backwards. It must come right after ring_forward(), whose last keys are
/// still in the buffers kIn: it begins with these, and ends with the rank's own. The keys in between go back
/// the way they came. Each part of dK and dV goes straight to the rank that has its keys, beside the next
/// products.
inline Plan homeward_backward(const Share& s, const Changes& with) {
  constexpr int kMostWaiting = 3;
  Plan plan(std::size_t(s.R()));
  std::vector<Sum> sums = sums_of(s, kDq);
  const Range own = {0, s.tokens()};
  Sum dk_of_own(s, kDk, own, s.R());  // R - 1 parts arrive; the rank's own one is last
  Sum dv_of_own(s, kDv, own, s.R());
  for (int step = 0; step < s.R(); ++step) {
    const int distance = s.R() - 1 - step;
    const Turn turn = {.step = step, .distance = distance, .lane = with.lane(step)};
    Step& now = plan[std::size_t(step)];
    const auto part_of = [&](Name tensor) {
      const Range tokens = {0, s.split.tokens_of(s.ring().previous(distance))};
      return s.of(distance == 0 ? Buffer{tensor} : Buffer{tensor, kPart, step % 2}, tokens);
    };
    const View dk = part_of(kDk), dv = part_of(kDv);
    differentiate(s, now, turn, dk, dv, sums, with);
    if (distance > 0) {
      if (dk_of_own.waiting() == kMostWaiting) {
        for (Sum* sum : {&dk_of_own, &dv_of_own}) sum->add(now, kTransfers);
      }
      const int number = dk_of_own.waiting();
      const View dk_in = s.of({kDk, kIn, number}, own), dv_in = s.of({kDv, kIn, number}, own);
      rotate(now, s.ring(), {dk, dv}, {dk_in, dv_in}, -distance);
      dk_of_own.put({dk_in});
      dv_of_own.put({dv_in});
      // Those of the step after the next one.
      if (distance >= 2 && !forward_leaves(s, distance - 2, with))
        pass_on_keys(s, now, distance - 1, distance - 2, with);
    }
    add_parts(s, now, turn, sums, with);
  }
  if (s.R() == 1) return plan;
  for (Sum* sum : {&dk_of_own, &dv_of_own}) {
    sum->put({sum->result()});
    sum->add(plan.back(), kTransfers);
  }
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
inline Call gathered_call(const Share& s) {
  return {{0, s.tokens()}, {0, s.causal ? s.split.piece(s.rank).end : s.split.tokens}, s.causal};
}

inline Plan all_gather_forward(const Share& s, const Changes&) {
  Plan plan(1);
  gather_keys(s, plan[0]);
  const Call call = gathered_call(s);
  if (s.tokens() == 0) return plan;
  plan[0].push_back(
      {.kind = kAttend,
       .reads = {s.of({kQ}, call.queries), s.of({kK, kAll}, call.keys), s.of({kV, kAll}, call.keys)},
       .writes = {s.of({kO}, call.queries), s.lse(call.queries)},
       .call = call});
  return plan;
}

/// Each rank has a part of dK and dV of all keys: they go to the ranks that have the keys, which add them up.
inline Plan all_gather_backward(const Share& s, const Changes&) {
  Plan plan(2);
  gather_keys(s, plan[0]);
  const Call call = gathered_call(s);
  if (s.tokens() > 0) {
    plan[0].push_back(
        {.kind = kDifferentiate,
         .reads = {s.of({kQ}, call.queries), s.of({kK, kAll}, call.keys), s.of({kV, kAll}, call.keys),
                   s.of({kO}, call.queries), s.of({kDo}, call.queries), s.lse(call.queries)},
         .writes = {s.of({kDq}, call.queries), s.of({kDk, kAll}, call.keys), s.of({kDv, kAll}, call.keys)},
         .call = call});
  }
  const Range own = {0, s.tokens()};
  const auto sees = [&](int rank, int from) { return call_of(s.split, rank, from, s.causal).has_value(); };
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
    int parts = 0;
    for (int rank = 0; rank < s.R(); ++rank) parts += sees(rank, s.rank);
    Sum sum(s, tensor, own, parts);
    plan[1].push_back(
        {.kind = kCopy, .reads = {s.of({tensor, kAll}, s.split.piece(s.rank))}, .writes = {sum.result()}});
    sum.begin();
    for (int other = 0; other < s.R(); ++other) {
      if (other == s.rank || !sees(other, s.rank)) continue;
      sum.put({s.of({tensor, kIn, other}, own)});
      sum.add(plan[1]);
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
    for (int distance = 0; distance < s_.R(); ++distance) {
      const int peer = s_.ring().next(distance);  // each rank begins with another one
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
    for (int distance = 0; distance < s_.R(); ++distance) {
      const int peer = s_.ring().next(distance);  // each rank begins with another one
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
  Call call() const { return {{0, s_.split.tokens}, {0, s_.split.tokens}, s_.causal}; }

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
                     .call = trade.call(),
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
       .call = trade.call(),
       .shares = s.R()});
  trade.to_tokens(plan[1], {kDq, kDk, kDv}, false);
  return plan;
}

}  // namespace fa::ch13
