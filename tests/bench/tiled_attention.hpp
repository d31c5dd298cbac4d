/// @file
/// The kernel that measures the simulator's speed: tiled fp32 attention. tiled_attention.cl is the same in
/// OpenCL.
#pragma once

#include <cstdint>

namespace fa::bench {

constexpr int kHeads = 2;
constexpr int kSeq = 256;  ///< queries, and keys
constexpr int kHeadDim = 64;
constexpr int kThreads = 128;     ///< a block: four warps
constexpr int kBr = 32;           ///< query rows of a tile: 8 for each warp
constexpr int kBc = 32;           ///< keys of a tile: one for each lane
constexpr float kScale = 0.125f;  ///< 1 / sqrt(kHeadDim)

constexpr std::int64_t kElements = std::int64_t(kHeads) * kSeq * kHeadDim;  ///< of Q, K, V and O each

/// How often threads read or write a float of global or shared memory, in total.
constexpr std::int64_t memory_accesses() {
  constexpr std::int64_t tile = kBc * kHeadDim;
  constexpr std::int64_t load_keys_values = 2 * 2 * tile;
  constexpr std::int64_t scores = kBr * kBc * (2 * kHeadDim + 1);
  constexpr std::int64_t softmax = kBr * (3 * kBc + 1);
  constexpr std::int64_t rescale = kBr * 32;
  constexpr std::int64_t accumulate = kBr * 32 * kBc * 3;
  constexpr std::int64_t key_tile = load_keys_values + scores + softmax + rescale + accumulate;
  constexpr std::int64_t load_queries = 2 * kBr * kHeadDim;
  constexpr std::int64_t write_output = kBr + kBr * 32 + kBr * kHeadDim;
  return kHeads * (kSeq / kBr) * (load_queries + kSeq / kBc * key_tile + write_output);
}

/// O = softmax(Q K^T * kScale) V; all of them [kHeads, kSeq, kHeadDim] in device memory.
void run_tiled_attention(const float* q, const float* k, const float* v, float* o);

}  // namespace fa::bench
