/// @file
/// From the arguments of a call to the launches of a variant.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "attention/decoding_attention.hpp"
#include "attention/launch.hpp"
#include "cp_async_ring.cuh"
#include "decoding.cuh"
#include "device/launch.cuh"
#include "kernel.cuh"
#include "launches.hpp"
#include "merge.cuh"
#include "plan.cuh"
#include "ring.cuh"
#include "staged.cuh"
#include "tensor_maps.cuh"

namespace fa::ch14 {

/// What the kernels are compiled for.
struct Sizes {
  static constexpr std::array kHeadDims = {64, 128, 256};
  static constexpr std::array kTypes = {DType::kFloat16, DType::kBFloat16};
};

// --- the parameters of kernels -----------------------------------------------------------------------------

template <class T>
Decoding<T> decoding(const DecodingAttention::Args& a) {
  return {.q = a.buffer<T>("q"),
          .o = a.buffer<T>("o"),
          .lse = a.buffer<float>("lse"),
          .key_lengths = a.key_lengths,
          .batch = a.batch,
          .kv_heads = a.kv_heads,
          .rows = a.heads / a.kv_heads * a.seq_q,
          .seq_q = a.seq_q,
          .seq_k = a.seq_k,
          .exp2_scale = a.scale * kLog2e,
          .k_scale = a.k_scale,
          .v_scale = a.v_scale};
}

template <class Tile>
Granules granules_of(const Decoding<typename Tile::T>& a, int blocks) {
  return {a.key_lengths, a.batch, heads_of_work<Tile::kRows>(a), a.seq_k, Tile::kKeys, blocks};
}

template <class Element>
CachePointers<Element> cache_pointers(const DecodingAttention::Args& a, int heads_that_share) {
  const bool paged = a.block_table != nullptr;
  return {a.buffer<Element>("k"),
          a.buffer<Element>("v"),
          a.kv_heads,
          paged ? a.page_size : a.seq_k,
          a.block_table,
          a.table_columns,
          paged ? std::countr_zero(unsigned(a.page_size)) : 0,
          heads_that_share};
}

template <class Tile>
CacheMaps cache_maps(const DecodingAttention::Args& a) {
  const bool paged = a.block_table != nullptr;
  const CacheShape shape = {paged ? a.pages : a.batch, a.kv_heads, paged ? a.page_size : a.seq_k};
  const int keys = box_keys<Tile>(paged ? a.page_size : 0);
  return {cache_map<Tile>(a.buffer<void>("k"), shape, keys),
          cache_map<Tile>(a.buffer<void>("v"), shape, keys), keys};
}

inline Workspace workspace(const DecodingAttention::Args& a) {
  return {a.buffer<float>("part_o"), a.buffer<RowState>("part_state"),
          a.buffers.contains("counters") ? a.buffer<std::uint32_t>("counters") : nullptr};
}

// --- which tiles, how many blocks --------------------------------------------------------------------------

/// The rows of Q of a warp's tile: 8, or 16 if registers have room for them.
constexpr int warp_rows(int rows, int d) { return rows <= 8 || d == 256 ? 8 : 16; }

/// Whether the last block to finish merges the parts in launch_fastest().
template <class Tile>
constexpr bool merges_itself() {
  return Tile::kRows <= 16;
}

/// Calls f with the tiles for so many rows: of warps, and beyond what these can take at once of warpgroups.
template <class T, int d, class F>
auto with_tiles_of_rows(int rows, const F& f) {
  if (rows <= 8) return f(std::type_identity<WarpTile<T, T, d, 8>>());
  if constexpr (d < 256) {
    if (rows <= 16) return f(std::type_identity<WarpTile<T, T, d, 16>>());
  }
  return f(std::type_identity<WarpgroupTile<T, d>>());
}
/// The same with tiles of warps only. @tparam TileOf  TileOf<rows>
template <int d, template <int> class TileOf, class F>
auto with_warp_tiles(int rows, const F& f) {
  if constexpr (d < 256) {
    if (warp_rows(rows, d) == 16) return f(std::type_identity<TileOf<16>>());
  }
  return f(std::type_identity<TileOf<8>>());
}

/// The blocks of a kernel that run at the same time.
template <class Tile>
int room() {
  constexpr int kReserved = 1024;  // CUDA's own share of a block's shared memory
  int device = 0, per_multiprocessor = 0;
  FA_CUDA_CHECK(cudaGetDevice(&device));
  FA_CUDA_CHECK(
      cudaDeviceGetAttribute(&per_multiprocessor, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device));
  const int each = per_multiprocessor / (int(sizeof(SharedTiles<Tile>)) + kReserved);
  return multiprocessors() * std::max(1, std::min(each, 512 / Tile::kThreads));
}

/// The parts into which a kernel divides the keys of each head: in the longest one, each has a tile.
template <class Tile>
int splits_of(const Granules& granules, int splits) {
  if (splits > 0) return splits;
  return std::clamp(room<Tile>() / (granules.batch * granules.heads), 1, granules.of_length(granules.seq_k));
}

template <class Tile>
Granules balanced_granules(const Decoding<typename Tile::T>& a, int splits) {
  Granules granules = granules_of<Tile>(a, 0);
  granules.blocks =
      blocks_of(granules.batch * granules.heads, a.key_lengths == nullptr, room<Tile>(), splits);
  return granules;
}

// --- launches that variants share --------------------------------------------------------------------------

template <class Tile>
void launch_merge_splits(const Decoding<typename Tile::T>& a, const Granules& granules,
                         const Workspace& workspace, int splits, cudaStream_t stream) {
  constexpr int kRows = Tile::kRows, d = Tile::kHeadDim;
  launch(merge_splits<kRows, d, typename Tile::T>,
         unsigned(granules.batch * granules.heads) * blocks_for(kRows * d / 4, 128), 128, 0, stream, a,
         granules, workspace, splits);
}

template <class T, int d>
struct Staged {
  template <int kRows>
  using Tile = StagedTile<T, d, kRows>;
};
template <class T, int d>
struct CpAsync {
  template <int kRows>
  using Tile = CpAsyncTile<T, d, kRows>;
};
template <class T, int d>
struct Fp8Tiles {
  template <int kRows>
  using Tile = WarpTile<T, Fp8, d, kRows>;
};

/// one_kernel_decoding() with a ring and a cache.
template <class Tile, template <class, class> class Ring, class Cache>
void launch_merging(const DecodingAttention::Args& args, const Cache& cache, cudaStream_t stream) {
  const auto a = decoding<typename Tile::T>(args);
  const Granules granules = balanced_granules<Tile>(a, args.splits);
  launch(one_kernel_decoding<Tile, Ring, Cache>, unsigned(granules.blocks), Tile::kThreads,
         sizeof(SharedTiles<Tile>), stream, a, granules, cache, workspace(args));
}

/// The fastest schedule of each tile, with launches that begin early. One block takes long to merge the parts
/// of 64 rows, while the others are idle: a second kernel is faster then.
template <class Tile, class Cache>
void launch_fastest(const DecodingAttention::Args& args, const Cache& cache, cudaStream_t stream) {
  using T = typename Tile::T;
  const auto a = decoding<T>(args);
  const Granules granules = balanced_granules<Tile>(a, args.splits);
  if constexpr (merges_itself<Tile>()) {
    launch_early(one_kernel_decoding<Tile, Ring, Cache>, unsigned(granules.blocks), Tile::kThreads,
                 sizeof(SharedTiles<Tile>), stream, a, granules, cache, workspace(args));
  } else {
    launch_early(balanced_decoding<Tile, Ring, Cache>, unsigned(granules.blocks), Tile::kThreads,
                 sizeof(SharedTiles<Tile>), stream, a, granules, cache, workspace(args));
    launch_early(
        merge_balanced<Tile::kRows, Tile::kHeadDim, T>,
        unsigned(granules.batch * granules.heads) * blocks_for(Tile::kRows * Tile::kHeadDim / 4, 128), 128, 0,
        stream, a, granules, workspace(args));
  }
}

/// The cache of a call with a block table.
template <class Tile>
Paged paged_cache(const DecodingAttention::Args& a) {
  return {cache_maps<Tile>(a), a.block_table, a.table_columns, std::countr_zero(unsigned(a.page_size))};
}

// --- the workspace -----------------------------------------------------------------------------------------

/// Sets the counters to zero; every call leaves them so.
inline void zero_counters(const DecodingAttention::Args& a, cudaStream_t stream, std::size_t count) {
  FA_CUDA_CHECK(cudaMemsetAsync(a.buffer<int>("counters"), 0, count * sizeof(int), stream));
}

}  // namespace fa::ch14
