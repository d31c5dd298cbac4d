/// @file
/// Heads traded for tokens (Ulysses): each rank computes some heads for all tokens.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "calls.cuh"
#include "nccl.hpp"
#include "rank.hpp"
#include "schedule.cuh"

namespace fa::ch13 {

/// One tensor, in both forms: [tokens of the rank, batch, heads, head_dim], and [all tokens, batch, heads /
/// ranks, head_dim].
struct Traded {
  void* local;
  std::int64_t heads;  ///< of the problem
};

/// Bytes of some tokens with one rank's heads.
inline std::size_t bytes_of_share(const Rank& r, std::int64_t tokens, std::int64_t heads) {
  return std::size_t(tokens * r.shape.batch * heads / r.ranks() * r.shape.head_dim) * r.element_bytes();
}

/// Copies the heads of `rank` of all local tokens to or from memory without the others between them.
inline void copy_share(const Rank& r, const Traded& tensor, int rank, void* packed, bool pack) {
  const std::size_t row = bytes_of_share(r, 1, tensor.heads) / std::size_t(r.shape.batch);
  std::byte* const strided = static_cast<std::byte*>(tensor.local) + std::size_t(rank) * row;
  const std::size_t pitch = std::size_t(r.ranks()) * row, rows = std::size_t(r.tokens() * r.shape.batch);
  if (rows == 0) return;
  if (pack) {
    FA_CUDA_CHECK(
        cudaMemcpy2DAsync(packed, row, strided, pitch, row, rows, cudaMemcpyDeviceToDevice, r.compute));
  } else {
    FA_CUDA_CHECK(
        cudaMemcpy2DAsync(strided, pitch, packed, row, row, rows, cudaMemcpyDeviceToDevice, r.compute));
  }
}

/// Sends each rank its heads of this rank's tokens. @return  this rank's heads of all tokens
inline void* to_heads(const Rank& r, const Traded& tensor, const std::string& name) {
  const std::size_t own = bytes_of_share(r, r.tokens(), tensor.heads);
  auto* const packed =
      static_cast<std::byte*>(r.scratch->get("packed_" + name, std::size_t(r.ranks()) * own + 1));
  auto* const all = static_cast<std::byte*>(
      r.scratch->get(name + "_heads", bytes_of_share(r, r.split.tokens, tensor.heads)));
  FA_NCCL_CHECK(ncclGroupStart());
  for (int rank = 0; rank < r.ranks(); ++rank) {
    copy_share(r, tensor, rank, packed + std::size_t(rank) * own, true);
    std::byte* const to = all + bytes_of_share(r, r.split.piece(rank).begin, tensor.heads);
    FA_NCCL_CHECK(ncclSend(packed + std::size_t(rank) * own, own, ncclUint8, rank, r.comm, r.compute));
    FA_NCCL_CHECK(ncclRecv(to, bytes_of_share(r, r.split.tokens_of(rank), tensor.heads), ncclUint8, rank,
                           r.comm, r.compute));
  }
  FA_NCCL_CHECK(ncclGroupEnd());
  return all;
}

/// The way back. @param all  this rank's heads of all tokens
inline void to_tokens(const Rank& r, void* all, const Traded& tensor, const std::string& name) {
  const std::size_t own = bytes_of_share(r, r.tokens(), tensor.heads);
  auto* const packed =
      static_cast<std::byte*>(r.scratch->get("packed_" + name, std::size_t(r.ranks()) * own + 1));
  FA_NCCL_CHECK(ncclGroupStart());
  for (int rank = 0; rank < r.ranks(); ++rank) {
    const std::byte* const from =
        static_cast<const std::byte*>(all) + bytes_of_share(r, r.split.piece(rank).begin, tensor.heads);
    FA_NCCL_CHECK(ncclSend(from, bytes_of_share(r, r.split.tokens_of(rank), tensor.heads), ncclUint8, rank,
                           r.comm, r.compute));
    FA_NCCL_CHECK(ncclRecv(packed + std::size_t(rank) * own, own, ncclUint8, rank, r.comm, r.compute));
  }
  FA_NCCL_CHECK(ncclGroupEnd());
  for (int rank = 0; rank < r.ranks(); ++rank)
    copy_share(r, tensor, rank, packed + std::size_t(rank) * own, false);
}

/// LSE of this rank's heads and all tokens becomes LSE of all heads and this rank's tokens.
inline void lse_to_tokens(const Rank& r, const float* all) {
  const std::int64_t rows = r.shape.batch * r.shape.heads / r.ranks(), tokens = r.split.tokens;
  auto* const out =
      static_cast<float*>(r.scratch->get("lse_out", sizeof(float) * std::size_t(rows * tokens)));
  auto* const in = static_cast<float*>(
      r.scratch->get("lse_in", sizeof(float) * std::size_t(r.ranks() * rows * r.tokens()) + 1));
  const auto copy = [&](float* to, std::int64_t to_row, const float* from, std::int64_t from_row,
                        std::int64_t length, std::int64_t count) {
    if (length == 0) return;
    FA_CUDA_CHECK(cudaMemcpy2DAsync(
        to, sizeof(float) * std::size_t(to_row), from, sizeof(float) * std::size_t(from_row),
        sizeof(float) * std::size_t(length), std::size_t(count), cudaMemcpyDeviceToDevice, r.compute));
  };
  FA_NCCL_CHECK(ncclGroupStart());
  for (int rank = 0; rank < r.ranks(); ++rank) {
    const Range theirs = r.split.piece(rank);
    float* const from = out + rows * theirs.begin;
    copy(from, theirs.length(), all + theirs.begin, tokens, theirs.length(), rows);
    FA_NCCL_CHECK(ncclSend(from, std::size_t(rows * theirs.length()), ncclFloat32, rank, r.comm, r.compute));
    FA_NCCL_CHECK(ncclRecv(in + rank * rows * r.tokens(), std::size_t(rows * r.tokens()), ncclFloat32, rank,
                           r.comm, r.compute));
  }
  FA_NCCL_CHECK(ncclGroupEnd());
  const std::int64_t share = r.shape.heads / r.ranks() * r.tokens();  // of a batch
  for (int rank = 0; rank < r.ranks(); ++rank) {
    copy(r.tensors.lse + rank * share, r.shape.heads * r.tokens(), in + rank * rows * r.tokens(), share,
         share, r.shape.batch);
  }
}

/// A call for this rank's heads of all tokens.
inline AttentionShape traded_shape(const Rank& r) {
  return shape_of(r.shape, r.shape.heads / r.ranks(), r.shape.kv_heads / r.ranks(), r.split.tokens,
                  r.split.tokens, r.shape.causal);
}

/// O and LSE of this rank's heads stay for the backward pass.
inline float* traded_lse(const Rank& r) {
  return static_cast<float*>(r.scratch->get(
      "lse_heads", sizeof(float) * std::size_t(r.shape.batch * r.shape.heads / r.ranks() * r.split.tokens)));
}
inline void* traded_o(const Rank& r) {
  return r.scratch->get("o_heads", bytes_of_share(r, r.split.tokens, r.shape.heads));
}

inline void all_to_all_forward(const Rank& r) {
  const Tensors& t = r.tensors;
  const AttentionShape& shape = r.shape;
  void* const q = to_heads(r, {t.q, shape.heads}, "q");
  const KeysValues kv = {to_heads(r, {t.k, shape.kv_heads}, "k"), to_heads(r, {t.v, shape.kv_heads}, "v")};
  r.end_step();
  attend(r, traded_shape(r), q, kv, traded_o(r), traded_lse(r));
  to_tokens(r, traded_o(r), {t.o, shape.heads}, "o");
  lse_to_tokens(r, traded_lse(r));
  r.end_step();
}

/// Q, K, V, O and LSE of this rank's heads are still there.
inline void all_to_all_backward(const Rank& r) {
  const Tensors& t = r.tensors;
  const AttentionShape& shape = r.shape;
  const auto of_heads = [&](const char* name, std::int64_t heads) {
    return r.scratch->get(name, bytes_of_share(r, r.split.tokens, heads));
  };
  void* const d_o = to_heads(r, {t.d_o, shape.heads}, "do");
  r.end_step();
  const Gradients to = {of_heads("dq_heads", shape.heads), of_heads("dk_heads", shape.kv_heads),
                        of_heads("dv_heads", shape.kv_heads)};
  differentiate(r, traded_shape(r), of_heads("q_heads", shape.heads),
                {of_heads("k_heads", shape.kv_heads), of_heads("v_heads", shape.kv_heads)}, traded_o(r), d_o,
                traded_lse(r), to);
  to_tokens(r, to.dq, {t.dq, shape.heads}, "dq");
  to_tokens(r, to.dk, {t.dk, shape.kv_heads}, "dk");
  to_tokens(r, to.dv, {t.dv, shape.kv_heads}, "dv");
  r.end_step();
}

/// Bytes of `heads` per token, all but the rank's own share of its own tokens.
inline std::int64_t to_heads_bytes(const Rank& r, std::int64_t heads) {
  return (r.ranks() - 1) * std::int64_t(bytes_of_share(r, r.tokens(), heads));
}
inline std::int64_t to_tokens_bytes(const Rank& r, std::int64_t heads) {
  return std::int64_t(bytes_of_share(r, r.split.tokens - r.tokens(), heads));
}

inline Method::Links all_to_all_forward_links(const Rank& r) {
  const std::int64_t lse = r.shape.batch * r.shape.heads / r.ranks() * (r.split.tokens - r.tokens());
  return {to_heads_bytes(r, r.shape.heads) + 2 * to_heads_bytes(r, r.shape.kv_heads),
          to_tokens_bytes(r, r.shape.heads) + std::int64_t(sizeof(float)) * lse};
}
inline Method::Links all_to_all_backward_links(const Rank& r) {
  return {to_heads_bytes(r, r.shape.heads),
          to_tokens_bytes(r, r.shape.heads) + 2 * to_tokens_bytes(r, r.shape.kv_heads)};
}

}  // namespace fa::ch13
