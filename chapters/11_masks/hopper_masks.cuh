/// @file
/// Lists and masks for the kernels with the copy engine and wgmma: which tile is next, and which accumulators
/// are hidden.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "block_mask.cuh"
#include "device/hopper.cuh"
#include "device/ptx.cuh"
#include "device/tile.cuh"
#include "mask_mod.cuh"

namespace fa::ch11::hopper {

/// The list of a row of tiles: entries 0 to partial - 1 are partial tiles, those up to count - 1 full ones.
struct ListEntries {
  const int* first;
  int partial, count;
  int gap;  ///< between partial and full tiles

  /// @param head  counts through all batches
  __device__ __forceinline__ ListEntries(const BlockMask& block_mask, const Masks& masks, int head, int row) {
    const std::size_t list = block_mask.index_of(masks, head, row);
    first = block_mask.tiles + list * block_mask.most;
    partial = block_mask.count(list, true);
    count = partial + block_mask.count(list, false);
    gap = block_mask.most - count;
  }
  __device__ __forceinline__ int operator[](int entry) const {
    return first[entry < partial ? entry : entry + gap];
  }
};

/// Which of a lane's 32 accumulators are hidden: a bit for each. They are those of a warp's 16 rows and of 64
/// columns.
using HiddenBits = std::uint32_t;

/// Evaluates the masks for the 32 accumulators, unless all or none are hidden. Skips masks that hide nothing.
/// @tparam kKeysAreRows  as in the backward pass; otherwise queries are rows
/// @param first_query, first_key  of the warp's 16 rows and of the 64 columns
template <bool kKeysAreRows>
__device__ __forceinline__ HiddenBits hidden_bits(const Masks& masks, const MaskMod& head_mask,
                                                  int first_query, int first_key) {
  const Rect share = {masks.queries(first_query, kKeysAreRows ? 64 : 16),
                      masks.keys(first_key, kKeysAreRows ? 16 : 64)};
  const TileKind kind = head_mask.kind(share);
  if (kind == TileKind::kFull) return 0;
  if (kind == TileKind::kEmpty) return ~HiddenBits(0);
  const int lane = ptx::unknown(threadIdx.x) % 32;
  const auto row_token = [&](int row) {
    return kKeysAreRows ? masks.key(first_key + row) : masks.query(first_query + row);
  };
  const auto column_token = [&](int column) {
    return kKeysAreRows ? masks.query(first_query + column) : masks.key(first_key + column);
  };
  const Token rows[2] = {row_token(lane / 4), row_token(lane / 4 + 8)};
  Token columns[8][2];
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) columns[n][odd] = column_token(8 * n + lane % 4 * 2 + odd);
  }
  HiddenBits hidden = 0;
  head_mask.for_each([&]<class Mask>(const Mask& mask) {
    if constexpr (!requires { Mask::kWholeSubTiles; }) {
      if (mask.kind(share) != TileKind::kPartial) return;
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        const Token &row = rows[i / 2 % 2], &column = columns[i / 4][i % 2];
        if (kKeysAreRows ? !mask.sees(column, row) : !mask.sees(row, column)) hidden |= HiddenBits(1) << i;
      }
    }
  });
  return hidden;
}

/// mask_mod(rS) hides scores that a wgmma has left in a warp's 16 rows.
/// @tparam kColumns  a multiple of 64
template <int kColumns>
struct WgmmaMaskMod {
  HiddenBits parts[kColumns / 64];

  /// Sets the hidden scores to -inf.
  __device__ __forceinline__ void operator()(float (&rS)[kColumns / 2]) const {
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i) {
      if ((parts[i / 32] >> i % 32 & 1) != 0) rS[i] = -INFINITY;
    }
  }
};

/// The masks of a head whose number of keys has been read already. ptx::unknown() hides from the compiler
/// that they do not change, so that it computes nothing of them before the loop: no register is left for it.
struct MasksOfHead : Masks {
  MaskMod head_mask;

  /// @param head  counts through all batches    @param keys  Masks::of(head).keys
  __device__ __forceinline__ MasksOfHead(const Masks& masks, int head, int keys) : Masks(masks) {
    key_lengths = nullptr;
    seq_q = ptx::unknown(seq_q);
    seq_k = ptx::unknown(seq_k);
    head_mask = of(head);
    head_mask.keys = keys;
  }

  /// The mask_mod of a warp's 16 queries, which are rows, and a tile of keys. @param first_query  the warp's
  template <int kKeys>
  __device__ __forceinline__ WgmmaMaskMod<kKeys> of_queries(int first_query, int first_key) const {
    WgmmaMaskMod<kKeys> mask_mod;
#pragma unroll
    for (int part = 0; part < kKeys / 64; ++part)
      mask_mod.parts[part] = hidden_bits<false>(*this, head_mask, first_query, first_key + 64 * part);
    return mask_mod;
  }
  /// The mask_mod of a warp's 16 keys, which are rows, and a tile of queries. Queries that do not exist are
  /// hidden.
  /// @param first_key  the warp's
  template <int kQueries>
  __device__ __forceinline__ WgmmaMaskMod<kQueries> of_keys(int first_query, int first_key) const {
    WgmmaMaskMod<kQueries> mask_mod;
    first_key = ptx::unknown(first_key);
#pragma unroll
    for (int part = 0; part < kQueries / 64; ++part) {
      const int query = first_query + 64 * part;
      mask_mod.parts[part] =
          query < seq_q ? hidden_bits<true>(*this, head_mask, query, first_key) : ~HiddenBits(0);
    }
    return mask_mod;
  }
};

/// The row of a tile from which on its keys exist in the tensor, but not in their sequence; kRows: there are
/// none.
/// @param keys  of the sequence
template <int kRows>
__device__ __forceinline__ int first_row_to_clear(const Masks& masks, int keys, int first_key) {
  const int row = keys - first_key;
  return row < kRows && keys < masks.seq_k ? row : kRows;
}

/// Sets rows of a tile, panels of kRows rows and 64 columns, to zero, from one on. The copy engine brings
/// whatever lies there, and 0 * NaN is not 0. Afterwards the threads must fence and wait for each other.
/// @param thread  among the `threads` that share the work
template <int kRows, int kCols, class T>
__device__ __forceinline__ void clear_rows(T* tile, int first_row, int thread, int threads) {
  constexpr int kChunk = 16 / sizeof(T), kChunks = 64 / kChunk;  // elements; per row
  for (int panel = 0; panel < kCols / 64; ++panel) {
    for (int chunk = first_row * kChunks + thread; chunk < kRows * kChunks; chunk += threads)
      store_float4(reinterpret_cast<float*>(tile + panel * kRows * 64 + chunk * kChunk),
                   {0.0f, 0.0f, 0.0f, 0.0f});
  }
}

}  // namespace fa::ch11::hopper
