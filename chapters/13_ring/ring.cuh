/// @file
/// Ring attention: queries stay, keys and values go round.
///
/// Transfers have a stream of their own. In each step, a rank computes with the keys that it has, while the
/// next ones arrive.
#pragma once

#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "calls.cuh"
#include "nccl.hpp"
#include "rank.hpp"
#include "schedule.cuh"

namespace fa::ch13 {

/// A buffer that goes to the next rank, and the one that arrives from the previous rank.
struct Exchange {
  const void* from;
  std::size_t from_bytes;
  void* to;
  std::size_t to_bytes;
};

/// Enqueues some exchanges at once. They are complete together.
inline void rotate(const Rank& r, const std::vector<Exchange>& exchanges) {
  // EXERCISE 3: Send each `from` to r.next(), receive each `to` from r.previous(), on r.copies. No rank may wait for another one.
  FA_NCCL_CHECK(ncclGroupStart());
  for (const Exchange& x : exchanges) {
    FA_NCCL_CHECK(ncclSend(x.from, x.from_bytes, ncclUint8, r.next(), r.comm, r.copies));
    FA_NCCL_CHECK(ncclRecv(x.to, x.to_bytes, ncclUint8, r.previous(), r.comm, r.copies));
  }
  FA_NCCL_CHECK(ncclGroupEnd());
  // END 3
}

/// K and V that the rank has in a step: its own ones, then those in a few buffers by turns.
inline KeysValues keys_of(const Rank& r, int step) {
  if (step == 0) return {r.tensors.k, r.tensors.v};
  const std::size_t most = std::size_t(r.split.most_tokens() * r.key_row()) * r.element_bytes();
  const int number = step % r.key_buffers;
  return {r.scratch->get("k_in", most, number), r.scratch->get("v_in", most, number)};
}

/// Passes on K and V of a step, while those of another step arrive.
inline std::vector<Exchange> exchange_keys(const Rank& r, int step, int other) {
  const auto bytes = [&](int of_step) {
    return std::size_t(r.split.tokens_of(source(r.ranks(), r.rank, of_step)) * r.key_row()) *
           r.element_bytes();
  };
  const KeysValues current = keys_of(r, step), next = keys_of(r, other);
  return {{current.k, bytes(step), next.k, bytes(other)}, {current.v, bytes(step), next.v, bytes(other)}};
}

/// What the rank's queries see of the keys of a step.
inline std::optional<Part> part_of(const Rank& r, int step) {
  return part_of(r.split, r.rank, source(r.ranks(), r.rank, step), r.shape.causal);
}

/// Where a step's part of O and LSE is: that of the first step where the result will be.
inline PartOfO part_of_o(const Rank& r, int step, const Range& queries) {
  if (step == 0) return {queries, r.tensors.o, r.tensors.lse};
  const auto rows = std::size_t(r.tokens() * r.shape.batch * r.shape.heads);
  const int number = step % r.part_buffers;
  void* const o = r.scratch->get("o_part", rows * std::size_t(r.shape.head_dim) * r.element_bytes(), number);
  return {queries, o, static_cast<float*>(r.scratch->get("lse_part", rows * sizeof(float), number))};
}

/// Enqueues attention to the keys of a step.
inline void attend(const Rank& r, int step) {
  if (const auto part = part_of(r, step)) {
    const PartOfO to = part_of_o(r, step, part->queries);
    attend(r, shape_of(r, *part), at_token(r, r.tensors.q, part->queries.begin, r.query_row()),
           keys_of(r, step), to.o, to.lse);
  }
}

/// Whether the parts that have not yet been merged are merged after this step.
inline bool merges_after(const Rank& r, int step) {
  return step % r.parts_at_once() == 0 || step + 1 == r.ranks();
}

/// The step's part of O belongs to some of the pieces. Enqueues the sums that are due.
inline void merge(const Rank& r, int step, std::vector<PieceOfO>& pieces) {
  const auto part = part_of(r, step);
  for (PieceOfO& piece : pieces) {
    if (part && part->queries.begin <= piece.queries.begin) {
      step == 0 ? piece.sum.skip_first() : piece.parts.push_back(part_of_o(r, step, part->queries));
    }
    if (merges_after(r, step) && !piece.parts.empty()) merge_into(r, piece);
  }
}

/// O and LSE of the rank's queries.
inline void ring_forward(const Rank& r) {
  auto pieces = pieces_of<PieceOfO>(r, r.tensors.o, "o_sum");
  for (int step = 0; step < r.ranks(); ++step) {
    const bool is_last = step + 1 == r.ranks();
    if (!is_last) {
      r.follow(r.copies, r.compute);  // the buffers that are filled now are no longer in use
      rotate(r, exchange_keys(r, step, step + 1));
      r.end_step();
    }
    attend(r, step);
    merge(r, step, pieces);
    if (!is_last) r.follow(r.compute, r.copies);
  }
}

/// LSE of some of the rank's queries, without the others between its heads.
inline float* lse_of(const Rank& r, const Range& queries) {
  if (queries.length() == r.tokens()) return r.tensors.lse;
  const std::size_t heads = std::size_t(r.shape.batch * r.shape.heads);
  const std::size_t row = sizeof(float) * std::size_t(queries.length());
  float* const lse = static_cast<float*>(r.scratch->get("lse_late", heads * row, r.turn));
  FA_CUDA_CHECK(cudaMemcpy2DAsync(lse, row, r.tensors.lse + queries.begin,
                                  sizeof(float) * std::size_t(r.tokens()), row, heads,
                                  cudaMemcpyDeviceToDevice, r.compute));
  return lse;
}

/// The sums of dK and of dV of other ranks' keys, which follow their keys from rank to rank, and come home in
/// the end.
///
/// The first part is the 16-bit result of a kernel, and travels as such; from the second one on, the sums are
/// fp32.
class TravellingSums {
 public:
  explicit TravellingSums(const Rank& r) : r_(r) {}

  /// Where the kernel puts part `number`, from 1 on: the first one begins the sum.
  Gradients part(int number) const {
    const char* const name = number == 1 ? "_out" : "_part";
    return {nullptr, buffer("dk", name), buffer("dv", name)};
  }

  /// Passes on the sums that contain part `number`, while those of the next part's keys arrive.
  std::vector<Exchange> exchange(int number) const {
    const std::size_t size = number == 1 ? r_.element_bytes() : sizeof(float);
    std::vector<Exchange> exchanges;
    for (const char* name : {"dk", "dv"}) {
      exchanges.push_back({buffer(name, "_out"), size * std::size_t(elements(number)), buffer(name, "_in"),
                           size * std::size_t(elements(number + 1))});
    }
    return exchanges;
  }

  /// Adds part `number` to the sums that have arrived.
  void add(int number) const {
    with_element(r_, [&]<class T>(T) {
      for (const char* name : {"dk", "dv"}) {
        const std::vector part = {static_cast<const T*>(buffer(name, "_part"))};
        auto* const out = static_cast<float*>(buffer(name, "_out"));
        if (number == 2) {
          add_elements(r_, static_cast<const T*>(buffer(name, "_in")), part, out, elements(number));
        } else {
          add_elements(r_, static_cast<const float*>(buffer(name, "_in")), part, out, elements(number));
        }
      }
    });
  }

  /// The rank's own sums are back: adds them to its own part, which is in dK and dV.
  void add_home() const {
    with_element(r_, [&]<class T>(T) {
      for (const auto& [name, tensor] : {std::pair("dk", r_.tensors.dk), std::pair("dv", r_.tensors.dv)}) {
        auto* const own = static_cast<T*>(tensor);
        const std::vector<const T*> part = {own};
        if (r_.ranks() == 2) {
          add_elements(r_, static_cast<const T*>(buffer(name, "_in")), part, own, elements(r_.ranks()));
        } else {
          add_elements(r_, static_cast<const float*>(buffer(name, "_in")), part, own, elements(r_.ranks()));
        }
      }
    });
  }

 private:
  /// Of the keys of a part; in the end, they are the rank's own.
  std::int64_t elements(int number) const {
    return r_.split.tokens_of(source(r_.ranks(), r_.rank, number % r_.ranks())) * r_.key_row();
  }
  void* buffer(const std::string& tensor, const char* what) const {
    return r_.scratch->get(tensor + what, sizeof(float) * std::size_t(r_.split.most_tokens() * r_.key_row()));
  }
  const Rank& r_;
};

/// dK and dV of keys that the rank does not see are 0. @param seen  the first ones
inline void clear_unseen(const Rank& r, const Gradients& to, std::int64_t seen, std::int64_t tokens) {
  if (seen == tokens) return;
  for (void* gradient : {to.dk, to.dv}) {
    FA_CUDA_CHECK(cudaMemsetAsync(at_token(r, gradient, seen, r.key_row()), 0,
                                  std::size_t((tokens - seen) * r.key_row()) * r.element_bytes(), r.compute));
  }
}

/// dQ, dK and dV of the rank's tokens, given O and LSE.
///
/// dQ stays with its queries. The sums of dK and dV follow their keys: each rank adds its part, and after the
/// last step they are home.
inline void ring_backward(const Rank& r) {
  auto pieces = pieces_of<PieceOfDq>(r, r.tensors.dq, "dq_sums");
  void* const dq_part =
      r.scratch->get("dq_part", std::size_t(r.tokens() * r.query_row()) * r.element_bytes());
  const TravellingSums sums(r);

  for (int step = 0; step < r.ranks(); ++step) {
    std::vector<Exchange> exchanges;
    if (step + 1 < r.ranks()) exchanges = exchange_keys(r, step, step + 1);
    if (step >= 2) std::ranges::copy(sums.exchange(step - 1), std::back_inserter(exchanges));
    r.follow(r.copies, r.compute);
    if (!exchanges.empty()) rotate(r, exchanges);
    if (r.ranks() > 1) r.end_step();

    const int from = source(r.ranks(), r.rank, step);
    Gradients to = step == 0 ? Gradients{r.tensors.dq, r.tensors.dk, r.tensors.dv} : sums.part(step);
    if (step > 0) to.dq = dq_part;
    const auto part = part_of(r.split, r.rank, from, r.shape.causal);
    clear_unseen(r, to, part ? part->keys.end : 0, r.split.tokens_of(from));
    if (part) {
      const auto of_part = [&](void* tensor) {
        return at_token(r, tensor, part->queries.begin, r.query_row());
      };
      differentiate(r, shape_of(r, *part), of_part(r.tensors.q), keys_of(r, step), of_part(r.tensors.o),
                    of_part(r.tensors.d_o), lse_of(r, part->queries), to);
      for (PieceOfDq& piece : pieces) {
        if (piece.queries.begin < part->queries.begin) continue;
        if (step == 0) {
          piece.sum.skip_first();
        } else {
          piece.parts.push_back({part->queries, dq_part});
          add_into(r, piece);
        }
      }
    }
    r.follow(r.compute, r.copies);  // the next keys are here, and the sums to which this step's part belongs
    if (step >= 2) sums.add(step);
  }
  if (r.ranks() == 1) return;
  r.follow(r.copies, r.compute);
  rotate(r, sums.exchange(r.ranks() - 1));
  r.end_step();
  r.follow(r.compute, r.copies);
  sums.add_home();
}

/// Bytes that the rank sends in each step. K and V of all ranks but the next one pass through it.
inline Method::Links ring_forward_links(const Rank& r) {
  Method::Links links;
  for (int step = 0; step + 1 < r.ranks(); ++step) {
    const std::int64_t tokens = r.split.tokens_of(source(r.ranks(), r.rank, step));
    links.push_back(2 * tokens * r.key_row() * std::int64_t(r.element_bytes()));
  }
  return links;
}

/// The same for the backward pass: the sums with a step's part leave one transfer after its keys. The last
/// entry is the way home.
inline Method::Links ring_backward_links(const Rank& r) {
  Method::Links links;
  const auto elements = [&](int step) {  // of K and V, or of their gradients
    return 2 * r.split.tokens_of(source(r.ranks(), r.rank, step)) * r.key_row();
  };
  const auto size = std::int64_t(r.element_bytes());
  for (int step = 0; step <= r.ranks() && r.ranks() > 1; ++step) {
    std::int64_t bytes = 0;
    if (step + 1 < r.ranks()) bytes += elements(step) * size;
    if (step >= 2) bytes += elements(step - 1) * (step == 2 ? size : std::int64_t(sizeof(float)));
    links.push_back(bytes);
  }
  return links;
}

}  // namespace fa::ch13
