/// @file
/// What a pair of blocks has of the backward pass: its tensors, its tiles, and the shared memory of a block.
/// backward_pair.cuh has the kernels.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "09_hopper/copies.cuh"
#include "device/attention.cuh"

namespace fa::ch12 {

using ch09::TensorMap;

/// What the backward pass adds to Attention.
template <class T>
struct PairBackward : Attention<T> {
  const T* d_o;
  T* dq;
  float* log2_sum;  ///< [batch, heads, padded_queries]: LSE * log2 e, or +inf
  float* delta;     ///< [batch, heads, padded_queries]: D = rowsum(dO * O)
  float* dq_sum;    ///< [batch, heads, padded_queries / 64, panels of dQ, 64 * 64]: in the order of registers
  int padded_queries;
  Strides do_strides, dq_strides;
};

/// @tparam kGradientCols  columns of dK or dV of a warpgroup: half of those of its block
template <class Element, int kGradientCols>
struct BackwardTiles {
  using T = Element;
  static constexpr int kConsumers = 2;
  static constexpr int kThreads = 128 * (1 + kConsumers);
  static constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;
  static constexpr int Br = 128;  ///< queries of a step: 64 for each consumer
  static constexpr int Bc = 64;   ///< keys of a pair
  static constexpr int kCols = kGradientCols;
  static constexpr int kBlockCols = 2 * kCols;
  static constexpr int kPanel = 64 * 64;  ///< elements
  static constexpr int kStep = 16;        ///< queries of a slice of `summed`
  static constexpr int kSlot = Br * 64 > kStep* kBlockCols ? Br * 64 : kStep* kBlockCols;
  static constexpr int kMostSlots = 16;
};

/// The tensors of one of the two blocks.
struct BackwardMaps {
  TensorMap resident[2];  ///< K, V: 64 keys
  TensorMap scored[2];    ///< Q, dO: 128 queries, 64 columns at a time
  TensorMap summed[2];    ///< dO, Q: 16 queries, all columns
  TensorMap gradient[2];  ///< dV, dK: 16 keys
};
struct BackwardSizes {
  int panels[2];  ///< of 64 columns, of K and Q, of V and dO
  int slots;
};

template <class Tile>
struct __align__(1024) BackwardMemory {
  using T = typename Tile::T;
  T own[Tile::kConsumers]
       [Tile::kPanel];  ///< P^T or dS^T, which this block has computed: 64 keys, 64 queries of each consumer
  T received[Tile::kConsumers][Tile::kPanel];  ///< dS^T or P^T, from the other block
  T k[Tile::kCols / 64][Tile::kPanel];         ///< the columns of K of this block's half of dQ
  float rows[Tile::Br];                        ///< of the step's queries: log2_sum or delta
  std::uint64_t full[Tile::kMostSlots], empty[Tile::kMostSlots];
  std::uint64_t resident_full, rows_full, rows_empty;
  std::uint64_t received_full[Tile::kConsumers];
  std::uint64_t own_free[Tile::kConsumers];  ///< `own` has been read, and its copy in the other block
};

template <class Tile>
constexpr int panels_of_resident(const BackwardSizes& sizes) {
  int most = Tile::kBlockCols / 64;  // dK or dV, in the end
  for (const int panels : sizes.panels) most = panels > most ? panels : most;
  return most;
}
template <class Tile>
constexpr std::size_t backward_shared_bytes(const BackwardSizes& sizes) {
  return sizeof(BackwardMemory<Tile>) +
         sizeof(typename Tile::T) * (std::size_t(panels_of_resident<Tile>(sizes)) * Tile::kPanel +
                                     std::size_t(sizes.slots) * Tile::kSlot);
}
template <class Tile>
constexpr BackwardSizes backward_sizes(int head_dim, int head_dim_v, std::size_t shared_bytes_of_device) {
  BackwardSizes sizes = {{(head_dim + 63) / 64, (head_dim_v + 63) / 64}, Tile::kMostSlots};
  while (sizes.slots > 0 && backward_shared_bytes<Tile>(sizes) > shared_bytes_of_device) --sizes.slots;
  return sizes;
}

}  // namespace fa::ch12
