/// @file
/// A method with its plans and its memory, ready to be enqueued.
#pragma once

#include <functional>
#include <vector>

#include "device.hpp"
#include "execute.hpp"
#include "methods.hpp"

namespace fa::ch13 {

/// What a method is applied to.
struct Problem {
  AttentionShape shape;  ///< of the whole sequence: as many queries as keys
  bool backward;         ///< both passes
  const Engine* engine;
};

/// The share of a rank. @param R  ranks
inline Share share_of(const AttentionShape& shape, int R, int rank, bool zigzag) {
  return {.split = {.R = R, .tokens = shape.seq_q, .zigzag = zigzag},
          .rank = rank,
          .batch = shape.batch,
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .head_dim = shape.head_dim,
          .causal = shape.causal,
          .element_bytes = int(size_of(shape.dtype))};
}

inline std::vector<Plan> plans_of(const Method& method, const Share& share, const Changes& left,
                                  bool backward) {
  std::vector<Plan> plans = {method.forward(share, left)};
  if (backward) plans.push_back(method.backward(share, left));
  return plans;
}

/// It stays where it is: executions refer to its members.
class Job {
 public:
  Job(const Problem& problem, const Share& share, const Method& method, const Changes& left,
      const Streams& streams)
      : problem_(problem),
        share_(share),
        streams_(streams),
        plans_(plans_of(method, share, left, problem.backward)),
        buffers_(share, problem.shape, *problem.engine, plans_, left.registered ? streams.comm : nullptr),
        executions_(executions(*problem.engine)) {}
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const Share& share() const { return share_; }
  const std::vector<Plan>& plans() const { return plans_; }
  const Buffers& buffers() const { return buffers_; }

  void enqueue(const std::function<void()>& after_transfers = [] {}) const {
    for (const Execution& execution : executions_) execution.enqueue(after_transfers);
  }

  /// The same plans in the same memory, with other kernels for attention.
  std::vector<Execution> executions(const Engine& engine) const {
    std::vector<Execution> executions;
    for (const Plan& plan : plans_) executions.emplace_back(plan, problem_.shape, engine, buffers_, streams_);
    return executions;
  }

 private:
  Problem problem_;
  Share share_;
  Streams streams_;
  std::vector<Plan> plans_;
  Buffers buffers_;
  std::vector<Execution> executions_;
};

}  // namespace fa::ch13
