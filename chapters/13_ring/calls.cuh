/// @file
/// Calls of attention for parts of the sequence, and what becomes of their results.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "device/launch.cuh"
#include "merge.cuh"
#include "rank.hpp"

namespace fa::ch13 {

/// The address of a token in a tensor with `row` elements per token.
inline void* at_token(const Rank& r, void* tensor, std::int64_t token, std::int64_t row) {
  return static_cast<std::byte*>(tensor) + std::size_t(token * row) * r.element_bytes();
}

/// Calls f(T()) with the element type.
template <class F>
void with_element(const Rank& r, F f) {
  r.shape.dtype == DType::kFloat16 ? f(__half()) : f(__nv_bfloat16());
}

/// The shape of a call on token-major tensors.
inline AttentionShape shape_of(const AttentionShape& whole, std::int64_t heads, std::int64_t kv_heads,
                               std::int64_t queries, std::int64_t keys, bool causal) {
  AttentionShape shape = whole;
  shape.heads = heads;
  shape.kv_heads = kv_heads;
  shape.seq_q = queries;
  shape.seq_k = keys;
  shape.causal = causal;
  shape.scale = whole.logit_scale();
  shape.strides = {};
  const std::int64_t d = whole.head_dim;
  for (const char* name : {"q", "o", "do", "dq"})
    shape.set_strides(name, {heads * d, d, whole.batch * heads * d});
  for (const char* name : {"k", "v", "dk", "dv"})
    shape.set_strides(name, {kv_heads * d, d, whole.batch * kv_heads * d});
  return shape;
}
inline AttentionShape shape_of(const Rank& r, const Part& part) {
  return shape_of(r.shape, r.shape.heads, r.shape.kv_heads, part.queries.length(), part.keys.length(),
                  part.causal);
}

/// The tensors of a call, with the workspace of its kernels.
inline Engine::Args bind(const Rank& r, const AttentionShape& shape, std::map<std::string, void*> buffers,
                         const std::vector<TensorSpec>& workspace) {
  for (const TensorSpec& spec : workspace)
    buffers[spec.name] = r.scratch->get(spec.name, spec.bytes(), r.turn);
  return AttentionForward::bind(shape, buffers);
}

/// Enqueues O and LSE of a call.
inline void attend(const Rank& r, const AttentionShape& shape, void* q, const KeysValues& kv, void* o,
                   float* lse) {
  r.engine->forward(bind(r, shape, {{"q", q}, {"k", kv.k}, {"v", kv.v}, {"o", o}, {"lse", lse}},
                         r.engine->forward_workspace(shape)),
                    r.compute);
}

/// Enqueues the gradients of a call.
struct Gradients {
  void *dq, *dk, *dv;
};
inline void differentiate(const Rank& r, const AttentionShape& shape, void* q, const KeysValues& kv, void* o,
                          void* d_o, float* lse, const Gradients& to) {
  r.engine->backward(bind(r, shape,
                          {{"q", q},
                           {"k", kv.k},
                           {"v", kv.v},
                           {"o", o},
                           {"do", d_o},
                           {"lse", lse},
                           {"dq", to.dq},
                           {"dk", to.dk},
                           {"dv", to.dv}},
                          r.engine->backward_workspace(shape)),
                     r.compute);
}

// --- sums of parts -----------------------------------------------------------------------------------------

/// Rows of which several parts are added up. The first part goes where the result will be, as 16-bit numbers;
/// sums that are not yet complete are fp32; the last part turns them into the result.
class Sum {
 public:
  /// @param number  tells sums of the same name apart
  Sum(const Rank& r, void* result, const std::string& sums_name, std::int64_t elements, int parts, int number)
      : result_(result), parts_(parts), new_sums_([=, scratch = r.scratch] {
          return scratch->get(sums_name, sizeof(float) * std::size_t(elements), number);
        }) {}

  bool is_first() const { return done_ == 0; }
  void skip_first() { ++done_; }

  /// Calls f(earlier, to) with the addresses of the sum before and after the next parts, each as T* or
  /// float*.
  template <class T, class F>
  void add(T, F f, int parts = 1) {
    const bool begins = done_ == 1, ends = (done_ += parts) == parts_;
    T* const result = static_cast<T*>(result_);
    if (begins && ends) return f(result, result);
    if (!sums_) sums_ = static_cast<float*>(new_sums_());
    if (begins) return f(result, sums_);
    if (ends) return f(sums_, result);
    f(sums_, sums_);
  }

 private:
  void* result_;
  float* sums_ = nullptr;
  int parts_, done_ = 0;
  std::function<void*()> new_sums_;
};

/// O and LSE of a call that are not yet part of a sum.
struct PartOfO {
  Range queries;
  void* o;
  float* lse;
};

/// O of one piece of the rank's queries, as the parts of its keys arrive.
struct PieceOfO {
  Range queries;
  Sum sum;
  std::vector<PartOfO> parts = {};  ///< to be merged
};

inline unsigned blocks_for(std::int64_t count, std::int64_t of_block) {
  return unsigned((count + of_block - 1) / of_block);
}

/// How many parts are merged at once, at most.
constexpr int kMostParts = 3;

/// Merges the parts of a piece with what it has had before.
template <int kParts = 1>
void merge_into(const Rank& r, PieceOfO& piece) {
  if constexpr (kParts < kMostParts) {
    if (piece.parts.size() > kParts) return merge_into<kParts + 1>(r, piece);
  }
  constexpr int kWarps = 8;
  const std::int64_t tokens = piece.queries.length(), row = r.query_row(),
                     heads = r.shape.batch * r.shape.heads;
  with_element(r, [&]<class T>(T type) {
    const auto enqueue = [&]<class Earlier, class To>(Earlier* earlier, To* to) {
      Merge<kParts, Earlier, T, To> merge = {.o_earlier = earlier,
                                             .parts = {},
                                             .o = to,
                                             .lse = r.tensors.lse + piece.queries.begin,
                                             .lse_stride = r.tokens(),
                                             .tokens = int(tokens),
                                             .heads = int(heads),
                                             .head_dim = int(r.shape.head_dim),
                                             .by_heads = Divisor(int(heads))};
      for (int p = 0; p < kParts; ++p) {
        const PartOfO& part = piece.parts[std::size_t(p)];
        const std::int64_t offset = piece.queries.begin - part.queries.begin;
        merge.parts[p] = {static_cast<const T*>(part.o) + offset * row, part.lse + offset,
                          part.queries.length()};
      }
      launch(merge_partials<kWarps, kParts, Earlier, T, To>, blocks_for(tokens * heads, kWarps), 32 * kWarps,
             0, r.compute, merge);
    };
    piece.sum.add(type, enqueue, kParts);
  });
  piece.parts.clear();
}

/// to = earlier + all parts: one to four. @param elements  of each
template <int kParts = 1, class Earlier, class T, class To>
void add_elements(const Rank& r, const Earlier* earlier, const std::vector<const T*>& parts, To* to,
                  std::int64_t elements) {
  if constexpr (kParts <= kMostParts) {
    if (parts.size() > kParts) return add_elements<kParts + 1>(r, earlier, parts, to, elements);
  }
  if (elements == 0) return;
  constexpr int kCount = kParts == 1 ? 4 : 2;
  Parts<kParts, T> of_kernel;
  std::copy_n(parts.begin(), kParts, of_kernel.part);
  launch(add_gradients<kCount, kParts, Earlier, T, To>, blocks_for(elements / 4, 256 * kCount), 256, 0,
         r.compute, earlier, of_kernel, to, elements / 4);
}

/// dQ of a call that is not yet part of a sum.
struct PartOfDq {
  Range queries;
  void* dq;
};

/// dQ of one piece of the rank's queries.
struct PieceOfDq {
  Range queries;
  Sum sum;
  std::vector<PartOfDq> parts = {};  ///< to be added
  bool is_new() const { return sum.is_first(); }
};

/// Adds the parts of a piece to what it has had before.
inline void add_into(const Rank& r, PieceOfDq& piece) {
  const std::int64_t row = r.query_row();
  with_element(r, [&]<class T>(T type) {
    std::vector<const T*> parts;
    for (const PartOfDq& part : piece.parts)
      parts.push_back(static_cast<const T*>(part.dq) + (piece.queries.begin - part.queries.begin) * row);
    piece.sum.add(
        type,
        [&](auto* earlier, auto* to) { add_elements(r, earlier, parts, to, piece.queries.length() * row); },
        int(parts.size()));
  });
  piece.parts.clear();
}

/// Puts the first part where the result will be, if it is not there: it has shared a call with parts that are
/// not the first ones of their pieces.
inline void copy_first(const Rank& r, const PieceOfDq& piece, const PartOfDq& part) {
  const std::int64_t row = r.query_row();
  void* const to = at_token(r, r.tensors.dq, piece.queries.begin, row);
  const void* const from = at_token(r, part.dq, piece.queries.begin - part.queries.begin, row);
  if (from == to) return;
  FA_CUDA_CHECK(cudaMemcpyAsync(to, from, std::size_t(piece.queries.length() * row) * r.element_bytes(),
                                cudaMemcpyDeviceToDevice, r.compute));
}

/// The pieces of the rank's queries that several parts add something to. @tparam Piece  PieceOfO or PieceOfDq
template <class Piece>
std::vector<Piece> pieces_of(const Rank& r, void* result, const std::string& sums_name) {
  std::vector<Piece> pieces;
  for (const Range& queries : r.split.local_pieces_of(r.rank)) {
    if (queries.length() == 0) continue;
    const int parts = parts_of(r.split, r.rank, queries, r.shape.causal);
    pieces.push_back({queries, Sum(r, at_token(r, result, queries.begin, r.query_row()), sums_name,
                                   queries.length() * r.query_row(), parts, int(pieces.size()))});
  }
  return pieces;
}

}  // namespace fa::ch13
