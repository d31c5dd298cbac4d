/// @file
/// Bytes between HBM and the chip, per tensor, as a formula predicts them and as a run counts them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fa {

/// Bytes of one tensor.
struct TensorTraffic {
  std::int64_t read_bytes = 0;
  std::int64_t write_bytes = 0;
  bool at_least =
      false;  ///< of a formula: a run moves no fewer bytes, and how many more depends on its inputs
  bool operator==(const TensorTraffic&) const = default;
};

/// What masks leave of each tile of scores.
struct TileKinds {
  std::int64_t queries = 0, keys = 0;  ///< of a tile
  /// Of each row of tiles a letter for each tile: 'e'mpty, 'p'artial or 'f'ull. The rows of heads with
  /// different masks follow each other.
  std::vector<std::string> kinds = {};
};

/// Bytes by tensor name ("x", "y", "q", ...).
struct Traffic {
  std::map<std::string, TensorTraffic> tensors;
  std::optional<TileKinds> tiles = std::nullopt;  ///< of a formula for kernels that do not visit all tiles

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
  /// Of a formula: whether a run may move more bytes of some tensor.
  bool at_least() const {
    return std::any_of(tensors.begin(), tensors.end(), [](const auto& each) { return each.second.at_least; });
  }
};

/// Adds bytes of one tensor.
inline void add(Traffic& to, const std::string& name, TensorTraffic more) {
  to.tensors[name].read_bytes += more.read_bytes;
  to.tensors[name].write_bytes += more.write_bytes;
  to.tensors[name].at_least |= more.at_least;
}

/// The bytes of two kernels or passes together.
inline Traffic sum(Traffic traffic, const Traffic& more) {
  for (const auto& [name, bytes] : more.tensors) add(traffic, name, bytes);
  return traffic;
}

/// How many tiles of `rows` rows a length has, with the one at its end that it may not fill.
constexpr std::int64_t tiles(std::int64_t length, std::int64_t rows) { return (length + rows - 1) / rows; }

}  // namespace fa
