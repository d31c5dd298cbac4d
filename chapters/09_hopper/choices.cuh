/// @file
/// What each variant of chapter 09 chooses: its sizes.
#pragma once

#include <cuda_runtime.h>

namespace fa::ch09 {

template <int d>
struct FinalChoices;
template <>
struct FinalChoices<64> {
  static constexpr int kConsumers = 3, Bc = 128, kStages = 2, kQueryBuffers = 2;
  static constexpr int kConsumerRegisters = 160, kProducerRegisters = 32;
};
template <>
struct FinalChoices<128> {
  static constexpr int kConsumers = 2, Bc = 128, kStages = 2, kQueryBuffers = 2;
  static constexpr int kConsumerRegisters = 232, kProducerRegisters = 40;
};
template <>
struct FinalChoices<256> {
  static constexpr int kConsumers = 2, Bc = 64, kStages = 2, kQueryBuffers = 1;
  static constexpr int kConsumerRegisters = 232, kProducerRegisters = 40;
};

/// What follows from the choices.
template <class Element, int kHeadDimension, class Choices = FinalChoices<kHeadDimension>>
struct HopperTiles : Choices {
  using T = Element;
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr int kPanels = kHeadDim / 64;  ///< a TMA box with this swizzle has 128 bytes to a row
  static constexpr int Br = 64 * Choices::kConsumers;
  static constexpr int kThreads = 128 * (Choices::kConsumers + 1);
};

/// Shared memory of a block. Tiles are panels of 64 columns, one after the other: [panel][row][64], swizzled.
template <class Tile>
struct __align__(1024) SharedTiles {
  using T = typename Tile::T;
  T q[Tile::kQueryBuffers][Tile::Br * Tile::kHeadDim];  ///< queries, then O
  T k[Tile::kStages][Tile::Bc * Tile::kHeadDim];
  T v[Tile::kStages][Tile::Bc * Tile::kHeadDim];
  std::uint64_t q_full[Tile::kQueryBuffers], q_empty[Tile::kQueryBuffers];
  std::uint64_t k_full[Tile::kStages], k_empty[Tile::kStages];
  std::uint64_t v_full[Tile::kStages], v_empty[Tile::kStages];
  int tile[Tile::kQueryBuffers];
};

}  // namespace fa::ch09
