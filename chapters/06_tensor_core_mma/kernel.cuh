/// @file
/// FlashAttention v2 on tensor cores: Q K^T and P V as products of 16-bit matrices, summed in fp32.
///
/// Q and O are [batch, heads, seq_q, head_dim], K and V [batch, kv_heads, seq_k, head_dim], all __half or
/// __nv_bfloat16; LSE is [batch, heads, seq_q], fp32. Every kernel takes any lengths >= 1 and any kv_heads
/// that divides heads. A row that sees no key has O = 0 and LSE = -inf.
///
/// A key that only some rows of a tile see has the weight 0 in the other rows. If its value is NaN or
/// infinite, 0 times that is NaN.
///
/// tiles.cuh has the tile sizes and the copies from HBM, wmma.cuh has the portable kernel.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "device/attention.cuh"
#include "device/convert.cuh"
#include "device/declare_rows.cuh"
#include "device/math.cuh"
#include "device/ptx.cuh"
#include "device/reduce.cuh"
#include "device/tensor_core.cuh"
#include "device/unresolved_rows.cuh"
#include "tiles.cuh"

namespace fa::ch06 {

// --- fragments: which lane holds which element -------------------------------------------------------

/// Row and column of an element in its matrix.
struct Coord {
  int row, col;
};

// mma.m16n8k16: C += A B. A, B and C are fragments: matrices that a warp holds, each lane a share of the
// elements. The hardware defines the maps. Each register of A or B holds two elements, the even one in its
// lower half. In C each element has its own register.

/// The position in C, 16 x 8 in fp32, of element i of the 4 that a lane holds.
__host__ __device__ constexpr Coord element_of_c(int lane, int i) {
  return {lane / 4 + 8 * (i / 2), lane % 4 * 2 + i % 2};
}
/// The position in A, 16 x 16, of element i of the 8 that a lane holds.
__host__ __device__ constexpr Coord element_of_a(int lane, int i) {
  return {lane / 4 + 8 * (i / 2 % 2), lane % 4 * 2 + i % 2 + 8 * (i / 4)};
}
/// The position in B, 16 x 8, of element i of the 4 that a lane holds.
__host__ __device__ constexpr Coord element_of_b(int lane, int i) {
  return {lane % 4 * 2 + i % 2 + 8 * (i / 2), lane / 4};
}

/// The two neighbouring elements that a lane holds in row lane / 4 of C (half 0) or in the row 8 further down
/// (half 1).
__device__ __forceinline__ float* row_pair(float (&c)[4], int half) { return c + 2 * half; }

/// Whether two fragments C side by side are one fragment A: each lane has the same elements in the same
/// order.
constexpr bool two_of_c_are_a() {
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 8; ++i) {
      const Coord a = element_of_a(lane, i), c = element_of_c(lane, i % 4);
      if (a.row != c.row || a.col != c.col + 8 * (i / 4)) return false;
    }
  }
  return true;
}
static_assert(two_of_c_are_a());  // so P never leaves the registers in which S was summed up

/// The element of a 16 x 16 tile whose address this lane supplies so that ldmatrix.x4 loads the tile as a
/// fragment A. ldmatrix puts matrix i into register i; lane 8 * i + r supplies the address of row r of this
/// matrix.
///
/// With ldmatrix_transposed(), the same addresses load the tile as two fragments B of 16 x 8, the left half
/// in registers 0 and 1.
__host__ __device__ constexpr Coord row_for_a(int lane) {
  // EXERCISE 1: Quarter i of the tile belongs in register i of A. Where does its row r begin, for lane = 8 * i + r?
  return {lane % 16, lane / 16 * 8};
  // END 1
}

/// The same for a tile that holds B^T, a column of B in each row. The first 8 rows of the tile become a
/// fragment B in registers 0 and 1, the last 8 one in registers 2 and 3.
__host__ __device__ constexpr Coord row_for_b(int lane) {
  // EXERCISE 2: Do the same for a tile of B^T: its rows 0 to 7 belong in registers 0 and 1, rows 8 to 15 in 2 and 3.
  return {lane % 8 + lane / 16 * 8, lane / 8 % 2 * 8};
  // END 2
}

// --- layouts: where the rows of a tile lie in shared memory --------------------------------------------

/// Row after row: element (row, col) of a tile of kCols columns is at offset(row, col). advance() goes from
/// there to the element `rows` further down and `cols` to the right, both multiples of 16.
template <int kCols>
struct RowMajor {
  static constexpr int kStride = kCols;
  __host__ __device__ static constexpr int offset(int row, int col) { return row * kStride + col; }
  __host__ __device__ static constexpr int advance(int at, int rows, int cols) {
    return at + rows * kStride + cols;
  }
};

/// 16 unused bytes follow each row, so each row begins four banks after the one before it.
template <int kCols>
struct Padded : RowMajor<kCols + 8> {};

/// Row after row, but XOR permutes the 16-byte chunks of each line of 128 bytes.
///
/// A line spans the 32 banks, so bits 3 to 5 of an element's offset say which group of four banks it is in.
/// In rows of 128 bytes or more, these bits are the same for a column in every row. XOR with the last three
/// bits of the row number makes them differ in any eight neighbouring rows. Shorter rows share a line, and
/// there the number of the line is used instead of that of the row.
template <int kCols>
struct Swizzled {
  static constexpr int kStride = kCols;
  static_assert(kCols == 32 || kCols % 64 == 0, "rows of 64 bytes, or of whole lines of 128");
  static constexpr int kRowsPerLine = kCols < 64 ? 64 / kCols : 1;

  __host__ __device__ static constexpr int offset(int row, int col) {
    const int line = row / kRowsPerLine, in_line = row % kRowsPerLine * kStride + col;
    // XOR first, then add the rows: so the compiler sees that rows 8 * kRowsPerLine apart differ by a
    // constant.
    // EXERCISE 3: Permute the chunks of a line by XOR, so that 8 neighbouring lines have a column in 8 different ones.
    return line * kRowsPerLine * kStride + (in_line ^ line % 8 * 8);
    // END 3
  }
  /// One XOR and one addition, both with constants, because lines 8 apart have the same last three bits.
  /// `rows` is a multiple of 8 * kRowsPerLine, `cols` of 16, and the column at `at` is less than 16.
  __host__ __device__ static constexpr int advance(int at, int rows, int cols) {
    return (at ^ cols % 64) + cols / 64 * 64 + rows * kStride;
  }
};

// --- products ------------------------------------------------------------------------------------------

/// A warp's 16 rows of Q as fragments A, each of 16 columns.
template <class Tile>
struct QueryFragments {
  static constexpr int kSteps = Tile::kHeadDim / 16;
  const typename Tile::T* sQ;
  int at;  ///< offset of the row whose address this lane supplies
  std::uint32_t registers[Tile::kQInRegisters ? kSteps : 1][4];

  __device__ __forceinline__ explicit QueryFragments(const typename Tile::T* sTile) : sQ(sTile) {
    const Coord from = row_for_a(threadIdx.x % 32);
    at = Tile::Rows::offset(threadIdx.x / 32 * 16 + from.row, from.col);
    if constexpr (Tile::kQInRegisters) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step)
        ldmatrix(registers[step], sQ + Tile::Rows::advance(at, 0, 16 * step));
    }
  }

  /// This lane's registers of the fragment of columns 16 * step to 16 * step + 15.
  __device__ __forceinline__ void get(std::uint32_t (&q)[4], int step) const {
    if constexpr (Tile::kQInRegisters) {
#pragma unroll
      for (int i = 0; i < 4; ++i) q[i] = registers[step][i];
    } else {
      ldmatrix(q, sQ + Tile::Rows::advance(at, 0, 16 * step));
    }
  }
};

/// S = Q K^T for the warp's 16 queries and the tile's keys. rS[ni] holds this lane's registers of the
/// fragment C of keys 8 * ni to 8 * ni + 7.
template <class Tile>
__device__ __forceinline__ void multiply_qk(float (&rS)[Tile::Bc / 8][4], const QueryFragments<Tile>& rQ,
                                            const typename Tile::T* sK) {
  const Coord from = row_for_b(threadIdx.x % 32);
  const int at = Tile::Rows::offset(from.row, from.col);
#pragma unroll
  for (int ni = 0; ni < Tile::Bc / 8; ++ni) {
#pragma unroll
    for (int i = 0; i < 4; ++i) rS[ni][i] = 0.0f;
  }
#pragma unroll
  for (int step = 0; step < Tile::kHeadDim / 16; ++step) {
    std::uint32_t q[4];
    rQ.get(q, step);
#pragma unroll
    for (int ni = 0; ni < Tile::Bc / 8; ni += 2) {
      std::uint32_t k[4];  // B = K^T, so a row of K is a column of B: 16 keys, 16 columns
      ldmatrix(k, sK + Tile::Rows::advance(at, 8 * ni, 16 * step));
      mma<typename Tile::T>(rS[ni], q, {k[0], k[1]});
      mma<typename Tile::T>(rS[ni + 1], q, {k[2], k[3]});
    }
  }
}

/// O += P V. rO[ni] holds this lane's registers of the fragment C of columns 8 * ni to 8 * ni + 7.
template <class Tile>
__device__ __forceinline__ void multiply_pv(float (&rO)[Tile::kHeadDim / 8][4],
                                            const float (&rP)[Tile::Bc / 8][4], const typename Tile::T* sV) {
  using T = typename Tile::T;
  const Coord from = row_for_a(threadIdx.x % 32);
  const int at = Tile::Rows::offset(from.row, from.col);
#pragma unroll
  for (int step = 0; step < Tile::Bc / 16; ++step) {
    // EXERCISE 4: Make operand A, 16 keys wide, of two fragments of P. Multiply it by V, 16 columns at a time.
    const float(&left)[4] = rP[2 * step];
    const float(&right)[4] = rP[2 * step + 1];
    const std::uint32_t p[4] = {pack<T>(left[0], left[1]), pack<T>(left[2], left[3]),
                                pack<T>(right[0], right[1]), pack<T>(right[2], right[3])};
#pragma unroll
    for (int ni = 0; ni < Tile::kHeadDim / 8; ni += 2) {
      std::uint32_t v[4];  // 16 keys, 16 columns
      ldmatrix_transposed(v, sV + Tile::Rows::advance(at, 16 * step, 8 * ni));
      mma<T>(rO[ni], p, {v[0], v[1]});
      mma<T>(rO[ni + 1], p, {v[2], v[3]});
    }
    // END 4
  }
}

// --- softmax in fragments --------------------------------------------------------------------------

/// exp(x) as the library computes it: multiply by log2 e, split the product into integer and fraction, and
/// raise 2 to the power of both.
struct NaturalExp {
  static __device__ __forceinline__ float factor(float scale) { return scale; }
  static __device__ __forceinline__ float exp(float x) { return expf(x); }
  static __device__ __forceinline__ float log_of_exp(float x) { return x; }  ///< natural logarithm of exp(x)
};

/// exp(x) = 2^(x * log2 e), with the multiplication folded into the scale: one instruction is left.
struct FoldedExp2 {
  static __device__ __forceinline__ float factor(float scale) { return scale * kLog2e; }
  static __device__ __forceinline__ float exp(float x) { return ptx::exp2_approx(x); }
  static __device__ __forceinline__ float log_of_exp(float x) { return x * kLn2; }
};

/// Statistics of the two rows that a lane has elements of, half 0 and half 1 in row_pair(). Lanes 4 g to 4 g
/// + 3 have elements of the same rows.
struct RowStatistics {
  float m[2] = {-INFINITY, -INFINITY};  ///< the maximum of q.k, without the scale
  float l[2] = {0.0f, 0.0f};            ///< this lane's share of the sum
};

/// Sets the scores of keys that a row does not see to -inf.
/// @param seen  how many keys of the tile each row sees
template <int kFragments>
__device__ __forceinline__ void mask(float (&rS)[kFragments][4], const int (&seen)[2]) {
#pragma unroll
  for (int ni = 0; ni < kFragments; ++ni) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      // EXERCISE 5: Set rS[ni][i] to -INFINITY if its row does not see its key.
      const int key = 8 * ni + element_of_c(threadIdx.x % 32, i).col;
      if (key >= seen[i / 2]) rS[ni][i] = -INFINITY;
      // END 5
    }
  }
}

/// The recurrence for one key tile: rS becomes P, and O and l are rescaled to the new maximum.
template <class Exp, int kFragments, int kOutputs>
__device__ __forceinline__ void online_softmax(float (&rS)[kFragments][4], float (&rO)[kOutputs][4],
                                               RowStatistics& row, float factor) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    // EXERCISE 6: Update the maximum of this row, make P of its scores, and rescale O and l. Four lanes share the row.
    float m = row.m[half];
#pragma unroll
    for (int ni = 0; ni < kFragments; ++ni) {
      const float* s = row_pair(rS[ni], half);
      m = fmaxf(m, fmaxf(s[0], s[1]));
    }
    m = warp_reduce<4>(m, Max());
    const float base = m == -INFINITY ? 0.0f : m * factor;  // no key so far: (-inf) - (-inf) would be NaN
    const float correction = Exp::exp(fmaf(row.m[half], factor, -base));
    float l = 0.0f;
#pragma unroll
    for (int ni = 0; ni < kFragments; ++ni) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& p = row_pair(rS[ni], half)[i];  // so far the score
        p = Exp::exp(fmaf(p, factor, -base));
        l += p;
      }
    }
    row.m[half] = m;
    row.l[half] = row.l[half] * correction + l;
#pragma unroll
    for (int ni = 0; ni < kOutputs; ++ni) {
      float* o = row_pair(rO[ni], half);
      o[0] *= correction;
      o[1] *= correction;
    }
    // END 6
  }
}

// --- the kernel ------------------------------------------------------------------------------------

/// FlashAttention v2, Algorithm 1 of Dao 2023, with mma: one block per query tile, one warp per 16 of its
/// rows.
///
///   grid    x: ceil(seq_q / Br), y: heads / kv_heads, z: batch * kv_heads
///   block   Tile::kThreads
///   shared  Tile::kSharedBytes: tiles of K and V, and one of Q unless K and V overwrite it
///   HBM     reads Q once; each block reads the rows of K and V that its last query sees; writes O and LSE
///           once: attention_traffic(), which chapter.cu calls
///
/// K and V come through registers: the loads of one tile are in flight while the other is multiplied.
template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocksPerSm)
    mma_attention(Attention<typename Tile::T> arguments) {
  using T = typename Tile::T;
  // With Q in registers there is none to spare: such kernels copy the parameter (device/attention.cuh).
  const std::conditional_t<Tile::kQInRegisters, Attention<T>, const Attention<T>&> a = arguments;
  constexpr int d = Tile::kHeadDim, Br = Tile::Br, Bc = Tile::Bc;
  const Block<Tile> block{a};
  const int first_query = block.first_query(), seen_by_last = block.seen_by_last();
  const int lane = threadIdx.x % 32;

  extern __shared__ float4 smem[];
  T* sQ = reinterpret_cast<T*>(smem);
  T* sK = sQ + (Tile::kQInRegisters ? 0 : Tile::kQTile);
  T* sV = sK + Tile::kKTile;
  declare_rows<typename Tile::Rows>(sQ, sK, sV);

  TileCopy<Tile, Br> query_tile;
  query_tile.load(block.gQ() + size_t(first_query) * d, a.seq_q - first_query);
  query_tile.store(sQ);
  TileCopy<Tile, Bc> key_tile;
  key_tile.load(block.gK(), seen_by_last);
  __syncthreads();  // all rows of Q are in shared memory
  const QueryFragments<Tile> rQ(sQ);
  // EXERCISE 7: Store the first key tile. With Tile::kQInRegisters, sK overwrites Q, which other warps may still read.
  if (Tile::kQInRegisters) {
    __syncthreads();  // every warp has its fragments of Q: K may overwrite them
  }
  key_tile.store(sK);
  __syncthreads();  // the first key tile is in shared memory
  // END 7

  const int row = first_query + int(threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4);  // and row + 8
  const int seen[2] = {a.visible_keys(row), a.visible_keys(row + 8)};
  const float factor = Tile::Exp::factor(a.scale);
  RowStatistics stats;
  float rO[d / 8][4] = {};
  for (int first_key = 0; first_key < seen_by_last; first_key += Bc) {
    TileCopy<Tile, Bc> value_tile;
    value_tile.load(block.gV() + size_t(first_key) * d, seen_by_last - first_key);
    float rS[Bc / 8][4];
    multiply_qk<Tile>(rS, rQ, sK);
    value_tile.store(sV);
    key_tile.load(block.gK() + size_t(first_key + Bc) * d, seen_by_last - first_key - Bc);
    if (first_key + Bc > seen[0]) mask(rS, {seen[0] - first_key, seen[1] - first_key});
    online_softmax<typename Tile::Exp>(rS, rO, stats, factor);
    __syncthreads();  // the value tile is in shared memory, and no warp reads the key tile any more
    multiply_pv<Tile>(rO, rS, sV);
    key_tile.store(sK);
    __syncthreads();  // the next key tile is in shared memory, and no warp reads the value tile any more
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float l = warp_reduce<4>(stats.l[half], Sum());
    const float inv_l = inverse_or_zero(l);
    const int query = row + 8 * half;
    if (query >= a.seq_q) continue;
    if (lane % 4 == 0)
      block.gLse()[query] = l == 0.0f ? -INFINITY : Tile::Exp::log_of_exp(stats.m[half] * factor) + logf(l);
#pragma unroll
    for (int ni = 0; ni < d / 8; ++ni) {
      const int col = 8 * ni + element_of_c(lane, 0).col;
      const float* o = row_pair(rO[ni], half);
      *reinterpret_cast<std::uint32_t*>(block.gO() + size_t(query) * d + col) =
          pack<T>(o[0] * inv_l, o[1] * inv_l);
    }
  }
  repair_rows({stats.m[0] * factor, stats.m[1] * factor}, a, block.head(), row - lane / 4, PlainPairs{a}, 0,
              d, [&](int of_warp, int col, float o) {
                // unknown: or the address of O would stay in registers during the loop
                T* gO = a.o + size_t(ptx::unknown(block.head())) * a.seq_q * d;
                gO[size_t(row - lane / 4 + of_warp) * d + col] = T(o);
              });
}

}  // namespace fa::ch06
