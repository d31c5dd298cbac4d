/// @file
/// The sizes of the kernels with one block per key tile, except those of owners.cuh.
#pragma once

namespace fa::ch10 {

/// A block owns a key tile: two consumer warpgroups with 64 keys each. Their registers hold dK and dV, and S
/// and dP of a query tile: at head_dim 64 there is room for twice as many queries.
template <class Element, int kHeadDimension>
struct KeyTiles {
  using T = Element;
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr int Br = kHeadDim <= 64 ? 128 : 64;  ///< queries of a step
  static constexpr int Bc = 128;                        ///< keys of a block
  static constexpr int kStages = 2;                     ///< tiles of Q and of dO in shared memory
  static constexpr int kDsStages = 2;                   ///< tiles of dS
  static constexpr int kConsumers = 2;
  static constexpr int kDsWarps = 4 * kConsumers;  ///< that store dS
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;
  static constexpr int kCols = (kHeadDim + 63) / 64 * 64;  ///< of a tile in shared memory
  static constexpr bool kPads = false;
  /// dQ of a query tile is divided into one part of 64 rows for each consumer.
  static constexpr int kDqCols = Br * kCols / 64 / kConsumers;
  static constexpr int kQueryTile = Br * kCols;  ///< elements
};

/// The same tiles for tensors with fewer columns.
template <class Tile>
struct Padded : Tile {
  static constexpr bool kPads = true;
};

}  // namespace fa::ch10
