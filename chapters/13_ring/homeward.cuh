/// @file
/// The backward pass whose transfers all have products beside them: the ring of the forward pass, backwards.
/// It begins with the keys that the forward pass ended with, which are still here, and ends with the rank's
/// own. Each part of dK and dV goes straight to the rank that has its keys.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "calls.cuh"
#include "rank.hpp"
#include "ring.cuh"
#include "schedule.cuh"

namespace fa::ch13 {

/// Whether the keys of `step` have to go back to the previous rank: those of the last steps of the forward
/// pass are still in the buffers where they are needed, and each rank has its own.
inline bool keys_go_back(const Rank& r, int step) { return step >= 2 && step + r.key_buffers <= r.ranks(); }

/// dK or dV of the rank's own keys: parts arrive from all other ranks, and its own is the last.
class ArrivingParts {
 public:
  /// @param r  with the stream of the transfers    @param own  where its own part and the result will be
  ArrivingParts(const Rank& r, const std::string& name, void* own) : r_(r), name_(name), own_(own) {}

  /// Where the next part arrives. When all buffers are full, the parts in them become a sum.
  void* next() {
    if (waiting_.size() == kMostParts) {
      auto* const sums = static_cast<float*>(r_.scratch->get(name_ + "_sum", sizeof(float) * elements()));
      with_element(r_, [&](auto type) { add(type, sums); });
      sums_ = sums;
    }
    const std::size_t most = std::size_t(r_.split.most_tokens() * r_.key_row()) * r_.element_bytes();
    waiting_.push_back(r_.scratch->get(name_ + "_in", most, int(waiting_.size())));
    return waiting_.back();
  }

  void add_own() {
    waiting_.push_back(own_);
    with_element(r_, [&]<class T>(T type) { add(type, static_cast<T*>(own_)); });
  }

 private:
  std::size_t elements() const { return std::size_t(r_.tokens() * r_.key_row()); }

  template <class T, class To>
  void add(T, To* to) {
    std::vector<const T*> parts;
    for (const void* part : waiting_) parts.push_back(static_cast<const T*>(part));
    waiting_.clear();
    if (sums_) return add_elements(r_, sums_, parts, to, std::int64_t(elements()));
    const T* const first = parts.front();
    parts.erase(parts.begin());
    add_elements(r_, first, parts, to, std::int64_t(elements()));
  }

  const Rank& r_;
  std::string name_;
  void* own_;
  std::vector<void*> waiting_;
  const float* sums_ = nullptr;
};

/// Where a part of dQ goes: where the result will be if it is the first one of all its pieces.
inline PartOfDq part_of_dq(const Rank& r, int number, const Range& queries,
                           const std::vector<PieceOfDq>& pieces) {
  const bool is_new = std::ranges::all_of(
      pieces, [&](const PieceOfDq& piece) { return piece.queries.begin < queries.begin || piece.is_new(); });
  if (is_new) return {queries, at_token(r, r.tensors.dq, queries.begin, r.query_row())};
  const std::size_t bytes = std::size_t(r.tokens() * r.query_row()) * r.element_bytes();
  return {queries, r.scratch->get("dq_part", bytes, number % r.part_buffers)};
}

/// A part of dQ belongs to some of the pieces. Enqueues the sums that are due after part `number`.
inline void add(const Rank& r, int number, const std::optional<PartOfDq>& part,
                std::vector<PieceOfDq>& pieces) {
  for (PieceOfDq& piece : pieces) {
    if (part && part->queries.begin <= piece.queries.begin) {
      if (!piece.is_new()) {
        piece.parts.push_back(*part);
      } else {
        copy_first(r, piece, *part);
        piece.sum.skip_first();
      }
    }
    if (merges_after(r, number) && !piece.parts.empty()) add_into(r, piece);
  }
}

/// Where a step's part of dK and dV goes: the rank's own where the result will be.
inline Gradients part_of_gradients(const Rank& r, int step) {
  if (step == 0) return {nullptr, r.tensors.dk, r.tensors.dv};
  const std::size_t most = std::size_t(r.split.most_tokens() * r.key_row()) * r.element_bytes();
  return {nullptr, r.scratch->get("dk_part", most, r.turn), r.scratch->get("dv_part", most, r.turn)};
}

/// Enqueues the gradients of a step's part. @param to  where its dK and dV go    @return its dQ
inline std::optional<PartOfDq> differentiate(const Rank& r, int step, int number, Gradients to,
                                             const std::vector<PieceOfDq>& pieces) {
  const auto part = part_of(r, step);
  clear_unseen(r, to, part ? part->keys.end : 0, r.split.tokens_of(source(r.ranks(), r.rank, step)));
  if (!part) return std::nullopt;
  const PartOfDq dq = part_of_dq(r, number, part->queries, pieces);
  to.dq = dq.dq;
  const auto of_part = [&](void* tensor) { return at_token(r, tensor, part->queries.begin, r.query_row()); };
  differentiate(r, shape_of(r, *part), of_part(r.tensors.q), keys_of(r, step), of_part(r.tensors.o),
                of_part(r.tensors.d_o), lse_of(r, part->queries), to);
  return dq;
}

/// dQ, dK and dV of the rank's tokens, given O and LSE, right after overlapped_forward(). Part `number`, from
/// 0 on, is that of the forward pass's step P - 1 - number.
inline void homeward_backward(const Rank& r) {
  auto pieces = pieces_of<PieceOfDq>(r, r.tensors.dq, "dq_sums");
  Rank of_copies = r, back = r;
  of_copies.compute = r.copies;
  back.distance = -1;
  ArrivingParts dk(of_copies, "dk", r.tensors.dk), dv(of_copies, "dv", r.tensors.dv);
  const auto bytes_of = [&](int rank) {
    return std::size_t(r.split.tokens_of(rank) * r.key_row()) * r.element_bytes();
  };
  for (int number = 0; number < r.ranks(); ++number) {
    const int step = r.ranks() - 1 - number;
    const Rank mine = r.begin_turn(number);
    const Gradients to = part_of_gradients(mine, step);
    const auto dq = differentiate(mine, step, number, to, pieces);
    if (step > 0) {
      r.follow(r.in_turn(number + 1).compute, r.copies);  // the part before has left its buffers
      r.follow(r.copies, mine.compute);
      Rank home = r;
      home.distance = -step;
      const std::size_t from = bytes_of(home.next()), arrives = bytes_of(r.rank);
      rotate(home, {{to.dk, from, dk.next(), arrives}, {to.dv, from, dv.next(), arrives}});
      if (keys_go_back(r, step - 1)) rotate(back, exchange_keys(r, step - 1, step - 2));
      r.end_step();
    }
    if (number > 0) r.follow(mine.compute, r.in_turn(number - 1).compute);  // earlier sums of dQ are complete
    add(mine, number, dq, pieces);
  }
  r.follow(r.compute, r.in_turn(r.ranks() - 1).compute);
  r.follow(r.copies, r.compute);
  if (r.ranks() > 1) {
    dk.add_own();
    dv.add_own();
  }
  r.follow(r.compute, r.copies);
}

/// Bytes that the rank sends beside each part but the first.
inline Method::Links homeward_links(const Rank& r) {
  Method::Links links;
  const auto bytes = [&](int step) {  // of K and V, or of their gradients
    const std::int64_t tokens = r.split.tokens_of(source(r.ranks(), r.rank, step));
    return 2 * tokens * r.key_row() * std::int64_t(r.element_bytes());
  };
  for (int step = r.ranks() - 1; step > 0; --step)
    links.push_back(bytes(step) + (keys_go_back(r, step - 1) ? bytes(step - 1) : 0));
  return links;
}

}  // namespace fa::ch13
