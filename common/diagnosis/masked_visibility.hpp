/// @file
/// What queries see if a mask is mistaken.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "attention/masked_attention.hpp"

namespace fa {

/// Which pairs of a query and a key are seen. Copies share them.
struct SeenPairs {
  using Seen = std::vector<std::uint8_t>;  ///< [batch * heads, seq_q, keys]: 0 or 1
  std::int64_t queries, keys;              ///< with keys after the last one, up to a multiple of 128
  std::shared_ptr<const Seen> seen;

  bool operator()(std::int64_t head, std::int64_t query, std::int64_t key) const {
    return (*seen)[std::size_t((head * queries + query) * keys + key)] != 0;
  }
};

/// A mistake, and what is seen then.
struct MistakenMask {
  std::string change;  ///< "if the window began one key earlier"
  SeenPairs seen;
};

/// Without each of the masks, or with one that is off by one, misread, or applied to whole tiles. Each
/// changes something.
std::vector<MistakenMask> mistaken_masks(const MaskedShape& shape);

}  // namespace fa
