/// @file
/// Attention of a few queries, for sequences whose K and V no host would want to hold.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "attention/attention.hpp"
#include "attention/inputs.hpp"

namespace fa::ch13 {

/// Random inputs of a problem, row by row, rounded to its element type.
class LazyInputs {
 public:
  LazyInputs(const AttentionShape& shape, Init init, std::uint64_t seed)
      : shape_(shape), init_(init), seed_(seed) {}

  /// A row of a tensor. @param head  of all batches
  std::vector<float> row(const std::string& tensor, std::int64_t head, std::int64_t token) const;

 private:
  AttentionShape shape_;
  Init init_;
  std::uint64_t seed_;
};

struct SampledRows {
  std::vector<double> o;    ///< [queries, head_dim]
  std::vector<double> lse;  ///< [queries]
};

/// O and LSE of some queries of a head, in float64, on all cores.
SampledRows sampled_rows(const AttentionShape& shape, const LazyInputs& inputs, std::int64_t head,
                         const std::vector<std::int64_t>& queries);

}  // namespace fa::ch13
