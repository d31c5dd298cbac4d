/// @file
/// Decoding with private rings: `in_flight`, `balanced` and `one_kernel`, and with other caches `paged`,
/// `fp8_cache` and, with other copies, `ampere`.
///
/// Q and O are [batch, heads, seq_q, d], LSE is [batch, heads, seq_q] in fp32; K and V are [batch, kv_heads,
/// seq_k, d], or in pages [pages, kv_heads, page_size, d]. The queries are the last ones of each sequence.
/// Nothing that follows a sequence's last key reaches O, not even NaN. A sequence without keys has O = 0 and
/// LSE = -inf.
///
/// All of them have
///
///   block   Tile::kThreads: kWorkers workers, each of which takes every kWorkers-th tile of its block
///   shared  sizeof(SharedTiles<Tile>): a ring of kStages tiles of K and V for each worker; O of each worker
///   HBM     each worker reads Q of its unit; K and V once for each kRows rows of Q, in boxes of box_keys
///           tokens, of which the last may go beyond the sequence; writes O and LSE
///
/// and what they add is written at each. plan.cuh says which block has which keys.
///
/// If launches allow it, a kernel begins while the one before it in the stream still runs. That one may write
/// Q, the lengths, and the keys and values of the last seq_q tokens of each sequence, but neither other keys
/// and values nor the table of pages: their copies begin early.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "decoding.cuh"
#include "device/begin_early.cuh"
#include "merge.cuh"
#include "plan.cuh"
#include "tiles.cuh"
#include "workers.cuh"

namespace fa::ch14 {

/// The tiles of a worker among `tiles` of its block.
template <class Tile>
__device__ __forceinline__ int tiles_of_worker(int tiles) {
  return (tiles - worker_index<Tile>() + Tile::kWorkers - 1) / Tile::kWorkers;
}

/// The ring of a worker, with copies in flight to all stages.
/// @param place  of the block's first tile     @param tiles  how many the block has
/// @param new_keys  keys at the end of each sequence that the kernel before this one may have written
template <class Tile, template <class, class> class Ring, class Cache>
__device__ __forceinline__ Ring<Tile, Cache> start_ring(SharedTiles<Tile>& s, const Cache& cache,
                                                        const Granules& granules, int row_tiles, Place place,
                                                        int tiles, int new_keys) {
  const int own = tiles_of_worker<Tile>(tiles);
  if (own > 0) place.advance(granules, worker_index<Tile>());
  Ring<Tile, Cache> ring(s, cache, granules, row_tiles, place, own);
  ring.fill(new_keys);
  begin_early<Tile::kByTma>();
  sync_worker<Tile>();  // its barriers are initialised
  return ring;
}

/// A block has the tiles of one head, or a part of them: split i of `splits` has tiles i * tiles / splits to
/// (i + 1) * tiles / splits - 1. A second kernel merges the parts.
///
///   grid    splits * batch * heads_of_work(), the splits of a head next to one another
///   HBM     writes O and RowState of each part: splits * rows * (d + 2) * 4 bytes per head
template <class Tile, template <class, class> class Ring, class Cache>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    in_flight_decoding(Decoding<typename Tile::T> a, Granules granules, const __grid_constant__ Cache cache,
                       Workspace workspace, int splits) {
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& s = *reinterpret_cast<SharedTiles<Tile>*>(smem);
  declare_members(s);
  if (granules.key_lengths != nullptr) begin_early<Tile::kByTma>();
  const int head = blockIdx.x / splits, split = blockIdx.x % splits;
  const int batch = head / granules.heads, length = a.length(batch);
  const int tiles = granules.of_length(length);
  const int first = int(std::int64_t(split) * tiles / splits);
  const int count = int((std::int64_t(split) + 1) * tiles / splits) - first;
  const Unit unit = unit_of<Tile::kRows>(a, batch, head % granules.heads, length);

  auto ring = start_ring<Tile, Ring>(s, cache, granules, granules.heads / a.kv_heads,
                                     {batch, head % granules.heads, first, length}, count, a.seq_q);
  Worker<Tile> worker(a, unit, s);
  for (int tile = worker_index<Tile>(); tile < count; tile += Tile::kWorkers) {
    worker.multiply(ring.wait(), a, unit, (first + tile) * Tile::kKeys);
    sync_worker<Tile>();  // all its threads have read the tile
    ring.release();
  }
  worker.store(s);
  __syncthreads();  // every worker has stored its O
  merge_workers<Tile>(s, unit.rows, [&](int row, int col, const Piece& piece) {
    store_part<Tile>(workspace, blockIdx.x, row, col, piece);
  });
}

/// The second kernel of in_flight_decoding() and of split_keys.
///
///   grid    batch * heads_of_work() * ceil(kRows * d / 4 / 128)
///   block   128: a thread has four columns of a row
///   HBM     reads the parts, writes O and LSE
template <int kRows, int d, class T>
__global__ void __launch_bounds__(128)
    merge_splits(Decoding<T> a, Granules granules, Workspace workspace, int splits) {
  constexpr int kBlocks = (kRows * d / 4 + 127) / 128;
  const int head = blockIdx.x / kBlocks;
  const int n = blockIdx.x % kBlocks * 128 + threadIdx.x, row = n / (d / 4), col = n % (d / 4) * 4;
  const Unit unit = unit_of<kRows>(a, head / granules.heads, head % granules.heads, 0);
  if (row >= unit.rows) return;
  const auto slot = [&](int i) { return head * splits + i; };
  store_result<d>(a, unit.row_in(a) + row, col, merge_parts<kRows, d>(workspace, splits, slot, row, col),
                  value_scale(a, unit));
}

/// Every block has the same number of tiles, wherever heads and sequences begin. If it has all tiles of a
/// head, it stores the result; what it has of other heads, at most two, it leaves for merge_balanced().
///
///   grid    granules.blocks
///   HBM     writes O and RowState of at most two parts per block
template <class Tile, template <class, class> class Ring, class Cache>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    balanced_decoding(Decoding<typename Tile::T> a, Granules granules, const __grid_constant__ Cache cache,
                      Workspace workspace) {
  constexpr int d = Tile::kHeadDim;
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& s = *reinterpret_cast<SharedTiles<Tile>*>(smem);
  declare_members(s);
  if (granules.key_lengths != nullptr) begin_early<Tile::kByTma>();
  const Share share = share_of(granules, blockIdx.x);
  const int count = share.end - share.first;
  auto ring =
      start_ring<Tile, Ring>(s, cache, granules, granules.heads / a.kv_heads, share.place, count, a.seq_q);

  Place place = share.place;
  int next = worker_index<Tile>();  // the worker's next tile, from the block's first
  for (int done = 0; done < count;) {
    const int tiles = granules.of_length(place.length), here = min(tiles - place.tile, count - done);
    const Unit unit = unit_of<Tile::kRows>(a, place.batch, place.head, place.length);
    Worker<Tile> worker(a, unit, s);
    for (; next < done + here; next += Tile::kWorkers) {
      worker.multiply(ring.wait(), a, unit, (place.tile + next - done) * Tile::kKeys);
      sync_worker<Tile>();  // all its threads have read the tile
      ring.release();
    }
    worker.store(s);
    __syncthreads();  // every worker has stored its O
    if (here == tiles) {
      const float scale = value_scale(a, unit);
      merge_workers<Tile>(s, unit.rows, [&](int row, int col, const Piece& piece) {
        store_result<d>(a, unit.row_in(a) + row, col, piece, scale);
      });
    } else {
      const int slot = 2 * blockIdx.x + (place.tile == 0 ? 1 : 0);
      merge_workers<Tile>(s, unit.rows, [&](int row, int col, const Piece& piece) {
        store_part<Tile>(workspace, slot, row, col, piece);
      });
    }
    __syncthreads();  // nobody reads s.o any more
    done += here;
    if (done < count) place.advance(granules, here);
  }
  store_empty_sequences<Tile::kThreads, d>(a);
}

/// The second kernel of balanced_decoding(): heads that one block had alone are complete.
///
///   grid    batch * heads_of_work() * ceil(kRows * d / 4 / 128)
///   block   128: a thread has four columns of a row
///   HBM     reads the parts, writes O and LSE of the heads that have several
template <int kRows, int d, class T>
__global__ void __launch_bounds__(128) merge_balanced(Decoding<T> a, Granules granules, Workspace workspace) {
  begin_early();
  constexpr int kBlocks = (kRows * d / 4 + 127) / 128;
  const int head = blockIdx.x / kBlocks % granules.heads, batch = blockIdx.x / kBlocks / granules.heads;
  const int tiles = granules.of_length(a.length(batch));
  const Division division = Division::of(count_granules(granules), granules.blocks);
  Granules before = granules;
  before.batch = batch;
  const int first = count_granules(before) + head * tiles;
  if (tiles == 0) return;
  const Parts parts = Parts::of(division, first, tiles);
  const int n = blockIdx.x % kBlocks * 128 + threadIdx.x, row = n / (d / 4), col = n % (d / 4) * 4;
  const Unit unit = unit_of<kRows>(a, batch, head, 0);
  if (parts.count == 1 || row >= unit.rows) return;
  const auto slot = [&](int i) { return parts.slot(i); };
  store_result<d>(a, unit.row_in(a) + row, col, merge_parts<kRows, d>(workspace, parts.count, slot, row, col),
                  value_scale(a, unit));
}

/// balanced_decoding() without a second kernel: of the blocks that share a head, the last one to finish
/// merges the parts.
///
///   grid    granules.blocks
///   HBM     writes O and RowState of at most two parts per block, and reads them
template <class Tile, template <class, class> class Ring, class Cache>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    one_kernel_decoding(Decoding<typename Tile::T> a, Granules granules, const __grid_constant__ Cache cache,
                        Workspace workspace) {
  constexpr int d = Tile::kHeadDim, kRows = Tile::kRows;
  extern __shared__ __align__(1024) unsigned char smem[];
  auto& s = *reinterpret_cast<SharedTiles<Tile>*>(smem);
  declare_members(s);
  if (granules.key_lengths != nullptr) begin_early<Tile::kByTma>();
  const Share share = share_of(granules, blockIdx.x);
  const int count = share.end - share.first;
  auto ring =
      start_ring<Tile, Ring>(s, cache, granules, granules.heads / a.kv_heads, share.place, count, a.seq_q);

  Place place = share.place;
  int next = worker_index<Tile>();  // the worker's next tile, from the block's first
  for (int done = 0; done < count;) {
    const int tiles = granules.of_length(place.length), here = min(tiles - place.tile, count - done);
    const Unit unit = unit_of<kRows>(a, place.batch, place.head, place.length);
    Worker<Tile> worker(a, unit, s);
    for (; next < done + here; next += Tile::kWorkers) {
      worker.multiply(ring.wait(), a, unit, (place.tile + next - done) * Tile::kKeys);
      sync_worker<Tile>();  // all its threads have read the tile
      ring.release();
    }
    worker.store(s);
    __syncthreads();  // every worker has stored its O
    const float scale = value_scale(a, unit);
    const std::size_t first_row = unit.row_in(a);
    if (here == tiles) {
      merge_workers<Tile>(s, unit.rows, [&](int row, int col, const Piece& piece) {
        store_result<d>(a, first_row + row, col, piece, scale);
      });
    } else {
      const int slot = 2 * blockIdx.x + (place.tile == 0 ? 1 : 0);
      merge_workers<Tile>(s, unit.rows, [&](int row, int col, const Piece& piece) {
        store_part<Tile>(workspace, slot, row, col, piece);
      });
      const Parts parts = Parts::of(share.division, share.first + done - place.tile, tiles);
      // EXERCISE 5: Set all_stored, the same in all threads: whether all of `parts` but this block's were stored before it. Afterwards, their counter workspace.counters[parts.first_block] is 0 again.
      __syncthreads();  // the part is stored
      const std::uint32_t last = parts.count - 1;
      if (threadIdx.x == 0) s.arrived = ptx::atom_inc_acq_rel(workspace.counters + parts.first_block, last);
      __syncthreads();
      const bool all_stored = s.arrived == last;
      // END 5
      if (all_stored) {
        const auto part = [&](int i) { return parts.slot(i); };
        for (int n = threadIdx.x; n < unit.rows * (d / 4); n += Tile::kThreads) {
          const int row = n / (d / 4), col = n % (d / 4) * 4;
          store_result<d>(a, first_row + row, col,
                          merge_parts<kRows, d>(workspace, parts.count, part, row, col), scale);
        }
      }
    }
    __syncthreads();  // nobody reads s.o any more
    done += here;
    if (done < count) place.advance(granules, here);
  }
  store_empty_sequences<Tile::kThreads, d>(a);
}

}  // namespace fa::ch14
