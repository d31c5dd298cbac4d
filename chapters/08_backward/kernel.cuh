/// @file
/// The gradients of attention, with P computed again and never in HBM: what both element types share, and fp32.
///
/// Q, O, dO and dQ are [batch, heads, seq_q, head_dim], K, V, dK and dV [batch, kv_heads, seq_k, head_dim], LSE and D
/// [batch, heads, seq_q]. Any lengths >= 1 and any kv_heads that divides heads. A row that sees no key has the
/// gradient 0.
///
/// With S = scale * Q K^T, for each element, and D = rowsum(dO * O) (Dao et al. 2022, appendix B.2):
///   P = exp(S - LSE)    dP = dO V^T    dS = P * (dP - D)
///   dV = P^T dO         dK = scale * dS^T Q         dQ = scale * dS K
///
/// mma.cuh has the same on tensor cores. What the kernels ask of HBM: chapter.cu.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>

#include "backward.cuh"
#include "device/reduce.cuh"
#include "device/tile.cuh"

namespace fa::ch08 {

// --- what comes before -----------------------------------------------------------------------------------

/// Neighbouring elements that one instruction loads.
template <class T, int kCount>
struct alignas(kCount * sizeof(T)) Pack {
  T x[kCount];
};

/// D = rowsum(dO * O): what all elements of a row of dP have in common with the row's softmax.
///
///   grid    ceil(batch * heads * seq_q / kRowsOfBlock)      one warp per row
///   block   32 * kRowsOfBlock
///   HBM     reads O and dO, writes D
template <class T, int kHeadDim, int kRowsOfBlock>
__global__ void __launch_bounds__(32 * kRowsOfBlock) row_dots(Backward<T> a) {
  constexpr int kCount = kHeadDim / 32;
  const size_t row = size_t(blockIdx.x) * kRowsOfBlock + threadIdx.x / 32;
  if (row >= size_t(a.batch) * a.heads * a.seq_q) return;
  const size_t at = row * kHeadDim + threadIdx.x % 32 * kCount;
  const auto o = *reinterpret_cast<const Pack<T, kCount>*>(a.o + at);
  const auto d_o = *reinterpret_cast<const Pack<T, kCount>*>(a.d_o + at);
  // EXERCISE 1: Make `sum` the dot product of the row's O and dO. This lane has kCount elements of each.
  float sum = 0.0f;
  for (int i = 0; i < kCount; ++i) sum += float(o.x[i]) * float(d_o.x[i]);
  sum = warp_reduce(sum, Sum());
  // END 1
  if (threadIdx.x % 32 == 0) a.d[row] = sum;
}

/// Zeros, 16 bytes for each thread. @param quads  of numbers
__global__ void __launch_bounds__(256) fill_with_zeros(float* x, size_t quads) {
  const size_t n = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (n < quads) store_float4(x + 4 * n, {0.0f, 0.0f, 0.0f, 0.0f});
}

// --- fp32: three kinds of products in registers --------------------------------------------------------

/// How the fp32 kernels cut the problem. The threads of a block form a grid of 16 rows. Each has a part of every
/// product: of S and dP, of dK and dV, of dQ.
template <int kHeadDimension>
struct Fp32Tiles {
  static constexpr int kHeadDim = kHeadDimension;
  static constexpr int Br = 64;  ///< queries
  static constexpr int Bc = 64;  ///< keys
  static constexpr int kThreads = kHeadDim <= 64 ? 128 : 256;
  static constexpr int kBlocksPerSm = 256 / kThreads;
  static constexpr int kRowThreads = 16;
  static constexpr int kColThreads = kThreads / kRowThreads;
  static constexpr int kRows = Br / kRowThreads;  ///< of a thread, also of dK and dV: Br = Bc
  static constexpr int kCols = Bc / kColThreads;
  static constexpr int kDims = kHeadDim / kColThreads;  ///< columns of dQ, dK, dV
  // Four quads of different rows in a warp's load, in different banks; P is stored in 4 x 8 single numbers.
  static constexpr int kStride = kHeadDim + 4;                                      ///< of Q, dO, K and V
  static constexpr int kPStride = Bc + 8;                                           ///< of P and dS
  static constexpr int kFloats = 2 * (Br + Bc) * kStride + Br * kPStride + 2 * Br;  ///< of shared memory
  static_assert(Br == Bc);
};

/// A thread's place in the grid of threads. A warp is 4 x 8 of them: lane ^ 1 has the same row, lane ^ 2 the same
/// column, so that 16 lanes load their quads in one wavefront (chapter 05).
template <class Tile>
struct ThreadPlace {
  int row, col;

  __device__ __forceinline__ ThreadPlace() {
    constexpr int kWarpsInRow = Tile::kColThreads / 8;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    row = warp / kWarpsInRow * 4 + lane / 2 % 4;
    col = warp % kWarpsInRow * 8 + lane % 2 + lane / 8 * 2;
  }
  /// Row or column i of a thread where the product runs along the rows of its operand: every kRowThreads-th.
  __device__ __forceinline__ int single_row(int i) const { return row + i * Tile::kRowThreads; }
  __device__ __forceinline__ int single_col(int i) const { return col + i * Tile::kColThreads; }
  /// Where it runs down the columns: quads of neighbours. i is a multiple of 4.
  __device__ __forceinline__ int quad_row(int i) const { return 4 * (row + i / 4 * Tile::kRowThreads); }
  __device__ __forceinline__ int quad_col(int i) const { return 4 * (col + i / 4 * Tile::kColThreads); }
};

__device__ __forceinline__ void load_quad(float (&r)[4], const float* s) {
  const float4 x = load_float4(s);
  r[0] = x.x, r[1] = x.y, r[2] = x.z, r[3] = x.w;
}

/// C = A B^T, [kRows, kCols] of it: S = Q K^T and dP = dO V^T. Both operands are read along their rows.
template <class Tile>
__device__ __forceinline__ void multiply_nt(float (&rC)[Tile::kRows][Tile::kCols], const float* sA,
                                            const float* sB) {
  const ThreadPlace<Tile> my;
  for (auto& row : rC)
    for (float& c : row) c = 0.0f;
#pragma unroll 2
  for (int k = 0; k < Tile::kHeadDim; k += 4) {
    float a[Tile::kRows][4];
    for (int r = 0; r < Tile::kRows; ++r) load_quad(a[r], sA + my.single_row(r) * Tile::kStride + k);
    for (int c = 0; c < Tile::kCols; ++c) {
      float b[4];
      load_quad(b, sB + my.single_col(c) * Tile::kStride + k);
      for (int r = 0; r < Tile::kRows; ++r) {
        for (int i = 0; i < 4; ++i) rC[r][c] += a[r][i] * b[i];
      }
    }
  }
}

/// C += A^T B, [kRows, kDims] of it: dV += P^T dO and dK += dS^T Q. Both are read down their columns: outer products.
template <class Tile>
__device__ __forceinline__ void multiply_tn(float (&rC)[Tile::kRows][Tile::kDims], const float* sA,
                                            const float* sB) {
  const ThreadPlace<Tile> my;
  static_assert(Tile::kRows == 4);
#pragma unroll 4
  for (int k = 0; k < Tile::Br; ++k) {
    float a[4];
    load_quad(a, sA + k * Tile::kPStride + my.quad_row(0));
    for (int c = 0; c < Tile::kDims; c += 4) {
      float b[4];
      load_quad(b, sB + k * Tile::kStride + my.quad_col(c));
      for (int r = 0; r < 4; ++r) {
        for (int i = 0; i < 4; ++i) rC[r][c + i] += a[r] * b[i];
      }
    }
  }
}

/// C += A B, [kRows, kDims] of it: dQ += dS K. A is read along its rows, B down its columns.
template <class Tile>
__device__ __forceinline__ void multiply_nn(float (&rC)[Tile::kRows][Tile::kDims], const float* sA,
                                            const float* sB) {
  const ThreadPlace<Tile> my;
#pragma unroll 1
  for (int k = 0; k < Tile::Bc; k += 4) {
    float a[Tile::kRows][4];
    for (int r = 0; r < Tile::kRows; ++r) load_quad(a[r], sA + my.single_row(r) * Tile::kPStride + k);
    for (int n = 0; n < 4; ++n) {
      for (int c = 0; c < Tile::kDims; c += 4) {
        float b[4];
        load_quad(b, sB + (k + n) * Tile::kStride + my.quad_col(c));
        for (int r = 0; r < Tile::kRows; ++r) {
          for (int i = 0; i < 4; ++i) rC[r][c + i] += a[r][n] * b[i];
        }
      }
    }
  }
}

// --- fp32: tiles -----------------------------------------------------------------------------------------

/// The tiles of a block in shared memory.
template <class Tile>
struct SharedTiles {
  float *q, *d_o;  ///< [Br, kStride]; Q is scaled
  float *k, *v;    ///< [Bc, kStride]
  float* p;        ///< [Br, kPStride], P and then dS
  float *lse, *d;  ///< [Br]

  __device__ __forceinline__ explicit SharedTiles(float4* smem) {
    q = reinterpret_cast<float*>(smem);
    d_o = q + Tile::Br * Tile::kStride;
    k = d_o + Tile::Br * Tile::kStride;
    v = k + Tile::Bc * Tile::kStride;
    p = v + Tile::Bc * Tile::kStride;
    lse = p + Tile::Br * Tile::kPStride;
    d = lse + Tile::Br;
  }
};

/// The first 64 rows of a matrix, times `factor`. Those that do not exist become zeros.
template <class Tile>
__device__ __forceinline__ void load_rows(float* s, const float* g, int rows, float factor = 1.0f) {
  for (int n = threadIdx.x; n < Tile::Br * Tile::kHeadDim / 4; n += Tile::kThreads) {
    const int row = 4 * n / Tile::kHeadDim, col = 4 * n % Tile::kHeadDim;
    float4 x = {0.0f, 0.0f, 0.0f, 0.0f};
    if (row < rows) x = load_float4(g + size_t(row) * Tile::kHeadDim + col);
    x = {factor * x.x, factor * x.y, factor * x.z, factor * x.w};
    *reinterpret_cast<float4*>(s + row * Tile::kStride + col) = x;
  }
}

/// Q, dO, LSE and D of a query tile. @param head  counts through all batches
template <class Tile>
__device__ __forceinline__ void load_queries(const SharedTiles<Tile>& s, const Backward<float>& a, int head,
                                             int first_query) {
  const size_t first = size_t(head) * a.seq_q + first_query;
  const int rows = a.seq_q - first_query;
  load_rows<Tile>(s.q, a.q + first * Tile::kHeadDim, rows, a.scale);
  load_rows<Tile>(s.d_o, a.d_o + first * Tile::kHeadDim, rows);
  if (threadIdx.x < Tile::Br) {
    const bool inside = int(threadIdx.x) < rows;
    s.lse[threadIdx.x] = inside ? a.lse[first + threadIdx.x] : 0.0f;
    s.d[threadIdx.x] = inside ? a.d[first + threadIdx.x] : 0.0f;
  }
}

/// P and dS of a query tile and a key tile: [kRows, kCols] of this thread.
template <class Tile>
__device__ __forceinline__ void p_and_ds(float (&rP)[Tile::kRows][Tile::kCols],
                                         float (&rdS)[Tile::kRows][Tile::kCols], const SharedTiles<Tile>& s,
                                         const Backward<float>& a, int first_query, int first_key) {
  const ThreadPlace<Tile> my;
  multiply_nt<Tile>(rP, s.q, s.k);
  multiply_nt<Tile>(rdS, s.d_o, s.v);
  for (int r = 0; r < Tile::kRows; ++r) {
    const int row = my.single_row(r), query = first_query + row;
    const int visible = query < a.seq_q ? a.visible_keys(query) - first_key : 0;
    const float lse = s.lse[row], d = s.d[row];
    for (int c = 0; c < Tile::kCols; ++c) {
      // EXERCISE 2: rP[r][c] is a scaled score. Make it P, and 0 where the query does not see the key.
      rP[r][c] = my.single_col(c) < visible ? __expf(rP[r][c] - lse) : 0.0f;
      // END 2
      // EXERCISE 3: rdS[r][c] is dP. Make it dS.
      rdS[r][c] = rP[r][c] * (rdS[r][c] - d);
      // END 3
    }
  }
}

template <class Tile>
__device__ __forceinline__ void store_p(float* sP, const float (&rP)[Tile::kRows][Tile::kCols]) {
  const ThreadPlace<Tile> my;
  for (int r = 0; r < Tile::kRows; ++r) {
    for (int c = 0; c < Tile::kCols; ++c) sP[my.single_row(r) * Tile::kPStride + my.single_col(c)] = rP[r][c];
  }
}

// --- fp32: the kernels -----------------------------------------------------------------------------------

/// dK and dV of a key tile, which stays while the query tiles of all heads that share it come by.
///
///   grid    batch * kv_heads * ceil(seq_k / Bc)
///   block   Tile::kThreads
///   shared  4 * Tile::kFloats bytes
///   HBM     reads K and V once; Q, dO, LSE and D for each key tile, from the first query tile that sees it on;
///           writes dK and dV. With kFused, adds to dQ each time that it reads Q
///
/// @tparam kFused  dQ here as well, by atomic additions: in the order in which blocks come
template <class Tile, bool kFused>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm) key_gradients(Backward<float> a) {
  constexpr int d = Tile::kHeadDim, Br = Tile::Br, Bc = Tile::Bc;
  const int tiles = (a.seq_k + Bc - 1) / Bc;
  const int kv_head = blockIdx.x / tiles, first_key = blockIdx.x % tiles * Bc;
  const size_t first_row = size_t(kv_head) * a.seq_k + first_key;  // of K, V, dK and dV
  const ThreadPlace<Tile> my;
  extern __shared__ float4 smem[];
  const SharedTiles<Tile> s(smem);

  load_rows<Tile>(s.k, a.k + first_row * d, a.seq_k - first_key);
  load_rows<Tile>(s.v, a.v + first_row * d, a.seq_k - first_key);
  float rdK[Tile::kRows][Tile::kDims] = {}, rdV[Tile::kRows][Tile::kDims] = {};

  // EXERCISE 4: Find how many query heads share the block's keys, and where the first query tile begins that sees one.
  const int group = a.heads / a.kv_heads;
  const int begin = max(0, a.first_query(first_key)) / Br * Br;
  // END 4
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (int first_query = begin; first_query < a.seq_q; first_query += Br) {
      __syncthreads();  // no warp uses the query tile before any more, nor dS
      load_queries(s, a, head, first_query);
      __syncthreads();  // the query tile is there, and the key tile
      float rP[Tile::kRows][Tile::kCols], rdS[Tile::kRows][Tile::kCols];
      p_and_ds(rP, rdS, s, a, first_query, first_key);

      // EXERCISE 5: Add P^T dO to rdV, and dS^T Q to rdK. There is room for P or dS in s.p, for one at a time.
      store_p<Tile>(s.p, rP);
      __syncthreads();  // P is there
      multiply_tn<Tile>(rdV, s.p, s.d_o);
      __syncthreads();  // no warp uses P any more
      store_p<Tile>(s.p, rdS);
      __syncthreads();  // dS is there
      // Q is scaled, and so dK will be.
      multiply_tn<Tile>(rdK, s.p, s.q);
      // END 5
      if constexpr (kFused) {
        // EXERCISE 6: Add scale * dS K to a.dq_sum, for the queries that exist. Other blocks add to the same rows.
        float rdQ[Tile::kRows][Tile::kDims] = {};
        multiply_nn<Tile>(rdQ, s.p, s.k);
        for (int r = 0; r < Tile::kRows; ++r) {
          const int query = first_query + my.single_row(r);
          if (query >= a.seq_q) continue;
          float* row = a.dq_sum + (size_t(head) * a.seq_q + query) * d;
          for (int c = 0; c < Tile::kDims; ++c) {
            atomicAdd(row + my.quad_col(c) + c % 4, a.scale * rdQ[r][c]);
          }
        }
        // END 6
      }
    }
  }

  for (int r = 0; r < Tile::kRows; ++r) {
    const int key = my.quad_row(0) + r;
    if (first_key + key >= a.seq_k) continue;
    for (int c = 0; c < Tile::kDims; c += 4) {
      const size_t at = (first_row + key) * d + my.quad_col(c);
      const float *dk = rdK[r] + c, *dv = rdV[r] + c;
      store_float4(a.dk + at, {dk[0], dk[1], dk[2], dk[3]});
      store_float4(a.dv + at, {dv[0], dv[1], dv[2], dv[3]});
    }
  }
}

/// dQ of a query tile, which stays while key tiles come by. P and dS once more.
///
///   grid    batch * heads * ceil(seq_q / Br)
///   block   Tile::kThreads
///   shared  4 * Tile::kFloats bytes
///   HBM     reads Q, dO, LSE and D once, and the keys and values that the tile's last query sees; writes dQ
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm) query_gradients(Backward<float> a) {
  constexpr int d = Tile::kHeadDim, Br = Tile::Br, Bc = Tile::Bc;
  const int tiles = (a.seq_q + Br - 1) / Br;
  const int head = blockIdx.x / tiles;
  const int first_query = (tiles - 1 - int(blockIdx.x % tiles)) * Br;  // under a mask, the longest come first
  const int keys = a.visible_keys(min(first_query + Br, a.seq_q) - 1);
  const size_t first_row = size_t(a.kv_head(head)) * a.seq_k;  // of K and V
  const ThreadPlace<Tile> my;
  extern __shared__ float4 smem[];
  const SharedTiles<Tile> s(smem);

  load_queries(s, a, head, first_query);
  float rdQ[Tile::kRows][Tile::kDims] = {};
  for (int first_key = 0; first_key < keys; first_key += Bc) {
    load_rows<Tile>(s.k, a.k + (first_row + first_key) * d, keys - first_key);
    load_rows<Tile>(s.v, a.v + (first_row + first_key) * d, keys - first_key);
    __syncthreads();  // the key tile is there, and the query tile
    float rP[Tile::kRows][Tile::kCols], rdS[Tile::kRows][Tile::kCols];
    p_and_ds(rP, rdS, s, a, first_query, first_key);
    store_p<Tile>(s.p, rdS);
    __syncthreads();  // dS is there
    multiply_nn<Tile>(rdQ, s.p, s.k);
    __syncthreads();  // no warp uses the key tile any more, nor dS
  }

  for (int r = 0; r < Tile::kRows; ++r) {
    const int query = first_query + my.single_row(r);
    if (query >= a.seq_q) continue;
    float* row = a.dq + (size_t(head) * a.seq_q + query) * d;
    for (int c = 0; c < Tile::kDims; c += 4) {
      const float* x = rdQ[r] + c;
      store_float4(row + my.quad_col(c), {a.scale * x[0], a.scale * x[1], a.scale * x[2], a.scale * x[3]});
    }
  }
}

}  // namespace fa::ch08
