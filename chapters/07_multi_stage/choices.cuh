/// @file
/// What the variants of chapter 07 choose: tiles, and which tricks the kernel uses.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

#include "device/swizzle.cuh"

namespace fa::ch07 {

/// How the kernel cuts the problem, and which tricks it uses. A policy derives from it and replaces what it wants.
///
/// Gains: how much faster it makes the variant that adds it, or `final`, on an H100 with 4096 keys, for head_dim 64 / 128
/// (/ 256). docs/results/attention_h100.json and pipeline_choices_h100.json.
struct TileChoices {
  static constexpr int kWarps = 4;  ///< one for each scheduler of a multiprocessor
  /// Queries of a warp: a fragment of K or V feeds kWarpRows / 16 mma. 32 in place of 16: 12 % / 21 %.
  static constexpr int kWarpRows = 32;
  static constexpr int Bc = 64;      ///< keys of a tile: loaded together, with one barrier
  static constexpr int kSlice = 64;  ///< keys of a softmax step: their scores are in registers
  static constexpr int kStages = 2;  ///< tiles of K and of V in shared memory. 2 in place of 1: 5 % / 13 %
  /// With one stage: V flies during Q K^T, the next K during P V. 3 % / 9 %.
  static constexpr bool kSplitKv = false;
  /// The next ldmatrix stands before the mma of this fragment. Nothing: the compiler does it.
  static constexpr bool kFragmentDoubleBuffer = false;
  /// Keys are walked backwards. Tiles with hidden keys come first, in a loop of their own. 1 % / 8 %; in `final`
  /// 16 % / 14 %.
  static constexpr bool kMaskedFirst = true;
  /// Under a causal mask, the blocks with the most keys begin first. 4 % / 9 % / 13 %.
  static constexpr bool kLongestFirst = true;
  static constexpr bool kKeepQ =
      false;                         ///< Q stays in registers; else each slice loads it again. For 64: 3 %
  static constexpr int kBlocks = 2;  ///< that share a multiprocessor and its registers
  /// Growth of a maximum that leaves O as it is, in powers of 2. 19 % / 8 % / 5 % against a rescale for each slice.
  static constexpr float kSlack = 8.0f;
  static constexpr int kCachedBytes = 16 << 20;  ///< of K and V that blocks in flight may use, to hit L2
};

/// The steps on the way, from the tiles of chapter 06: each replaces one choice of another.
template <int d>
struct Ladder {
  struct OneStage : TileChoices {
    static constexpr int kWarps = 8, kWarpRows = 16, kStages = 1, kBlocks = d <= 64 ? 2 : 1;
    static constexpr bool kKeepQ = true, kMaskedFirst = false, kLongestFirst = false;
    static constexpr float kSlack = -INFINITY;  // rescales in every step
  };
  struct TwoStages : OneStage {
    static constexpr int kStages = 2;
  };
  struct ThreeStages : OneStage {
    static constexpr int kStages = 3;
  };
  struct SplitKv : OneStage {
    static constexpr bool kSplitKv = true;
  };
  struct FragmentDoubleBuffer : TwoStages {
    static constexpr bool kFragmentDoubleBuffer = true;
  };
  struct MaskedFirst : TwoStages {
    static constexpr bool kMaskedFirst = true;
  };
  struct TwoRowsOfMma : MaskedFirst {  // for 128, O takes 128 registers and S 64: no place for 64 of Q
    static constexpr int kWarps = 4, kWarpRows = 32, kBlocks = 2;
    static constexpr bool kKeepQ = d <= 64;
  };
};

/// The choices that were fastest on an H100 and an H200, but for head_dim 32, which was not measured.
template <int d>
struct FinalChoices : TileChoices {};
template <>
struct FinalChoices<64> : TileChoices {  // O takes 64 registers, Q and S 32 each
  static constexpr int Bc = 128, kSlice = 32;
  static constexpr bool kKeepQ = true;
};
template <>
struct FinalChoices<32> : FinalChoices<64> {};
template <>
struct FinalChoices<256> : TileChoices {  // O takes 128 registers for 16 rows
  static constexpr int kWarpRows = 16, Bc = 32, kSlice = 32;
  /// Where a block may have 192 KiB: one block for two of the above, so that K and V come from L2 half as often. 5 %.
  struct WhereItFits : TileChoices {
    static constexpr int kWarps = 8, kWarpRows = 16, kBlocks = 1;
  };
};

/// What follows from the choices.
template <class Element, int kHeadDimension, class Choices = FinalChoices<kHeadDimension>>
struct MultiStageTiles : Choices {
  using T = Element;
  using Rows = Swizzled<kHeadDimension>;
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr int Br = Choices::kWarps * Choices::kWarpRows;
  static constexpr int kThreads = 32 * Choices::kWarps;
  static constexpr int kRowTiles = Choices::kWarpRows / 16;  ///< fragments of a warp, from top to bottom
  static constexpr int kLaneRows = 2 * kRowTiles;  ///< rows of which a lane has elements: lane / 4 + 8 * i
  static constexpr int kAhead = Choices::kStages - 1;   ///< tiles on their way while one is in use
  static constexpr int kTile = Choices::Bc * kHeadDim;  ///< elements of shared memory
  static constexpr int kSharedBytes = int(sizeof(T)) * (Br * kHeadDim + 2 * Choices::kStages * kTile);
  /// The place behind a place, which is 0 behind the last. The two forms differ in registers only.
  static constexpr __host__ __device__ int behind(int place) {
    if constexpr (Choices::kMaskedFirst) return (place + 1) % Choices::kStages;
    return place + 1 == Choices::kStages ? 0 : place + 1;
  }
  static_assert(!Choices::kSplitKv || (kAhead == 0 && Choices::kSlice == Choices::Bc));
};

}  // namespace fa::ch07
