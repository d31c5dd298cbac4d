/// @file
/// The simplest way: every rank gets all of K and V.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>

#include "calls.cuh"
#include "nccl.hpp"
#include "rank.hpp"
#include "schedule.cuh"

namespace fa::ch13 {

/// The keys and values of all ranks, one rank after the other: those of the sequence, because each rank has
/// one piece.
inline KeysValues gather_keys(const Rank& r) {
  const std::size_t bytes = std::size_t(r.split.length() * r.key_row()) * r.element_bytes();  // of a rank
  const KeysValues all = {r.scratch->get("k_all", std::size_t(r.ranks()) * bytes),
                          r.scratch->get("v_all", std::size_t(r.ranks()) * bytes)};
  FA_NCCL_CHECK(ncclGroupStart());
  FA_NCCL_CHECK(ncclAllGather(r.tensors.k, all.k, bytes, ncclUint8, r.comm, r.compute));
  FA_NCCL_CHECK(ncclAllGather(r.tensors.v, all.v, bytes, ncclUint8, r.comm, r.compute));
  FA_NCCL_CHECK(ncclGroupEnd());
  r.end_step();
  return all;
}

/// A rank's queries and all keys that one of them sees: its last query is the last one that sees them all, as
/// the mask of a kernel wants it.
inline Part gathered_part(const Rank& r) {
  return {{0, r.tokens()}, {0, r.shape.causal ? r.split.piece(r.rank).end : r.split.tokens}, r.shape.causal};
}

inline void all_gather_forward(const Rank& r) {
  const KeysValues all = gather_keys(r);
  if (r.tokens() == 0) return;
  attend(r, shape_of(r, gathered_part(r)), r.tensors.q, all, r.tensors.o, r.tensors.lse);
}

/// Each rank has a part of dK and dV of all keys: they go to the ranks that have the keys, which add them up.
inline void all_gather_backward(const Rank& r) {
  const KeysValues all = gather_keys(r);
  const std::size_t bytes = std::size_t(r.split.length() * r.key_row()) * r.element_bytes();
  const Gradients parts = {r.tensors.dq, r.scratch->get("dk_all", std::size_t(r.ranks()) * bytes),
                           r.scratch->get("dv_all", std::size_t(r.ranks()) * bytes)};
  const Part part = gathered_part(r);
  if (r.tokens() > 0) {
    differentiate(r, shape_of(r, part), r.tensors.q, all, r.tensors.o, r.tensors.d_o, r.tensors.lse, parts);
  }
  const auto contributes = [&](int rank, int to) {  // whether a rank sees keys of another
    return part_of(r.split, rank, to, r.shape.causal).has_value();
  };
  FA_NCCL_CHECK(ncclGroupStart());
  for (const auto& [name, of_all] : {std::pair("dk_in", parts.dk), std::pair("dv_in", parts.dv)}) {
    void* const in = r.scratch->get(name, std::size_t(r.ranks()) * bytes);
    for (int other = 0; other < r.ranks(); ++other) {
      if (other == r.rank) continue;
      const auto bytes_of = [&](int rank) {
        return std::size_t(r.split.tokens_of(rank) * r.key_row()) * r.element_bytes();
      };
      if (contributes(r.rank, other)) {
        void* const from = at_token(r, of_all, r.split.piece(other).begin, r.key_row());
        FA_NCCL_CHECK(ncclSend(from, bytes_of(other), ncclUint8, other, r.comm, r.compute));
      }
      if (contributes(other, r.rank)) {
        void* const to = static_cast<std::byte*>(in) + std::size_t(other) * bytes;
        FA_NCCL_CHECK(ncclRecv(to, bytes_of(r.rank), ncclUint8, other, r.comm, r.compute));
      }
    }
  }
  FA_NCCL_CHECK(ncclGroupEnd());
  r.end_step();
  if (r.tokens() == 0) return;

  const std::int64_t elements = r.tokens() * r.key_row();
  int count = 0;
  for (int rank = 0; rank < r.ranks(); ++rank) count += contributes(rank, r.rank);
  for (const auto& [name, of_all, result] :
       {std::tuple("dk", parts.dk, r.tensors.dk), std::tuple("dv", parts.dv, r.tensors.dv)}) {
    const std::string of = name;
    FA_CUDA_CHECK(cudaMemcpyAsync(result, at_token(r, of_all, r.split.piece(r.rank).begin, r.key_row()),
                                  std::size_t(elements) * r.element_bytes(), cudaMemcpyDeviceToDevice,
                                  r.compute));
    Sum sum(r, result, of + "_sum", elements, count, 0);
    sum.skip_first();
    const auto* const in =
        static_cast<const std::byte*>(r.scratch->get(of + "_in", std::size_t(r.ranks()) * bytes));
    for (int other = 0; other < r.ranks(); ++other) {
      if (other == r.rank || !contributes(other, r.rank)) continue;
      with_element(r, [&]<class T>(T type) {
        const T* const part_of_other = reinterpret_cast<const T*>(in + std::size_t(other) * bytes);
        sum.add(type, [&](auto* earlier, auto* to) {
          add_elements(r, earlier, std::vector{part_of_other}, to, elements);
        });
      });
    }
  }
}

inline Method::Links all_gather_forward_links(const Rank& r) {
  return {2 * (r.ranks() - 1) * r.split.length() * r.key_row() * std::int64_t(r.element_bytes())};
}

inline Method::Links all_gather_backward_links(const Rank& r) {
  Method::Links links = all_gather_forward_links(r);
  std::int64_t tokens = 0;
  for (int other = 0; other < r.ranks(); ++other) {
    const bool sees = r.tokens() > 0 && (!r.shape.causal || other < r.rank);
    if (other != r.rank && sees) tokens += r.split.tokens_of(other);
  }
  links.push_back(2 * tokens * r.key_row() * std::int64_t(r.element_bytes()));
  return links;
}

}  // namespace fa::ch13
