/// @file
/// Helpers for the tests of several attention chapters.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "baselines/standard_attention.hpp"
#include "harness/npy.hpp"
#include "harness/runner.hpp"

namespace fa {

/// Tensors of the first tokens of the first heads of the bundled input. heads = kv_heads, seq_q = seq_k.
inline TensorMap real_inputs(const AttentionShape& shape,
                             const std::vector<std::string>& names = {"q", "k", "v"}) {
  TensorMap inputs;
  for (const std::string& name : names) {
    const Tensor all = read_npy(std::string(FA_SOURCE_DIR) + "/data/" + name + ".npy",
                                {{"batch", 1}, {"heads", {}}, {"seq", {}}, {"head_dim", shape.head_dim}});
    Tensor part{.shape = {1, shape.heads, shape.seq_q, shape.head_dim}, .data = {}};
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const auto first = all.data.begin() + head * all.shape[2] * shape.head_dim;
      part.data.insert(part.data.end(), first, first + shape.seq_q * shape.head_dim);
    }
    inputs.emplace(name, std::move(part));
  }
  return inputs;
}

/// Normal inputs whose logits are all near -320 with head_dim 64: Q becomes nearly 1, K nearly -40.
inline TensorMap far_from_zero(TensorMap inputs) {
  for (float& x : inputs.at("q").data) x = 1 + 0.05f * x;
  for (float& x : inputs.at("k").data) x -= 40;
  return inputs;
}

/// The error of standard attention, which has S and P in HBM, from rounding to the type of the shape.
inline Check standard(const AttentionShape& shape, const TensorMap& inputs) {
  const Variant<AttentionForward> variant{.name = "standard",
                                          .summary = "",
                                          .launch = standard_attention::launch,
                                          .traffic = standard_attention::traffic,
                                          .workspace = standard_attention::workspace};
  const Reference reference = AttentionForward::reference(shape, inputs);
  return run_variant<AttentionForward>(variant, shape, inputs, &reference).check.value();
}

}  // namespace fa
