/// @file
/// The backward pass whose transfers all have products beside them: the ring of the forward pass, backwards.
///
/// It begins with the keys that the forward pass ended with, which are still here, and ends with the rank's own. The sums of dK
/// and dV go the way back that their keys came, and arrive at home while the rank computes with its own keys.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <vector>

#include "calls.cuh"
#include "rank.hpp"
#include "ring.cuh"
#include "schedule.cuh"

namespace fa::ch13 {

/// Whether the keys of `step` have to go back to the previous rank: those of the last steps of the forward pass are still in the
/// buffers where they are needed, and each rank has its own.
inline bool keys_go_back(const Rank& r, int step) { return step >= 2 && step + r.key_buffers <= r.ranks(); }

/// dQ of a part's queries: where the result will be if it is the first one of all its pieces.
class PartOfDq {
 public:
  PartOfDq(const Rank& r, const Part& part, std::vector<PieceOfDq>& pieces) : r_(r), queries_(part.queries) {
    for (PieceOfDq& piece : pieces) {
      if (piece.queries.begin >= queries_.begin) pieces_.push_back(&piece);
    }
    is_new_ = std::ranges::all_of(pieces_, [](const PieceOfDq* piece) { return piece->sum.is_first(); });
    const std::size_t bytes = std::size_t(r.tokens() * r.query_row()) * r.element_bytes();
    address_ = is_new_ ? at_token(r, r.tensors.dq, queries_.begin, r.query_row())
                       : r.scratch->get("dq_part", bytes, r.turn);
  }

  void* address() const { return address_; }

  /// Enqueues its sum with what the pieces have had before.
  void add() const {
    for (PieceOfDq* piece : pieces_) {
      if (!piece->sum.is_first()) {
        add_into(r_, *piece, queries_, address_);
        continue;
      }
      if (!is_new_) copy_first(r_, *piece, queries_, address_);
      piece->sum.skip_first();
    }
  }

 private:
  const Rank& r_;
  Range queries_;
  std::vector<PieceOfDq*> pieces_;
  bool is_new_;
  void* address_;
};

/// The sums of dK and dV on their way home, in the stream of the transfers.
inline TravellingSums sums_home(Rank r) {
  r.direction = -1;
  r.compute = r.copies;
  return TravellingSums(r);
}

/// dQ, dK and dV of the rank's tokens, given O and LSE, right after overlapped_forward(). Part `number` is that of the keys of
/// step P - number.
inline void homeward_backward(const Rank& r) {
  auto pieces = pieces_of<PieceOfDq>(r, r.tensors.dq, "dq_sums");
  Rank back = r;
  back.direction = -1;
  for (int number = 1; number <= r.ranks(); ++number) {
    const int step = r.ranks() - number, from = source(r.ranks(), r.rank, step);
    const Rank mine = r.begin_turn(number - 1);
    const TravellingSums sums = sums_home(mine);
    const auto part = part_of(r, step);
    Gradients to = step == 0 ? Gradients{nullptr, r.tensors.dk, r.tensors.dv} : sums.part(number);
    clear_unseen(mine, to, part ? part->keys.end : 0, r.split.tokens_of(from));
    std::optional<PartOfDq> dq;
    if (part) {
      dq.emplace(mine, *part, pieces);
      to.dq = dq->address();
      const auto of_part = [&](void* tensor) {
        return at_token(r, tensor, part->queries.begin, r.query_row());
      };
      differentiate(mine, shape_of(r, *part), of_part(r.tensors.q), keys_of(r, step), of_part(r.tensors.o),
                    of_part(r.tensors.d_o), lse_of(mine, part->queries), to);
    }
    if (step > 0) r.follow(r.in_turn(number).compute, r.copies);  // the next part's keys have come long ago
    r.follow(r.copies, mine.compute);
    if (number > 1 && step > 0) sums.add(number);
    if (step > 0) {
      std::vector<Exchange> exchanges = sums.exchange(number);
      if (keys_go_back(r, step - 1))
        std::ranges::copy(exchange_keys(r, step - 1, step - 2), std::back_inserter(exchanges));
      rotate(back, exchanges);
      r.end_step();
    } else if (number > 1) {
      sums.add_home();
    }
    if (number > 1) r.follow(mine.compute, r.in_turn(number - 2).compute);  // earlier sums of dQ are complete
    if (dq) dq->add();
  }
  r.follow(r.compute, r.copies);
  r.follow(r.compute, r.in_turn(r.ranks() - 1).compute);
}

/// Bytes that the rank sends while it computes with each part but the first.
inline Method::Links homeward_links(const Rank& r) {
  Method::Links links;
  const auto elements = [&](int step) {  // of K and V, or of their gradients
    return 2 * r.split.tokens_of(source(r.ranks(), r.rank, step)) * r.key_row();
  };
  const auto size = std::int64_t(r.element_bytes());
  for (int number = 2; number <= r.ranks(); ++number) {
    const int step = r.ranks() - number;
    links.push_back(elements(step + 1) * (number == 2 ? size : std::int64_t(sizeof(float))));
    if (keys_go_back(r, step)) links.back() += elements(step) * size;
  }
  return links;
}

}  // namespace fa::ch13
