/// @file
/// The shared memory of a block: a private ring of tiles for each worker, and what workers leave for a merge.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "device/declare_members.cuh"

namespace fa::ch14 {

/// An element of an fp8 cache: e4m3.
using Fp8 = std::uint8_t;

// What Little's law needs. A copy takes longer the busier HBM is: this is what it may take before HBM idles.
inline constexpr int kBytesPerNs = 4800;  ///< 4.8 TB/s: the peak of an H200
inline constexpr int kLatencyNs = 1000;
inline constexpr int kMultiprocessors = 132;

/// The stages of a ring. @param bytes  of a stage, for all rings on a multiprocessor together
constexpr int ring_stages(int bytes) {
  // EXERCISE 3: How few stages keep HBM busy? Copies are in flight to all of them but the one in use.
  const int in_flight = kBytesPerNs * kLatencyNs / kMultiprocessors;
  return 1 + (in_flight + bytes - 1) / bytes;
  // END 3
}

/// A worker is a warp: the rows of Q are the columns of its products.
///
/// @tparam Element_  of the cache: T, or Fp8
template <class T_, class Element_, int kHeadDimension, int kColumns>
struct WarpTile {
  using T = T_;
  using Element = Element_;
  static constexpr int kHeadDim = kHeadDimension, kRows = kColumns;
  static constexpr int kPanel = std::is_same_v<Element, Fp8> && kHeadDim > 64 ? 128 : 64;  ///< columns
  static constexpr int kPanels = kHeadDim / kPanel;
  static constexpr int kKeys = kPanels == 1 ? 32 : 16;  ///< 8 KB of K and V at d = 64 and 128, 16 at 256
  static constexpr int kWorkers = kHeadDim == 256 ? 4 : 8, kWorkerThreads = 32;
  static constexpr int kStages = ring_stages(kWorkers * kKeys * 2 * kHeadDim * int(sizeof(Element)));
  static constexpr int kThreads = kWorkers * kWorkerThreads, kBlocksPerSm = 1;
  static constexpr int kRowStride = kHeadDim + 4;  ///< floats from a row of O to the next: no bank conflicts
  static constexpr bool kQInShared = false;
  static constexpr bool kByTma = true;  ///< copies are TMA's
};

/// A worker is a warpgroup: 64 rows of Q are the rows of its products.
template <class T_, int kHeadDimension>
struct WarpgroupTile {
  using T = T_;
  using Element = T;
  static constexpr int kHeadDim = kHeadDimension, kRows = 64, kPanel = 64, kPanels = kHeadDim / kPanel;
  static constexpr int kKeys = kHeadDim == 256 ? 32 : 64;  ///< 16 KB of K and V at d = 64, 32 at 128 and 256
  static constexpr int kWorkers = kHeadDim == 256 ? 1 : 2, kWorkerThreads = 128;
  static constexpr int kStages = kHeadDim == 64 ? 4 : kHeadDim == 128 ? 2 : 3;
  static constexpr int kThreads = kWorkers * kWorkerThreads, kBlocksPerSm = 1;
  static constexpr int kRowStride = kHeadDim + 8;
  static constexpr bool kQInShared = true;
  static constexpr bool kByTma = true;
};

/// The tiles of K and V in one stage of a ring: [group of 16 keys][panel][16][kPanel], the rows of a panel
/// swizzled by TMA.
template <class Tile>
struct Stage {
  typename Tile::Element k[Tile::kKeys * Tile::kHeadDim], v[Tile::kKeys * Tile::kHeadDim];
};

/// The state of a row of the softmax over some keys: the sum of 2^(x - m), with x = score_factor * q.k.
struct RowState {
  float m, l;
};

template <class Tile>
struct __align__(1024) SharedTiles {
  Stage<Tile> ring[Tile::kWorkers][Tile::kStages];
  typename Tile::T q[Tile::kQInShared ? Tile::kRows * Tile::kHeadDim : 8];
  float o[Tile::kWorkers][Tile::kRows][Tile::kRowStride];  ///< of each worker, relative to its m
  RowState state[Tile::kWorkers][Tile::kRows];
  std::uint64_t full[Tile::kWorkers][Tile::kStages];  ///< mbarriers: a stage has landed
  std::uint32_t arrived;                              ///< parts that have been finished before this one
};

/// Where element (row, col) of a tile of 16-bit elements lies: as TMA leaves it in a Stage.
template <int kHeadDim>
struct Grouped {
  __host__ __device__ static constexpr int offset(int row, int col) {
    return row / 16 * 16 * kHeadDim + col / 64 * 16 * 64 + row % 16 * 64 + (col % 64 ^ row % 8 * 8);
  }
  /// The offset of an element `rows` further down and `cols` to the right, both multiples of 16.
  __host__ __device__ static constexpr int advance(int at, int rows, int cols) {
    return (at ^ cols % 64) + cols / 64 * 16 * 64 + rows * kHeadDim;
  }
};

}  // namespace fa::ch14
