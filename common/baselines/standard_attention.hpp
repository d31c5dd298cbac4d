/// @file
/// Standard attention, which FlashAttention is measured against.
#pragma once

#include <cuda_runtime.h>

#include <optional>
#include <string>
#include <vector>

#include "attention/attention_backward.hpp"
#include "attention/attention_forward.hpp"
#include "attention/tensor.hpp"
#include "attention/traffic.hpp"

/// Three kernels with two matrices of [batch, heads, seq_q, seq_k] in HBM between them (Dao et al. 2022,
/// algorithm 0): S = scale * Q K^T with cuBLAS, P = softmax(S) row by row, O = P V with cuBLAS.
///
/// S and P have the element type of Q. fp32 is fp32 throughout, without TF32; fp16 and bf16 are summed in
/// fp32. Any head_dim. The four functions are those that a Variant<AttentionForward> needs.
namespace fa::standard_attention {

/// Nothing if the shape can be computed, otherwise what is wrong, naming the option.
std::optional<Refusal> refuse(const AttentionShape& shape);

/// S and P, under the names "s" and "p".
std::vector<TensorSpec> workspace(const AttentionShape& shape);

/// Bytes; for the GEMMs, the fewest that they can move: each operand is read once, each result is written
/// once.
Traffic traffic(const AttentionShape& shape);

/// Enqueues the three kernels.
/// @throws CudaError  @throws std::runtime_error  if cuBLAS fails
void launch(const AttentionForward::Args& args, cudaStream_t stream);

}  // namespace fa::standard_attention

/// The backward pass in the same way: P again, and dP and dS of the same size. Seven kernels: S, P, dV, dP,
/// dS, dQ, dK. The functions are those that a Variant<AttentionBackward> needs; standard_attention::refuse()
/// checks shapes.
namespace fa::standard_backward {

/// S, P, dP and dS, under the names "s", "p", "dp" and "ds"; and "lse".
std::vector<TensorSpec> workspace(const AttentionShape& shape);

/// Bytes; for the GEMMs, the fewest that they can move.
Traffic traffic(const AttentionShape& shape);

/// Enqueues the seven kernels.
/// @throws CudaError  @throws std::runtime_error  if cuBLAS fails
void launch(const AttentionBackward::Args& args, cudaStream_t stream);

}  // namespace fa::standard_backward
