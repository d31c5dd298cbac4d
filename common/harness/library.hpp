/// @file
/// A chapter as a shared library, so that another program can launch its kernels on its own memory: from
/// Python, as operators of PyTorch, or to time them and PyTorch's kernels in one process on the same tensors.
/// The caller is python/fa_tutorial/chapter_library.py.
///
/// Nothing throws. A function that fails returns null, false or -1; fa_reason() and fa_error() say why.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

extern "C" {

/// Changes with struct FaAttention and with the meaning of a function. The caller has the same number.
constexpr int kFaInterface = 8;

/// Elements from one batch, head or row of a tensor to the next; those of a dimension of length 1 do not
/// matter. The elements of a row are neighbours.
struct FaStrides {
  std::int64_t batch, head, row;
};

/// What chapter 14 needs besides: sequences of different lengths, pages, an fp8 cache. Kernels read the
/// tables; nothing checks what they hold. Addresses are null for what a problem does not have.
struct FaCache {
  void *key_lengths, *block_table;  ///< int32 [batch], each at most seq_k; int32 [batch, table_columns]
  void *k_scale, *v_scale;          ///< fp32 [kv_heads], if k and v are e4m3
  std::int64_t page_size, pages,
      table_columns;               ///< with a table, k and v are [pages, kv_heads, page_size, d]
  std::int64_t splits;             ///< 0: as many as the chapter's model says
  std::int64_t workspace_is_zero;  ///< whether the caller has filled it with zeros: nothing must come before
};

/// What chapter 11 needs besides: masks, mods of scores and dropout, as fa::MaskedShape has them. Kernels
/// read the numbers; nothing checks what they hold. Addresses are null and numbers 0 for what a problem does
/// not have.
struct FaMasks {
  void *documents, *key_documents;  ///< int32 [seq_q], [seq_k], which do not decrease
  void* key_lengths;                ///< int32 [batch], from 0 to seq_k
  void* block_mask;                 ///< uint8 [heads_of_blocks, ceil(seq_q / size), ceil(seq_k / size)]
  void* alibi_slopes;               ///< fp32 [heads]
  void *sinks, *dsinks;             ///< fp32 [heads]; dsinks is an output of a backward pass
  std::int64_t heads_of_blocks, size_of_blocks;
  std::int64_t window;
  double softcap, dropout;
  std::uint64_t dropout_seed;
};

/// The parameters, which ctypes fills in. Addresses are those of device memory, and multiples of 16.
struct FaAttention {
  std::int64_t batch, heads, kv_heads, seq_q, seq_k, head_dim, head_dim_v;
  std::int32_t dtype;  ///< the number of fa::DType: 0 fp32, 1 fp16, 2 bf16
  std::int32_t causal;
  double scale;
  void *q, *k, *v;
  void *o, *lse;  ///< outputs of a forward pass; inputs of a backward pass, or null: it computes them itself
  void *d_o, *dq, *dk, *dv;  ///< of a backward pass, or null
  const FaCache* cache;      ///< of chapter 14, or null
  const FaMasks* masks;      ///< of chapter 11, or null
  void* workspace;           ///< fa_workspace_bytes(), aligned to 256; null: the library allocates it
  /// Of the tensors whose addresses are not null. A variant refuses what it cannot take. lse is dense.
  FaStrides q_strides, k_strides, v_strides, o_strides, d_o_strides, dq_strides, dk_strides, dv_strides;
};

/// Why this thread's last call failed, in one line. The names of options stand for the parameters.
const char* fa_error();

/// The number of fa::Refusal::Reason if that call was refused; 0 if something else failed.
int fa_reason();

/// kFaInterface of this library.
int fa_interface();

/// The version of CUDA that this library was compiled with: 13000 for 13.0. -1 on the simulator.
int fa_cuda_version();

/// The names of the variants, one per line. Null if this fails.
const char* fa_variants();

/// The bytes that a variant needs in addition to the tensors whose addresses are given. -1 if it refuses.
/// Nothing reads at the addresses.
std::int64_t fa_workspace_bytes(const char* variant, const FaAttention* given);

/// Prepares a variant for a problem: allocates its workspace and runs what must come before it, unless the
/// caller has done so. Null if the variant refuses.
void* fa_bind(const char* variant, const FaAttention* given);

/// Enqueues the kernels of a variant that fa_bind() returned.
bool fa_launch(void* bound, cudaStream_t stream);

/// Changes the seed of dropout for the launches that follow. The variant must be one of chapter 11.
void fa_set_seed(void* bound, std::uint64_t seed);

/// Frees what fa_bind() returned. Its launches must have finished, unless the workspace is the caller's.
void fa_release(void* bound);

}  // extern "C"
