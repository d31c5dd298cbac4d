/// @file
/// What the kernels of `hopper` read of masks and lists, in HBM bytes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/masked_attention.hpp"
#include "attention/traffic.hpp"
#include "mask_mod.cuh"

namespace fa::ch11::hopper {

/// Bytes of the masks.
struct Asked {
  std::int64_t documents = 0, blocks = 0;

  void add(const Asked& more, std::int64_t times = 1) {
    documents += more.documents * times;
    blocks += more.blocks * times;
  }
};

/// Counts what is read of the masks of one head.
class HeadReads {
 public:
  /// @param head  counts through all batches    @param all  must outlive this
  HeadReads(const Masks& all, int head) : all_(all), masks_(all.of(head)) {}

  const HeadMasks& masks() const { return masks_; }

  /// hidden_bits()
  Asked of_share(bool keys_are_rows, int first_query, int first_key) const {
    const Rect share = {all_.queries(first_query, keys_are_rows ? 64 : 16),
                        all_.keys(first_key, keys_are_rows ? 16 : 64)};
    Asked asked{.blocks = blocks_in(share)};
    if (!all_.documents) return asked;
    asked.documents = 4 * sizeof(int);
    if (masks_.kind(share) != TileKind::kPartial) return asked;
    const int first_row = keys_are_rows ? first_key : first_query;
    const int first_column = keys_are_rows ? first_query : first_key;
    for (const int row : {0, 8}) asked.documents += 4 * distinct(first_row + row, 8, 1);
    for (int column = 0; column < 64; column += 8) {
      for (int odd = 0; odd < 2; ++odd) asked.documents += 4 * distinct(first_column + column + odd, 4, 2);
    }
    return asked;
  }

  /// What a warp asks for a list of tiles: 32 of them at a time.
  /// @param rect_of  the rectangle of a range of them: rect_of(first, end)
  template <class F>
  Asked of_list(int tiles, F rect_of) const {
    Asked asked;
    for (int first = 0; first < tiles; first += 32) {
      const int end = std::min(tiles, first + 32);
      asked.blocks += blocks_in(rect_of(first, end));
      if (all_.documents) asked.documents += 4 * (2 + 2 * (end - first));
    }
    return asked;
  }

 private:
  std::int64_t blocks_in(const Rect& r) const {
    if (!all_.blocks) return 0;
    const std::int64_t rows = masks_.row(r.queries.last.position) - masks_.row(r.queries.first.position) + 1;
    const std::int64_t cols = masks_.col(r.keys.last.position) - masks_.col(r.keys.first.position) + 1;
    return rows * cols;
  }
  /// How many of `count` tokens differ if those from the last one on are the last one. With documents, seq_q
  /// = seq_k.
  int distinct(int first, int count, int step) const {
    const int last = all_.seq_q - 1;
    int different = 0;
    for (int i = 0; i < count; ++i) different += first + i * step < last;
    return different + (first + (count - 1) * step >= last);
  }

  const Masks& all_;
  HeadMasks masks_;
};

/// Adds the bytes of masks that a problem has.
inline void add_masks(Traffic& to, const Masks& masks, const Asked& asked, std::int64_t lengths) {
  if (masks.documents) to.tensors["documents"].read_bytes += asked.documents;
  if (masks.blocks) to.tensors["block_mask"].read_bytes += asked.blocks;
  if (masks.key_lengths) to.tensors["key_lengths"].read_bytes += 4 * lengths;
}

}  // namespace fa::ch11::hopper
