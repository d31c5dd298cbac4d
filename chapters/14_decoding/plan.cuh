/// @file
/// The plan: which block multiplies which keys. Kernels and formulas use the same functions.
///
/// The keys of a head are divided into granules, the tiles of a warp or of a warpgroup. Granules are numbered
/// through all heads of the first sequence, then through those of the second, and so on. Neighbouring
/// granules have the same block, and all blocks have the same number of them, give or take one.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "device/reduce.cuh"

namespace fa::ch14 {

/// The granules of a call and the blocks that share them.
struct Granules {
  const std::int32_t* key_lengths;  ///< [batch]; null: seq_k each
  int batch, heads;                 ///< heads of a sequence: heads_of_work()
  int seq_k;
  int keys;    ///< of a granule
  int blocks;  ///< that share them; at most as many as there are granules have any

  __host__ __device__ int length(int of_batch) const {
    return key_lengths == nullptr ? seq_k : key_lengths[of_batch];
  }
  /// The granules of one head.
  __host__ __device__ int of_length(int length) const { return (length + keys - 1) / keys; }
};

/// How granules are divided among `blocks`, each of which has at least one: the first `longer` blocks have
/// `each` + 1 granules, the others `each`.
struct Division {
  int blocks, each, longer;

  __host__ __device__ static Division of(int total, int at_most) {
    const int blocks = total < at_most ? total : at_most, each = blocks == 0 ? 0 : total / blocks;
    return {blocks, each, total - each * blocks};
  }
  /// The first granule of a block.
  __host__ __device__ int first(int block) const { return block * each + (block < longer ? block : longer); }
  /// The block that has a granule.
  __host__ __device__ int block_of(int granule) const {
    // EXERCISE 4: Which block has the granule? first() says where the granules of each block begin.
    const int of_longer = longer * (each + 1);  // granules of the longer blocks
    return granule < of_longer ? granule / (each + 1) : longer + (granule - of_longer) / each;
    // END 4
  }
};

/// Where a granule lies.
struct Place {
  int batch, head;
  int tile;    ///< of the head's keys
  int length;  ///< of the sequence

  /// Moves on by a number of granules, which must exist.
  __device__ __forceinline__ void advance(const Granules& of, int granules) {
    tile += granules;
    while (tile >= of.of_length(length)) {
      tile -= of.of_length(length);
      if (++head == of.heads) {
        head = 0;
        length = of.length(++batch);
      }
    }
  }
};

/// The share of a block: granules first to end - 1, beginning at a place.
struct Share {
  Division division;
  int block, first, end;
  Place place;
};

/// All granules; the same in every lane. Each warp adds up the lengths itself: that takes about a
/// microsecond for some hundred sequences, less than a launch of a kernel that does it once for all.
__device__ __forceinline__ int count_granules(const Granules& of) {
  if (of.key_lengths == nullptr) return of.batch * of.heads * of.of_length(of.seq_k);
  int sum = 0;
  for (int b = threadIdx.x % 32; b < of.batch; b += 32) sum += of.of_length(of.key_lengths[b]);
  for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(kAllLanes, sum, mask);
  return of.heads * sum;
}

/// Where granule number `granule` lies. All lanes of a warp find it together.
__device__ __forceinline__ Place find(const Granules& of, int granule) {
  if (of.key_lengths == nullptr) {
    const int tiles = of.of_length(of.seq_k), head = granule / tiles;
    return {head / of.heads, head % of.heads, granule % tiles, of.seq_k};
  }
  const int lane = threadIdx.x % 32;
  int before = 0;  // granules of the sequences before the 32 that the lanes look at
  for (int first = 0;; first += 32) {
    const int length = first + lane < of.batch ? of.key_lengths[first + lane] : 0;
    const int own = of.heads * of.of_length(length);
    int up_to = own;  // granules of the sequences up to this lane's
    for (int distance = 1; distance < 32; distance *= 2) {
      const int other = __shfl_up_sync(kAllLanes, up_to, distance);
      if (lane >= distance) up_to += other;
    }
    const unsigned beyond = __ballot_sync(kAllLanes, before + up_to > granule);
    if (beyond != 0 || first + 32 >= of.batch) {
      const int source = beyond != 0 ? __ffs(int(beyond)) - 1 : 31;
      const int in_sequence = granule - before - __shfl_sync(kAllLanes, up_to - own, source);
      const int of_source = __shfl_sync(kAllLanes, length, source), tiles = max(of.of_length(of_source), 1);
      return {first + source, in_sequence / tiles, in_sequence % tiles, of_source};
    }
    before += __shfl_sync(kAllLanes, up_to, 31);
  }
}

/// The share of a block; empty if there are fewer granules than blocks and this is one too many.
__device__ __forceinline__ Share share_of(const Granules& of, int block) {
  const Division division = Division::of(count_granules(of), of.blocks);
  if (block >= division.blocks) return {division, block, 0, 0, {}};
  const int first = division.first(block);
  return {division, block, first, division.first(block + 1), find(of, first)};
}

/// The parts of one head's keys that blocks leave in HBM for a merge. A block has room for two: it may begin
/// in the middle of a head (its part 0) and end in the middle of another (its part 1). The first part of a
/// head is the last one of its block; each of the others begins a block.
struct Parts {
  int first_block, count;

  /// @param granule, tiles  the head's first granule, and how many it has
  __host__ __device__ static Parts of(const Division& division, int granule, int tiles) {
    const int first = division.block_of(granule);
    return {first, division.block_of(granule + tiles - 1) - first + 1};
  }
  /// The number of part i.
  __host__ __device__ int slot(int i) const { return 2 * (first_block + i) + (i == 0 ? 1 : 0); }
};

// --- how many blocks ---------------------------------------------------------------------------------------

/// How many blocks share the keys, if all sequences have the same length: a multiple or a divisor of the
/// units, so that all blocks have the same work and none is left for a second wave.
///
/// @param units  heads of work of all sequences     @param room  the blocks that run at the same time
inline int blocks_of_equal_units(int units, int room) {
  if (units <= room) return room / units * units;
  // each block has `each` whole units; the last wave must not be much emptier than the others
  int blocks = room;
  while (units % blocks != 0 && blocks > room * 9 / 10) --blocks;
  return units % blocks == 0 ? blocks : room;
}

/// The blocks of a call. @param splits  blocks for each unit, on average; 0: as many as run at the same time
inline int blocks_of(int units, bool equal_lengths, int room, int splits) {
  if (splits > 0) return splits * units;
  return equal_lengths ? blocks_of_equal_units(units, room) : room;
}

}  // namespace fa::ch14
