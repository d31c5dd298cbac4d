/// @file
/// What each variant of chapter 07 chooses: its sizes, and the order of its blocks.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

#include "block.cuh"
#include "device/swizzle.cuh"

namespace fa::ch07 {

/// How a kernel divides the problem. Each variant derives from this and overrides some of the numbers.
///
/// Percentages say how much faster a choice makes `final`, or the variant that introduces it, on an H100 with
/// 4096 keys, for head_dim 64 / 128 (/ 256). From docs/results/attention_h100.json and
/// pipeline_choices_h100.json.
struct TileChoices {
  static constexpr int kWarps = 4;  ///< one for each of a multiprocessor's schedulers
  /// Queries per warp. Each fragment of K or V feeds kWarpRows / 16 mma. 32 instead of 16: 11 % / 20 %.
  static constexpr int kWarpRows = 32;
  static constexpr int Bc = 64;      ///< keys per tile, loaded together and with one barrier
  static constexpr int kSlice = 64;  ///< keys per softmax step; their scores are in registers
  static constexpr int kStages = 2;  ///< tiles of K and of V in shared memory. 2 instead of 1: 5 % / 13 %
  /// Whether Q stays in registers. If not, it is loaded again for each slice. Gains 3 % for head_dim 64.
  static constexpr bool kQInRegisters = false;
  static constexpr int kBlocksPerSm = 2;  ///< blocks that share a multiprocessor and its registers
  /// How much a maximum may grow before O is rescaled, in powers of 2. 8 instead of -inf: 19 % / 8 % / 5 %.
  static constexpr float kRescaleThreshold = 8.0f;
  /// Under a causal mask, the blocks with the most keys start first: 4 % / 9 % / 13 %. 16 MiB of K and V stay
  /// in L2.
  using Order = LongestFirst<16 << 20>;
};

/// The steps that lead from the tiles of chapter 06 to `final`. Each changes what one idea needs, or passes
/// the tiles of another step to another kernel.
template <int d>
struct Ladder {
  struct OneStage : TileChoices {
    static constexpr int kWarps = 8, kWarpRows = 16, kStages = 1, kBlocksPerSm = d <= 64 ? 2 : 1;
    static constexpr bool kQInRegisters = true;
    static constexpr float kRescaleThreshold = -INFINITY;  // rescales in every step
    using Order = HeadAfterHead;
  };
  struct TwoStages : OneStage {
    static constexpr int kStages = 2;
  };
  struct ThreeStages : OneStage {
    static constexpr int kStages = 3;
  };
  struct MaskedFirst : TwoStages {};
  struct TwoRowsOfMma : MaskedFirst {  // for d = 128, O takes 128 registers and S 64: no room for the 64 of Q
    static constexpr int kWarps = 4, kWarpRows = 32, kBlocksPerSm = 2;
    static constexpr bool kQInRegisters = d <= 64;
  };
};

/// The choices that were fastest on an H100 and an H200; for head_dim 96 and 192 see
/// docs/results/choices_h200.json. That for head_dim 32 was not measured.
template <int d>
struct FinalChoices : TileChoices {};
template <>
struct FinalChoices<64> : TileChoices {  // O takes 64 registers, Q and S 32 each
  static constexpr int Bc = 128, kSlice = 32;
  static constexpr bool kQInRegisters = true;
};
template <>
struct FinalChoices<32> : FinalChoices<64> {};
template <>
struct FinalChoices<256> : TileChoices {  // O takes 128 registers for 16 rows
  static constexpr int kWarpRows = 16, Bc = 32, kSlice = 32;
  /// For devices on which a block may have 192 KiB: one block with twice the queries instead of two of the
  /// above, so that K and V come from L2 half as often. 5 %.
  struct WhereItFits : TileChoices {
    static constexpr int kWarps = 8, kWarpRows = 16, kBlocksPerSm = 1;
  };
};

template <>
struct FinalChoices<192> : FinalChoices<256> {};

/// What follows from the choices.
///
/// @tparam kDenseKeys  whether the rows of K and V follow each other and have kHeadDimension elements
template <class Element, int kHeadDimension, class Choices = FinalChoices<kHeadDimension>,
          bool kDenseKeys = false>
struct MultiStageTiles : Choices {
  using T = Element;
  static constexpr bool kDense = kDenseKeys;
  using Rows = Swizzled<kHeadDimension>;
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr int Br = Choices::kWarps * Choices::kWarpRows;
  static constexpr int kThreads = 32 * Choices::kWarps;
  static constexpr int kRowTiles = Choices::kWarpRows / 16;  ///< fragments from top to bottom of a warp
  static constexpr int kLaneRows = 2 * kRowTiles;  ///< rows in which a lane has elements: lane / 4 + 8 * i
  static constexpr int kTile = Choices::Bc * kHeadDim;  ///< elements in a tile of K or of V
  static constexpr int kRowsInShared = Br + 2 * Choices::kStages * Choices::Bc;  ///< of Q, K and V
  static constexpr int kSharedBytes = int(sizeof(T)) * kRowsInShared * kHeadDim;
};

}  // namespace fa::ch07
