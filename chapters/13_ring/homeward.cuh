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
#include <vector>

#include "calls.cuh"
#include "head_start.cuh"
#include "rank.hpp"
#include "ring.cuh"
#include "schedule.cuh"

namespace fa::ch13 {

/// Whether the keys of `step` have to go back to the previous rank: those of the last two steps of the forward pass are still
/// where they are needed, and each rank has its own.
inline bool keys_go_back(const Rank& r, int step) { return step >= 2 && step + 1 < r.ranks(); }

/// dQ, dK and dV of the rank's tokens, given O and LSE, right after ring_forward().
inline void homeward_backward(const Rank& r) {
  auto pieces = pieces_of<PieceOfDq>(r, r.tensors.dq, "dq_sums");
  void* const dq_part =
      r.scratch->get("dq_part", std::size_t(r.tokens() * r.query_row()) * r.element_bytes());
  Rank back = r;
  back.direction = -1;
  const TravellingSums sums(back);

  for (int number = 1; number <= r.ranks(); ++number) {
    const int step = r.ranks() - number;  // of the forward pass
    if (number > 1) {
      std::vector<Exchange> exchanges = sums.exchange(number - 1);
      if (keys_go_back(r, step))
        std::ranges::copy(exchange_keys(r, step, step - 1), std::back_inserter(exchanges));
      r.follow(r.copies, r.compute);
      rotate(back, exchanges);
      let_transfer_begin(r);
      r.end_step();
    }

    const int from = source(r.ranks(), r.rank, step);
    Gradients to = step == 0 ? Gradients{nullptr, r.tensors.dk, r.tensors.dv} : sums.part(number);
    const auto part = part_of(r.split, r.rank, from, r.shape.causal);
    clear_unseen(r, to, part ? part->keys.end : 0, r.split.tokens_of(from));
    if (part) {
      const auto of_part = [&](void* tensor) {
        return at_token(r, tensor, part->queries.begin, r.query_row());
      };
      const auto belongs = [&](const PieceOfDq& piece) { return piece.queries.begin >= part->queries.begin; };
      const bool all_new = std::ranges::all_of(
          pieces, [&](const PieceOfDq& piece) { return !belongs(piece) || piece.sum.is_first(); });
      to.dq = all_new ? of_part(r.tensors.dq) : dq_part;
      differentiate(r, shape_of(r, *part), of_part(r.tensors.q), keys_of(r, step), of_part(r.tensors.o),
                    of_part(r.tensors.d_o), lse_of(r, part->queries), to);
      for (PieceOfDq& piece : pieces) {
        if (!belongs(piece)) continue;
        if (!piece.sum.is_first()) {
          add_into(r, piece, part->queries, dq_part);
          continue;
        }
        if (!all_new) copy_first(r, piece, part->queries, dq_part);
        piece.sum.skip_first();
      }
    }
    if (number > 1)
      r.follow(r.compute, r.copies);  // the sums to which this part belongs are here, and the next keys
    if (number > 1 && step > 0) sums.add(number);
  }
  if (r.ranks() > 1) sums.add_home();
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
