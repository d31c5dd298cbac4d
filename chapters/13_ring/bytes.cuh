/// @file
/// The bytes that a rank exchanges with its memory: those of the attention kernels, of the sums, and of the
/// transfers, which read what they send and write what they receive.
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

  /// All additions of 16-bit parts to a sum that is itself the first part, and a result in the end.
  /// @param parts  with the first
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
      Waiting waiting = {.in_all = parts, .done = 1};
      for (int step = 1; step < r_.ranks(); ++step) {
        if (sees(step, piece)) ++waiting.parts;
        if (merges_after(r_, step)) merge(piece.length(), waiting);
      }
    }
  }

  void backward() {
    for (int step = 0; step < r_.ranks(); ++step) {
      pass_on_keys(step);
      differentiate(step, step == 0, step == 0 ? "" : step == 1 ? "_out" : "_part");
      sums(step);
    }
    dq_sums();
  }

 protected:
  /// The kernels of a step.
  /// @param direct  dQ goes where the result will be    @param suffix  of where dK and dV go
  void differentiate(int step, bool direct, const std::string& suffix) {
    const auto part = part_of(r_, step);
    if (!part) return;
    const bool late = part->queries.begin > 0;
    call(r_.engine->backward_traffic(shape_of(r_, *part)), {{"k", of_step("k", step)},
                                                            {"v", of_step("v", step)},
                                                            {"lse", late ? "lse_late" : "lse"},
                                                            {"dq", direct ? "dq" : "dq_part"},
                                                            {"dk", "dk" + suffix},
                                                            {"dv", "dv" + suffix}});
  }

  /// What becomes of dK and dV of the keys of a step: they are added to the sums that have arrived, and these
  /// are passed on, while others arrive.
  void sums(int step) {
    if (step == 0) return;
    for (const std::string gradient : {"dk", "dv"}) {
      const std::int64_t elements = tokens(source(r_.ranks(), r_.rank, step)) * r_.key_row();
      if (step >= 2) {
        reads(gradient + "_in", elements * (step == 2 ? size_ : kFloat));
        reads(gradient + "_part", elements * size_);
        writes(gradient + "_out", elements * kFloat);
      }
      const std::int64_t size = step == 1 ? size_ : kFloat;
      reads(gradient + "_out", elements * size);
      writes(gradient + "_in", tokens(source(r_.ranks(), r_.rank, step + 1)) * r_.key_row() * size);
      if (step + 1 < r_.ranks()) continue;
      const std::int64_t own = tokens(r_.rank) * r_.key_row();
      reads(gradient + "_in", own * size);
      reads(gradient, own * size_);
      writes(gradient, own * size_);
    }
  }

  /// Parts of a sum that have not yet been added.
  struct Waiting {
    int in_all, done, parts = 0;
  };
  /// Adds them to what there is: the first part, or the sum of several.
  void add(std::int64_t elements, Waiting& waiting, const std::string& result, const std::string& sums,
           const std::string& part) {
    if (waiting.parts == 0) return;
    waiting.done == 1 ? reads(result, elements * size_) : reads(sums, elements * kFloat);
    reads(part, waiting.parts * elements * size_);
    waiting.done += std::exchange(waiting.parts, 0);
    waiting.done == waiting.in_all ? writes(result, elements * size_) : writes(sums, elements * kFloat);
  }
  void merge(std::int64_t rows, Waiting& waiting) {
    const std::int64_t lse = rows * heads() * kFloat;
    reads("lse", waiting.parts > 0 ? lse : 0);
    reads("lse_part", waiting.parts * lse);
    writes("lse", waiting.parts > 0 ? lse : 0);
    add(rows * r_.query_row(), waiting, "o", "o_sum", "o_part");
  }

  /// Whether queries see keys of a step.
  bool sees(int step, const Range& queries) const {
    const auto part = part_of(r_, step);
    return part && part->queries.begin <= queries.begin;
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

/// The ring whose backward pass goes the other way, and sends gradients straight home.
class HomewardBytes : public RingBytes {
 public:
  using RingBytes::RingBytes;

  void backward() {
    const std::int64_t own = tokens(r_.rank) * r_.key_row();
    std::map<std::int64_t, Waiting> pieces;  // by their first query
    int arrived = 0;
    bool has_sums = false;
    for (int number = 0; number < r_.ranks(); ++number) {
      const int step = r_.ranks() - 1 - number;
      differentiate(step, all_new(step, pieces), step == 0 ? "" : "_part");
      for (const Range& piece : r_.split.local_pieces_of(r_.rank)) {
        if (piece.length() == 0) continue;
        Waiting& waiting = pieces[piece.begin];
        waiting.in_all = parts_of(r_.split, r_.rank, piece, r_.shape.causal);
        if (sees(step, piece)) waiting.done == 0 ? ++waiting.done : ++waiting.parts;
        if (merges_after(r_, number))
          add(piece.length() * r_.query_row(), waiting, "dq", "dq_sums", "dq_part");
      }
      if (step == 0) break;
      if (arrived == kMostParts) has_sums = add_arrived(own, std::exchange(arrived, 0), has_sums, false);
      for (const std::string gradient : {"dk", "dv"}) {
        reads(gradient + "_part", tokens(source(r_.ranks(), r_.rank, step)) * r_.key_row() * size_);
        writes(gradient + "_in", own * size_);
      }
      ++arrived;
      if (keys_go_back(r_, step - 1)) exchange_keys(step - 1, step - 2);
    }
    if (arrived > 0) add_arrived(own, arrived, has_sums, true);
  }

 private:
  /// Whether a step computes the first part of all its queries.
  bool all_new(int step, std::map<std::int64_t, Waiting>& pieces) const {
    return std::ranges::all_of(r_.split.local_pieces_of(r_.rank), [&](const Range& piece) {
      return piece.length() == 0 || !sees(step, piece) || pieces[piece.begin].done == 0;
    });
  }
  /// @param last  with the rank's own part    @return that there are sums
  bool add_arrived(std::int64_t elements, int arrived, bool has_sums, bool last) {
    for (const std::string gradient : {"dk", "dv"}) {
      reads(gradient + "_sum", has_sums ? elements * kFloat : 0);
      reads(gradient + "_in", arrived * elements * size_);
      reads(gradient, last ? elements * size_ : 0);
      last ? writes(gradient, elements * size_) : writes(gradient + "_sum", elements * kFloat);
    }
    return true;
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
