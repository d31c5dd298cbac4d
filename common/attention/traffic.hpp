/// @file
/// Bytes between HBM and the chip, per tensor, as a formula predicts them and as a run counts them.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace fa {

/// Bytes of one tensor.
struct TensorTraffic {
  std::int64_t read_bytes = 0;
  std::int64_t write_bytes = 0;
  bool operator==(const TensorTraffic&) const = default;
};

/// Bytes by tensor name ("x", "y", "q", ...).
struct Traffic {
  std::map<std::string, TensorTraffic> tensors;
  /// Of a formula: a run moves no fewer bytes, and how many more depends on its inputs.
  bool at_least = false;

  std::int64_t read_bytes() const {
    std::int64_t sum = 0;
    for (const auto& [name, t] : tensors) sum += t.read_bytes;
    return sum;
  }
  std::int64_t write_bytes() const {
    std::int64_t sum = 0;
    for (const auto& [name, t] : tensors) sum += t.write_bytes;
    return sum;
  }
  std::int64_t bytes() const { return read_bytes() + write_bytes(); }
};

}  // namespace fa
