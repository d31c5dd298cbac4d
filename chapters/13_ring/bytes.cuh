/// @file
/// The bytes that a rank exchanges with its memory: those of the attention kernels, of the sums, and of the transfers, which read
/// what they send and write what they receive.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "attention/traffic.hpp"
#include "calls.cuh"
#include "homeward.cuh"
#include "rank.hpp"
#include "schedule.cuh"

namespace fa::ch13 {

class Bytes {
 public:
  explicit Bytes(const Rank& r) : r_(r), size_(std::int64_t(r.element_bytes())) {}

  const Traffic& traffic() const { return traffic_; }

  void reads(const std::string& tensor, std::int64_t bytes) {
    if (bytes > 0) traffic_.tensors[tensor].read_bytes += bytes;
  }
  void writes(const std::string& tensor, std::int64_t bytes) {
    if (bytes > 0) traffic_.tensors[tensor].write_bytes += bytes;
  }

  /// A call of kernels, whose tensors have these names here.
  void call(const Traffic& of_call, const std::map<std::string, std::string>& names) {
    for (const auto& [name, bytes] : of_call.tensors) {
      const auto here = names.find(name);
      TensorTraffic& to = traffic_.tensors[here == names.end() ? name : here->second];
      to.read_bytes += bytes.read_bytes;
      to.write_bytes += bytes.write_bytes;
    }
  }

  /// All additions of 16-bit parts to a sum that is itself the first part, and a result in the end. @param parts  with the first
  void sum(std::int64_t elements, int parts, const std::string& result, const std::string& sums,
           const std::string& part) {
    for (int number = 1; number < parts; ++number) {
      number == 1 ? reads(result, elements * size_) : reads(sums, elements * kFloat);
      reads(part, elements * size_);
      number == parts - 1 ? writes(result, elements * size_) : writes(sums, elements * kFloat);
    }
  }

 protected:
  static constexpr std::int64_t kFloat = sizeof(float);

  std::int64_t tokens(int rank) const { return r_.split.tokens_of(rank); }
  std::int64_t heads() const { return r_.shape.batch * r_.shape.heads; }

  const Rank& r_;
  std::int64_t size_;

 private:
  Traffic traffic_;
};

/// The ring. K and V of a step are the rank's own in the first step, then those that have arrived.
class RingBytes : public Bytes {
 public:
  using Bytes::Bytes;

  void forward() {
    for (int step = 0; step < r_.ranks(); ++step) {
      pass_on_keys(step);
      const auto part = part_of(r_.split, r_.rank, source(r_.ranks(), r_.rank, step), r_.shape.causal);
      if (!part) continue;
      const bool first = step == 0;
      call(r_.engine->forward_traffic(shape_of(r_, *part)), {{"k", of_step("k", step)},
                                                             {"v", of_step("v", step)},
                                                             {"o", first ? "o" : "o_part"},
                                                             {"lse", first ? "lse" : "lse_part"}});
    }
    for (const Range& piece : r_.split.local_pieces_of(r_.rank)) {
      if (piece.length() == 0) continue;
      const int parts = parts_of(r_.split, r_.rank, piece, r_.shape.causal);
      int done = 1, waiting = 0;
      for (int step = 1; step < r_.ranks(); ++step) {
        const auto part = part_of(r_, step);
        waiting += part && part->queries.begin <= piece.begin;
        if (waiting == 0 || !merges_after(r_, step)) continue;
        merge(piece.length(), waiting, done == 1, done + waiting == parts);
        done += std::exchange(waiting, 0);
      }
    }
  }

  void backward() {
    for (int step = 0; step < r_.ranks(); ++step) {
      pass_on_keys(step);
      differentiate(step, step, step == 0);
      sums(step, step, source(r_.ranks(), r_.rank, step + 1));
    }
    dq_sums();
  }

 protected:
  /// The kernels of a step. @param number  of the part of dK and dV, from 1 on     @param direct  dQ goes where the result will be
  void differentiate(int step, int number, bool direct) {
    const auto part = part_of(r_.split, r_.rank, source(r_.ranks(), r_.rank, step), r_.shape.causal);
    if (!part) return;
    const std::string of_sums = step == 0 ? "" : number == 1 ? "_out" : "_part";
    const bool late = part->queries.begin > 0;
    call(r_.engine->backward_traffic(shape_of(r_, *part)), {{"k", of_step("k", step)},
                                                            {"v", of_step("v", step)},
                                                            {"lse", late ? "lse_late" : "lse"},
                                                            {"dq", direct ? "dq" : "dq_part"},
                                                            {"dk", "dk" + of_sums},
                                                            {"dv", "dv" + of_sums}});
  }

  /// What becomes of part `number` of dK and dV, of the keys of a step other than 0. @param next  whose sums arrive then
  void sums(int step, int number, int next) {
    if (step == 0) return;
    for (const std::string gradient : {"dk", "dv"}) {
      const std::int64_t elements = tokens(source(r_.ranks(), r_.rank, step)) * r_.key_row();
      if (number >= 2) {
        reads(gradient + "_in", elements * (number == 2 ? size_ : kFloat));
        reads(gradient + "_part", elements * size_);
        writes(gradient + "_out", elements * kFloat);
      }
      const std::int64_t size =
          number == 1 ? size_ : kFloat;  // then the sums are passed on, and others arrive
      reads(gradient + "_out", elements * size);
      writes(gradient + "_in", tokens(next) * r_.key_row() * size);
      if (number + 1 < r_.ranks()) continue;
      const std::int64_t own = tokens(r_.rank) * r_.key_row();
      reads(gradient + "_in", own * size);
      reads(gradient, own * size_);
      writes(gradient, own * size_);
    }
  }

  /// @param begins  what the rows have had before is a kernel's result    @param ends  the sum is the result
  void merge(std::int64_t rows, int parts, bool begins, bool ends) {
    const std::int64_t elements = rows * r_.query_row(), lse = rows * heads() * kFloat;
    begins ? reads("o", elements * size_) : reads("o_sum", elements * kFloat);
    reads("o_part", parts * elements * size_);
    ends ? writes("o", elements * size_) : writes("o_sum", elements * kFloat);
    reads("lse", lse);
    reads("lse_part", parts * lse);
    writes("lse", lse);
  }

  void dq_sums() {
    for (const Range& piece : r_.split.local_pieces_of(r_.rank)) {
      if (piece.length() == 0) continue;
      const int parts = parts_of(r_.split, r_.rank, piece, r_.shape.causal);
      sum(piece.length() * r_.query_row(), parts, "dq", "dq_sums", "dq_part");
    }
  }

  static std::string of_step(const std::string& tensor, int step) {
    return step == 0 ? tensor : tensor + "_in";
  }

  void pass_on_keys(int step) {
    if (step + 1 < r_.ranks()) exchange_keys(step, step + 1);
  }
  /// Sends the keys of a step, receives those of another one.
  void exchange_keys(int step, int other) {
    for (const char* tensor : {"k", "v"}) {
      reads(of_step(tensor, step), tokens(source(r_.ranks(), r_.rank, step)) * r_.key_row() * size_);
      writes(of_step(tensor, other), tokens(source(r_.ranks(), r_.rank, other)) * r_.key_row() * size_);
    }
  }
};

/// The ring whose backward pass goes the other way.
class HomewardBytes : public RingBytes {
 public:
  using RingBytes::RingBytes;

  void backward() {
    std::vector<Range> begun;  // pieces of the queries of which a part has been added up
    for (int number = 1; number <= r_.ranks(); ++number) {
      const int step = r_.ranks() - number;
      if (number > 1 && keys_go_back(r_, step)) exchange_keys(step, step - 1);
      differentiate(step, number, all_new(step, begun));
      sums(step, number, source(r_.ranks(), r_.rank, step - 1));
    }
    dq_sums();
  }

 private:
  /// Whether a step computes the first part of all its queries.
  bool all_new(int step, std::vector<Range>& begun) const {
    const auto part = part_of(r_.split, r_.rank, source(r_.ranks(), r_.rank, step), r_.shape.causal);
    if (!part) return false;
    bool all = true;
    for (const Range& piece : r_.split.local_pieces_of(r_.rank)) {
      if (piece.length() == 0 || piece.begin < part->queries.begin) continue;
      const bool is_new = std::ranges::find(begun, piece) == begun.end();
      all = all && is_new;
      if (is_new) begun.push_back(piece);
    }
    return all;
  }
};

/// All keys on all ranks. A rank's keys are read once for each rank.
class GatherBytes : public Bytes {
 public:
  using Bytes::Bytes;

  void forward() {
    gather();
    if (tokens(r_.rank) == 0) return;
    call(r_.engine->forward_traffic(shape()), {{"k", "k_all"}, {"v", "v_all"}});
  }

  void backward() {
    gather();
    if (tokens(r_.rank) > 0) {
      call(r_.engine->backward_traffic(shape()),
           {{"k", "k_all"}, {"v", "v_all"}, {"dk", "dk_all"}, {"dv", "dv_all"}});
    }
    int parts = 0;
    for (int other = 0; other < r_.ranks(); ++other) {
      const bool gives = part_of(r_.split, r_.rank, other, r_.shape.causal).has_value();
      const bool takes = part_of(r_.split, other, r_.rank, r_.shape.causal).has_value();
      parts += takes;
      for (const std::string gradient : {"dk", "dv"}) {
        if (other == r_.rank) continue;
        if (gives) reads(gradient + "_all", tokens(other) * r_.key_row() * size_);
        if (takes) writes(gradient + "_in", tokens(r_.rank) * r_.key_row() * size_);
      }
    }
    for (const std::string gradient : {"dk", "dv"})
      sum(tokens(r_.rank) * r_.key_row(), parts, gradient, gradient + "_sum", gradient + "_in");
  }

 private:
  AttentionShape shape() const {
    const std::int64_t keys = r_.shape.causal ? r_.split.piece(r_.rank).end : r_.split.tokens;
    return shape_of(r_, {{0, tokens(r_.rank)}, {0, keys}, r_.shape.causal});
  }
  void gather() {
    for (const std::string tensor : {"k", "v"}) {
      const std::int64_t bytes = r_.ranks() * r_.split.length() * r_.key_row() * size_;
      reads(tensor, bytes);
      writes(tensor + "_all", bytes);
    }
  }
};

/// Heads for tokens: what is sent has been packed, what arrives is packed or complete.
class TradeBytes : public Bytes {
 public:
  using Bytes::Bytes;

  void forward() {
    to_heads("q", r_.query_row());
    for (const char* tensor : {"k", "v"}) to_heads(tensor, r_.key_row());
    call(r_.engine->forward_traffic(shape()), names());
    to_tokens("o", r_.query_row());
    const std::int64_t lse = heads() / r_.ranks() * kFloat;
    reads("lse_out", lse * r_.split.tokens);
    writes("lse_in", r_.ranks() * lse * tokens(r_.rank));
  }

  void backward() {
    to_heads("do", r_.query_row());
    call(r_.engine->backward_traffic(shape()), names());
    to_tokens("dq", r_.query_row());
    for (const char* tensor : {"dk", "dv"}) to_tokens(tensor, r_.key_row());
  }

 private:
  AttentionShape shape() const {
    return shape_of(r_.shape, r_.shape.heads / r_.ranks(), r_.shape.kv_heads / r_.ranks(), r_.split.tokens,
                    r_.split.tokens, r_.shape.causal);
  }
  static std::map<std::string, std::string> names() {
    std::map<std::string, std::string> names;
    for (const std::string tensor : {"q", "k", "v", "o", "lse", "do", "dq", "dk", "dv"})
      names[tensor] = tensor + "_heads";
    return names;
  }
  void to_heads(const std::string& tensor, std::int64_t row) {
    reads("packed_" + tensor, tokens(r_.rank) * row * size_);
    writes(tensor + "_heads", r_.split.tokens * row / r_.ranks() * size_);
  }
  void to_tokens(const std::string& tensor, std::int64_t row) {
    reads(tensor + "_heads", r_.split.tokens * row / r_.ranks() * size_);
    writes("packed_" + tensor, tokens(r_.rank) * row * size_);
  }
};

/// The bytes of the forward pass, or of both.
template <class Formula>
Traffic traffic_of(const Rank& r, bool backward) {
  Formula formula(r);
  formula.forward();
  if (backward) formula.backward();
  return formula.traffic();
}

}  // namespace fa::ch13
