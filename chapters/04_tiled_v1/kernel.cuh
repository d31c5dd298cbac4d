/// @file
/// FlashAttention v1: a tile of K and V stays on the chip while all queries pass by.
///
/// Q and O are [batch, heads, seq_q, head_dim], K and V [batch, kv_heads, seq_k, head_dim]; LSE, m and l are
/// [batch, heads, seq_q]; all fp32. Every kernel accepts any lengths >= 1 and any kv_heads that divides
/// heads. A row that sees no key gets O = 0 and LSE = -inf.
///
/// A key that is hidden from a row, but not from all rows of its tile, gets the weight 0 in that row. If its
/// value is NaN or infinite, 0 times that value is NaN.
///
/// All kernels implement Algorithm 1 of Dao et al. 2022, with one block per head of each batch. Line numbers
/// refer to it. The kernels skip line 2, which writes O = 0, m = -inf and l = 0 to HBM: at the first key
/// tile, they start with O = 0 and empty statistics and do not read HBM.
#pragma once

#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstddef>

#include "device/attention.cuh"
#include "device/declare_rows.cuh"
#include "device/math.cuh"
#include "device/max_sum.cuh"
#include "device/reduce.cuh"

namespace fa::ch04 {

// --- what the three kernels share ------------------------------------------------------------------

/// The head that a block computes, in one of the batches.
struct Head {
  const float* q;  ///< [seq_q, head_dim]
  const float* k;  ///< [seq_k, head_dim]
  const float* v;  ///< [seq_k, head_dim]
  float* o;        ///< [seq_q, head_dim]
  float* m;        ///< [seq_q], the maximum of the scores so far
  float* l;        ///< [seq_q], the sum of exp(score - m) so far
  float* lse;      ///< [seq_q]
};

template <int kHeadDim>
__device__ __forceinline__ Head head_of_block(const Attention<float>& a, float* m, float* l) {
  const int head = blockIdx.x;  // counted across all batches, as is kv_head(head)
  const size_t query = size_t(head) * a.seq_q, key = size_t(a.kv_head(head)) * a.seq_k;
  return {a.q + query * kHeadDim,
          a.k + key * kHeadDim,
          a.v + key * kHeadDim,
          a.o + query * kHeadDim,
          m + query,
          l + query,
          a.lse + query};
}

/// Where the loop over query tiles starts for the key tile at first_key: earlier queries see none of its
/// keys. For the first key tile it starts at query 0, because this is where O, m and l of every row get their
/// first values.
template <int Br>
__device__ __forceinline__ int first_query_for(const Attention<float>& a, int first_key) {
  if (first_key == 0 || !a.causal) return 0;
  const int first_query = first_key - (a.seq_k - a.seq_q);  // the first one that sees first_key
  return max(first_query, 0) / Br * Br;
}

/// How a key tile changes a row: O becomes keep * O + add * (P V of this tile). `all` holds the new
/// statistics.
struct Update {
  MaxSum all;
  float keep;
  float add;
};

/// Lines 11 and 12: the row's new statistics and factors, from its statistics before the tile and those of
/// the tile.
__device__ __forceinline__ Update update(MaxSum before, MaxSum tile) {
  // EXERCISE 1: O is already divided by before.l, P V is not divided yet. Find the factors that turn them into the new O.
  const MaxSum all = merge(before, tile);
  const float inv_l = inverse_or_zero(all.l);
  return {all, before.l * expf(before.m - all.m) * inv_l, expf(tile.m - all.m) * inv_l};
  // END 1
}

/// Writes LSE, computed from the final m and l, after the last key tile. All threads of the block must call
/// it.
__device__ __forceinline__ void store_lse(const Attention<float>& a, const Head& head) {
  for (int query = threadIdx.x; query < a.seq_q; query += blockDim.x) {
    head.lse[query] = log_sum_exp({head.m[query], head.l[query]});
  }
}

// --- one thread per row -----------------------------------------------------------------------------

/// How `thread_per_row` and `cooperative` divide the problem into tiles.
///
/// @tparam kPad  number of unused floats at the end of each row of a tile in shared memory
template <int kHeadDimension, int kPad>
struct RowTiles {
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr int Br = 32;                    ///< queries per tile: one for each thread
  static constexpr int Bc = 32;                    ///< keys per tile
  static constexpr int kStride = kHeadDim + kPad;  ///< floats from one row of sQ, sK or sV to the next
  static constexpr int kScoreStride = Bc + kPad;   ///< floats from one row of sS to the next
  static constexpr int kFloats = (Br + 2 * Bc) * kStride + Br * kScoreStride + Br;  ///< per block
};

/// Lines 9 and 10 for one row: computes its scores with the tile's keys, then overwrites them with
/// P = exp(score - maximum). Returns the statistics of the row in this tile.
///
/// @param sQ  the row of scale * Q          @param sK  the key tile
/// @param sP  receives the row of P         @param seen  keys 0 .. seen - 1 of the tile are visible
template <class Tile>
__device__ __forceinline__ MaxSum probabilities(const float* sQ, const float* sK, float* sP, int seen) {
  MaxSum tile = {-FLT_MAX, 0.0f};
  for (int key = 0; key < Tile::Bc; ++key) {
    float s = 0.0f;
    for (int col = 0; col < Tile::kHeadDim; ++col) s += sQ[col] * sK[key * Tile::kStride + col];
    // EXERCISE 2: Leave out keys that this row does not see, and those past the last key.
    if (key >= seen) s = -INFINITY;
    // END 2
    sP[key] = s;
    tile.m = fmaxf(tile.m, s);
  }
  for (int key = 0; key < Tile::Bc; ++key) {
    sP[key] = expf(sP[key] - tile.m);
    tile.l += sP[key];
  }
  return tile;
}

/// Returns one element of P V. @param sP  a row of P     @param sV  a column of the value tile
template <class Tile>
__device__ __forceinline__ float weighted_sum(const float* sP, const float* sV) {
  float sum = 0.0f;
  for (int key = 0; key < Tile::Bc; ++key) sum += sP[key] * sV[key * Tile::kStride];
  return sum;
}

/// FlashAttention v1 with one thread per query row: the obvious first version.
///
///   grid    batch * heads
///   block   Tile::Br = 32: a single warp
///   shared  4 * Tile::kFloats bytes: tiles of Q, K, V and S
///   HBM     reads K and V once. For each key tile, a row reads q and, after the first tile, o, m and l; and
///           writes o, m and l. LSE needs m and l once more. traffic_of() in chapter.cu has the formula; with
///           Tc = ceil(seq_k / Bc), no mask and one head, it is
///           (2 * seq_k * d + seq_q * (3 * Tc - 1) * d + seq_q * (4 * Tc + 1)) * 4 bytes
///
/// Each thread works on its own row, so a warp touches 32 rows at a time, in HBM and in shared memory.
template <class Tile>
__global__ void __launch_bounds__(Tile::Br) thread_per_row_attention(Attention<float> a, float* m, float* l) {
  constexpr int d = Tile::kHeadDim;
  const Head head = head_of_block<d>(a, m, l);
  const int row = threadIdx.x;  // this thread's row of every tile

  extern __shared__ float4 smem[];
  float* sK = reinterpret_cast<float*>(smem);
  float* sV = sK + Tile::Bc * Tile::kStride;
  float* sQ = sV + Tile::Bc * Tile::kStride + row * Tile::kStride;  // this thread's row
  float* sP = sV + (Tile::Bc + Tile::Br) * Tile::kStride + row * Tile::kScoreStride;
  declare_rows<Tile::kStride>(sK, sV);  // tells the simulator, whose reports then name rows and columns

  for (int first_key = 0; first_key < a.seq_k; first_key += Tile::Bc) {
    const bool has_key = first_key + row < a.seq_k;
    for (int col = 0; col < d; ++col) {
      const size_t at = size_t(first_key + row) * d + col;
      sK[row * Tile::kStride + col] = has_key ? head.k[at] : 0.0f;
      sV[row * Tile::kStride + col] = has_key ? head.v[at] : 0.0f;
    }
    __syncthreads();  // all rows of the key tile are in shared memory

    for (int first = first_query_for<Tile::Br>(a, first_key); first < a.seq_q; first += Tile::Br) {
      const int query = first + row;
      if (query >= a.seq_q) continue;
      for (int col = 0; col < d; ++col) sQ[col] = a.scale * head.q[size_t(query) * d + col];
      const MaxSum tile = probabilities<Tile>(sQ, sK, sP, a.visible_keys(query) - first_key);

      const bool is_first = first_key == 0;
      const MaxSum before = is_first ? MaxSum{-FLT_MAX, 0.0f} : MaxSum{head.m[query], head.l[query]};
      const Update change = update(before, tile);
      for (int col = 0; col < d; ++col) {
        float& o = head.o[size_t(query) * d + col];
        const float kept = is_first ? 0.0f : change.keep * o;
        o = kept + change.add * weighted_sum<Tile>(sP, sV + col);
      }
      head.m[query] = change.all.m;
      head.l[query] = change.all.l;
    }
    __syncthreads();  // every thread has finished with the key tile, so the next tile may overwrite it
  }
  store_lse(a, head);
}

// --- all threads move a tile together ----------------------------------------------------------------

/// Copies rows first .. first + rows - 1 of a matrix with kHeadDim columns to shared memory, times `factor`.
/// Rows from `end` on become zeros.
///
/// @tparam kThreads  how many threads copy together, a warp or a block; they are numbered threadIdx.x %
///   kThreads
/// @tparam kStride   floats from one row to the next in shared memory
template <int kThreads, int kHeadDim, int kStride>
__device__ __forceinline__ void load_tile(float* sTile, const float* gMatrix, int first, int rows, int end,
                                          float factor = 1.0f) {
  // EXERCISE 3: Copy the tile. In each step, neighbouring threads must copy neighbouring columns of a row.
  for (int n = threadIdx.x % kThreads; n < rows * kHeadDim; n += kThreads) {
    const int row = n / kHeadDim, col = n % kHeadDim;
    const bool inside = first + row < end;
    sTile[row * kStride + col] = inside ? factor * gMatrix[size_t(first + row) * kHeadDim + col] : 0.0f;
  }
  // END 3
}

/// FlashAttention v1 with tiles that all threads load and store together.
///
/// One change: who moves what. 32 neighbouring threads move 32 neighbouring columns of one row. The rows of
/// the tiles are one float longer than they need to be: when 32 threads read the same column of 32 rows, they
/// read from 32 different banks. The row of P V overwrites the row of Q and is stored to HBM from there.
///
///   grid    batch * heads
///   block   Tile::Br = 32
///   shared  4 * Tile::kFloats bytes: tiles of Q, K, V and S, and one factor per row
///   HBM     as thread_per_row
template <class Tile>
__global__ void __launch_bounds__(Tile::Br) cooperative_attention(Attention<float> a, float* m, float* l) {
  constexpr int d = Tile::kHeadDim;
  const Head head = head_of_block<d>(a, m, l);
  const int row = threadIdx.x;

  extern __shared__ float4 smem[];
  float* sK = reinterpret_cast<float*>(smem);
  float* sV = sK + Tile::Bc * Tile::kStride;
  float* sQ = sV + Tile::Bc * Tile::kStride;
  float* sS = sQ + Tile::Br * Tile::kStride;
  float* sKeep = sS + Tile::Br * Tile::kScoreStride;
  float* sP = sS + row * Tile::kScoreStride;  // this thread's row
  declare_rows<Tile::kStride>(sK, sV, sQ);
  declare_rows<Tile::kScoreStride>(sS);

  for (int first_key = 0; first_key < a.seq_k; first_key += Tile::Bc) {
    load_tile<Tile::Br, d, Tile::kStride>(sK, head.k, first_key, Tile::Bc, a.seq_k);
    load_tile<Tile::Br, d, Tile::kStride>(sV, head.v, first_key, Tile::Bc, a.seq_k);

    for (int first = first_query_for<Tile::Br>(a, first_key); first < a.seq_q; first += Tile::Br) {
      load_tile<Tile::Br, d, Tile::kStride>(sQ, head.q, first, Tile::Br, a.seq_q, a.scale);
      __syncthreads();  // all rows of the tiles are in shared memory

      const int query = first + row;
      float* sRow = sQ + row * Tile::kStride;
      const MaxSum tile = probabilities<Tile>(sRow, sK, sP, a.visible_keys(query) - first_key);
      const bool is_first = first_key == 0, has_row = query < a.seq_q;
      const MaxSum before =
          is_first || !has_row ? MaxSum{-FLT_MAX, 0.0f} : MaxSum{head.m[query], head.l[query]};
      const Update change = update(before, tile);
      for (int col = 0; col < d; ++col) sRow[col] = change.add * weighted_sum<Tile>(sP, sV + col);
      sKeep[row] = change.keep;
      if (has_row) {
        head.m[query] = change.all.m;
        head.l[query] = change.all.l;
      }
      __syncthreads();  // all rows of P V are in shared memory, and all threads have finished with K and V

      for (int n = threadIdx.x; n < min(Tile::Br, a.seq_q - first) * d; n += Tile::Br) {
        float& o = head.o[size_t(first) * d + n];
        const float kept = is_first ? 0.0f : sKeep[n / d] * o;
        o = kept + sQ[n / d * Tile::kStride + n % d];
      }
    }
  }
  store_lse(a, head);
}

// --- one warp for several rows -----------------------------------------------------------------------

/// How `warp_per_rows` divides the problem into tiles. The number of keys per tile, Bc, is a kernel argument:
/// a multiple of kStepKeys, at most what shared memory can hold.
template <int kHeadDimension>
struct WarpTiles {
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr int kWarps = kHeadDim <= 64 ? 16 : 8;  ///< each has its own query tiles
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int Br = 8;  ///< queries per tile: each loaded element of K and V serves all of them
  static constexpr int kStepKeys = 32;           ///< keys that a warp processes at a time: one per lane
  static constexpr int kCols = kHeadDim / 32;    ///< columns of O that a lane holds for each row
  static constexpr int kKStride = kHeadDim + 4;  ///< 8 lanes that read 16 bytes of 8 keys use all 32 banks
  static constexpr int kFloatsPerKey = kKStride + kHeadDim;  ///< in shared memory: a row of K and a row of V
  static constexpr int kFloatsPerWarp = Br * (kHeadDim + kStepKeys);  ///< its tile of Q, and P of one step
};

/// Loads four neighbouring floats, 16 aligned bytes, with one instruction.
__device__ __forceinline__ float4 load_float4(const float* address) {
  return *reinterpret_cast<const float4*>(address);
}

/// Computes the scores of a step: rS[r] = q_r.k, for this lane's key and all rows of the warp.
///
/// The lane loads 16 bytes of its key once and multiplies them by those of all Br queries. The bytes of a
/// query are the same for all lanes: a broadcast.
template <class Tile>
__device__ __forceinline__ void multiply_qk(float (&rS)[Tile::Br], const float* sQ, const float* sKey) {
  for (int r = 0; r < Tile::Br; ++r) rS[r] = 0.0f;
  for (int col = 0; col < Tile::kHeadDim; col += 4) {
    const float4 k = load_float4(sKey + col);
    for (int r = 0; r < Tile::Br; ++r) {
      const float4 q = load_float4(sQ + r * Tile::kHeadDim + col);
      rS[r] += q.x * k.x + q.y * k.y + q.z * k.z + q.w * k.w;
    }
  }
}

/// Adds P V of a step to rO. rO[r][c] is column lane + 32 * c of row r.
template <class Tile>
__device__ __forceinline__ void multiply_pv(float (&rO)[Tile::Br][Tile::kCols], const float* sP,
                                            const float* sV) {
  const int lane = threadIdx.x % 32;
  for (int key = 0; key < Tile::kStepKeys; key += 4) {
    float4 p[Tile::Br];
    for (int r = 0; r < Tile::Br; ++r) p[r] = load_float4(sP + r * Tile::kStepKeys + key);
    for (int c = 0; c < Tile::kCols; ++c) {
      const float* v = sV + key * Tile::kHeadDim + lane + 32 * c;
      const float v0 = v[0], v1 = v[Tile::kHeadDim], v2 = v[2 * Tile::kHeadDim], v3 = v[3 * Tile::kHeadDim];
      for (int r = 0; r < Tile::Br; ++r) rO[r][c] += p[r].x * v0 + p[r].y * v1 + p[r].z * v2 + p[r].w * v3;
    }
  }
}

/// FlashAttention v1 with scores and output in registers.
///
/// One change: each warp has a query tile to itself and uses every value that it loads from shared memory for
/// several rows. Warps share nothing but the key tile, so they need no barrier between query tiles. A warp
/// processes the key tile in steps of 32 keys, with the recurrence of chapter 03 between steps. It reads and
/// writes O in HBM once for the whole key tile.
///
///   grid    batch * heads
///   block   Tile::kThreads
///   shared  4 * (Bc * kFloatsPerKey + kWarps * kFloatsPerWarp) bytes: the key tile; Q and P of each warp
///   HBM     as thread_per_row, with this Bc and Br
///
/// @param Bc  keys per tile, a multiple of Tile::kStepKeys
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads)
    warp_per_rows_attention(Attention<float> a, float* m, float* l, int Bc) {
  constexpr int d = Tile::kHeadDim, Br = Tile::Br;
  const Head head = head_of_block<d>(a, m, l);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  extern __shared__ float4 smem[];
  float* sK = reinterpret_cast<float*>(smem);
  float* sV = sK + Bc * Tile::kKStride;
  float* sQ = sV + Bc * d + warp * Tile::kFloatsPerWarp;  // this warp's own, as is sP
  float* sP = sQ + Br * d;
  declare_rows<Tile::kKStride>(sK);
  declare_rows<d>(sV, sQ);
  declare_rows<Tile::kStepKeys>(sP);

  for (int first_key = 0; first_key < a.seq_k; first_key += Bc) {
    const int keys = min(Bc, a.seq_k - first_key);
    const int loaded = (keys + Tile::kStepKeys - 1) / Tile::kStepKeys * Tile::kStepKeys;
    load_tile<Tile::kThreads, d, Tile::kKStride>(sK, head.k, first_key, loaded, a.seq_k);
    load_tile<Tile::kThreads, d, d>(sV, head.v, first_key, loaded, a.seq_k);
    __syncthreads();  // all rows of the key tile are in shared memory

    const int first_of_block = first_query_for<Br>(a, first_key);
    for (int first = first_of_block + warp * Br; first < a.seq_q; first += Tile::kWarps * Br) {
      load_tile<32, d, d>(sQ, head.q, first, Br, a.seq_q, a.scale);
      __syncwarp();  // all rows of the query tile are in shared memory

      float rM[Br], rL[Br];  // for each row: its maximum, and this lane's part of its sum
      float rO[Br][Tile::kCols];
      for (int r = 0; r < Br; ++r) {
        rM[r] = -FLT_MAX;
        rL[r] = 0.0f;
        for (int c = 0; c < Tile::kCols; ++c) rO[r][c] = 0.0f;
      }

      // Lines 9 and 10. The last row sees the most keys, so the loop leaves out all keys after those.
      const int last_query = min(first + Br, a.seq_q) - 1;
      const int seen_by_last = min(keys, a.visible_keys(last_query) - first_key);
      for (int step = 0; step < seen_by_last; step += Tile::kStepKeys) {
        float rS[Br];
        multiply_qk<Tile>(rS, sQ, sK + (step + lane) * Tile::kKStride);
        const int key = first_key + step + lane;
        for (int r = 0; r < Br; ++r) {
          const float s = key < a.visible_keys(first + r) ? rS[r] : -INFINITY;
          // EXERCISE 4: Update the row's maximum, and this lane's parts of the row's sum and of o. Define p, which is stored below.
          const float m_new = fmaxf(rM[r], warp_reduce(s, Max()));
          const float correction = expf(rM[r] - m_new), p = expf(s - m_new);
          rM[r] = m_new;
          rL[r] = rL[r] * correction + p;
          for (int c = 0; c < Tile::kCols; ++c) rO[r][c] *= correction;
          // END 4
          sP[r * Tile::kStepKeys + lane] = p;
        }
        __syncwarp();  // P of the step is in shared memory
        multiply_pv<Tile>(rO, sP, sV + step * d);
        __syncwarp();  // every lane has read it
      }

      // Lines 11 to 13. Lane r keeps the statistics of row r.
      const int query_of_lane = first + lane;
      const bool has_row = lane < Br && query_of_lane < a.seq_q;
      const bool is_first = first_key == 0;
      MaxSum stats = {-FLT_MAX, 0.0f};
      if (has_row && !is_first) stats = {head.m[query_of_lane], head.l[query_of_lane]};
      for (int r = 0; r < Br; ++r) {
        const MaxSum before = {__shfl_sync(kAllLanes, stats.m, r), __shfl_sync(kAllLanes, stats.l, r)};
        const MaxSum tile = {rM[r], warp_reduce(rL[r], Sum())};
        const Update change = update(before, tile);
        if (lane == r) stats = change.all;
        if (first + r >= a.seq_q) continue;  // all lanes
        for (int c = 0; c < Tile::kCols; ++c) {
          float& o = head.o[size_t(first + r) * d + lane + 32 * c];
          const float kept = is_first ? 0.0f : change.keep * o;
          o = kept + change.add * rO[r][c];
        }
      }
      if (has_row) {
        head.m[query_of_lane] = stats.m;
        head.l[query_of_lane] = stats.l;
      }
    }
    __syncthreads();  // every warp has finished with the key tile and written m and l of its rows
  }
  store_lse(a, head);
}

}  // namespace fa::ch04
