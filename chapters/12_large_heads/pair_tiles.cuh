/// @file
/// How a query tile is divided among warpgroups and blocks, and what each block keeps on the chip.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "09_hopper/products.cuh"
#include "09_hopper/shared_tiles.cuh"
#include "device/declare_members.cuh"
#include "device/hopper.cuh"

namespace fa::ch12 {

using ch09::moved;
using ch09::warpgroup_index;

/// O of a query tile is divided by columns among warpgroups, and these among the blocks of a cluster. If that
/// is not enough, the tile is computed in parts, each with other columns, by independent blocks. Warpgroups
/// that share queries divide the scores of a key tile among them, too, by keys.
///
/// @tparam kQueryGroups  2: each of a block's two warpgroups has 64 queries; 1: all have the same 64
/// @tparam kOutputCols   columns of O of a warpgroup
template <class Element, int kQueryGroups, int kOutputCols, int kBlocksOfCluster = 2, int kWarpgroups = 2>
struct PairTiles {
  using T = Element;
  static_assert(kQueryGroups == 1 || kQueryGroups == kWarpgroups);
  static constexpr int kBlocks = kBlocksOfCluster;
  static constexpr int kConsumers = kWarpgroups;
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;
  static constexpr int Br = 64 * kQueryGroups;                ///< queries
  static constexpr int kSharers = kConsumers / kQueryGroups;  ///< warpgroups of a block with the same queries
  static constexpr int kKeys = 64 * kSharers;                 ///< of a tile, of which a block has the scores
  static constexpr int Bc = kBlocks * kKeys;                  ///< of a tile
  static constexpr int kCols = kOutputCols;
  static constexpr int kBlockCols = kCols * kSharers;     ///< columns of O and V of a block
  static constexpr int kPartCols = kBlocks * kBlockCols;  ///< of a cluster

  static constexpr int kPanel = 64 * 64;                  ///< elements: 64 rows of 128 bytes
  static constexpr int kKeySlice = kKeys * 64;            ///< elements: 64 columns of the block's keys
  static constexpr int kStep = 16;                        ///< keys of a slice of V
  static constexpr int kValueSlice = kStep * kBlockCols;  ///< elements
  static constexpr int kSlot = kKeySlice > kValueSlice ? kKeySlice : kValueSlice;
  static constexpr int kMostSlots = 16;
  /// How much a maximum may grow before O is rescaled, in powers of 2, as in chapter 07.
  static constexpr float kRescaleThreshold = 8.0f;
};

/// What a launch chooses.
struct PairSizes {
  int panels;  ///< of 64 columns of Q and K
  int slots;   ///< slices of K and V that shared memory has room for, at most kMostSlots
  int parts;   ///< in which the columns of O are computed
};

/// The part of shared memory whose size does not depend on the widths. After it come `slots` slots of
/// Tile::kSlot elements, each with a slice of K or V, and then the panels of Q, in the end those of O.
template <class Tile>
struct __align__(1024) PairMemory {
  using T = typename Tile::T;
  T p[Tile::kBlocks][Tile::kConsumers]
     [Tile::kPanel];  ///< by the block that has computed it, and its warpgroup
  /// A number for each row from each warpgroup with the same queries: by query group, parity, and warpgroup.
  float rows[Tile::Br / 64][2][Tile::kBlocks * Tile::kSharers][64];
  std::uint64_t full[Tile::kMostSlots], empty[Tile::kMostSlots];
  std::uint64_t q_full;
  std::uint64_t rows_full[Tile::Br / 64];
  std::uint64_t p_full[Tile::kConsumers];  ///< the other block's P
  std::uint64_t
      p_free[Tile::kConsumers];  ///< what this warpgroup has stored to p has been read, in both blocks
};

/// Which part of shared memory is what.
template <class Tile>
struct PairBlock {
  using T = typename Tile::T;
  PairMemory<Tile>& fixed;
  T* slots;
  T* q;
  __device__ __forceinline__ PairBlock(unsigned char* smem, const PairSizes& sizes)
      : fixed(*reinterpret_cast<PairMemory<Tile>*>(smem)),
        slots(reinterpret_cast<T*>(smem + sizeof fixed)),
        q(slots + sizes.slots * Tile::kSlot) {}
};

/// The panels of Br rows for which there is room where Q and O lie.
template <class Tile>
constexpr int panels_of_room(int panels_of_q) {
  return panels_of_q > Tile::kBlockCols / 64 ? panels_of_q : Tile::kBlockCols / 64;
}

/// The shared memory of a block.
template <class Tile>
constexpr std::size_t shared_bytes(const PairSizes& sizes) {
  return sizeof(PairMemory<Tile>) +
         sizeof(typename Tile::T) * (std::size_t(sizes.slots) * Tile::kSlot +
                                     std::size_t(panels_of_room<Tile>(sizes.panels)) * Tile::Br * 64);
}

/// With as many slots as fit. At least 4 are needed to keep the copy engine ahead.
template <class Tile>
constexpr PairSizes pair_sizes(int head_dim, int head_dim_v, std::size_t shared_bytes_of_device) {
  PairSizes sizes = {.panels = (head_dim + 63) / 64,
                     .slots = Tile::kMostSlots,
                     .parts = (head_dim_v + Tile::kPartCols - 1) / Tile::kPartCols};
  while (sizes.slots > 0 && shared_bytes<Tile>(sizes) > shared_bytes_of_device) --sizes.slots;
  return sizes;
}

}  // namespace fa::ch12
