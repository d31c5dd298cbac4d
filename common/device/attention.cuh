/// @file
/// The parameters of attention, as a kernel receives them. Taught by chapter 03.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace fa {

/// Elements from one batch, head or row of a tensor to the next. The elements of a row are neighbours.
struct Strides {
  std::int64_t batch, head, row;
  bool operator==(const Strides&) const = default;
};

/// The rows of one head of a tensor.
template <class T>
struct HeadRows {
  T* first;
  std::int64_t stride;  ///< elements from one row to the next

  /// The first element of a row. Negative numbers are fine, as long as no thread reads there.
  __host__ __device__ T* operator[](int row) const { return first + row * stride; }
};

/// O = softmax(scale * Q K^T) V, passed to a kernel by value. Kernels that do not use the strides take
/// tensors that are dense, in the order of the shapes below: the harness refuses all others.
///
/// A query that sees no key has O = 0 and LSE = -inf.
///
/// nvcc loads each member of a parameter of more than 128 bytes where it is used, and those of smaller ones,
/// and of local copies, once. Kernels that have no register to spare copy the parameter first: they would
/// spill otherwise.
template <class T>
struct Attention {
  const T* q;  ///< [batch, heads, seq_q, head_dim]
  const T* k;  ///< [batch, kv_heads, seq_k, head_dim]
  const T* v;  ///< [batch, kv_heads, seq_k, head_dim]
  T* o;        ///< [batch, heads, seq_q, head_dim]
  float* lse;  ///< [batch, heads, seq_q]: natural log of the sum over visible keys of exp(scale * q.k)
  int batch, heads, kv_heads, seq_q, seq_k;
  float scale;
  float exp2_scale;  ///< scale * log2 e: exp(scale * x) = 2^(exp2_scale * x)
  bool causal;       ///< query i sees key j only when j <= i + seq_k - seq_q
  int head_dim;      ///< a kernel that is compiled for more columns fills the rest with zeros on the chip
  int head_dim_v;    ///< of V and O; as large as head_dim before chapter 12
  Strides q_strides, k_strides, v_strides, o_strides;

  /// The rows of a head of Q or O, and those of K and V that it reads.
  /// @param head  counts through all batches
  __host__ __device__ HeadRows<const T> q_rows(int head) const {
    return rows_of_query_head(q, q_strides, head);
  }
  __host__ __device__ HeadRows<T> o_rows(int head) const { return rows_of_query_head(o, o_strides, head); }
  __host__ __device__ HeadRows<const T> k_rows(int head) const { return rows_of_kv_head(k, k_strides, head); }
  __host__ __device__ HeadRows<const T> v_rows(int head) const { return rows_of_kv_head(v, v_strides, head); }

  /// The same for any tensor with the heads of Q, or with those of K.
  template <class Element>
  __host__ __device__ HeadRows<Element> rows_of_query_head(Element* tensor, const Strides& strides,
                                                           int head) const {
    return rows_of(tensor, strides, head / heads, head % heads);
  }
  template <class Element>
  __host__ __device__ HeadRows<Element> rows_of_kv_head(Element* tensor, const Strides& strides,
                                                        int head) const {
    return rows_of(tensor, strides, head / heads, head % heads / (heads / kv_heads));
  }
  /// The rows of any head. @param head  of the batch
  template <class Element>
  __host__ __device__ static HeadRows<Element> rows_of(Element* tensor, const Strides& strides, int batch,
                                                       int head) {
    return {tensor + batch * strides.batch + head * strides.head, strides.row};
  }

  /// The head of K and V that a head of Q reads: heads / kv_heads neighbouring heads share one.
  __host__ __device__ int kv_head(int head) const { return head / (heads / kv_heads); }

  /// The number of keys that a query sees, which are the first ones. Never negative, never more than seq_k;
  /// rows of a ragged tile past the last query see as many as the last one.
  __host__ __device__ int visible_keys(int query) const {
    if (!causal || query >= seq_q) return seq_k;
    const int later = seq_q - 1 - query;  // queries after this one; the last query sees every key
    return later < seq_k ? seq_k - later : 0;
  }
};

}  // namespace fa
