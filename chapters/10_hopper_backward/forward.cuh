/// @file
/// The forward pass, which runs before the backward pass: a kernel of chapter 09.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

#include "attention/attention_backward.hpp"
#include "attention/tensor.hpp"
#include "attention/traffic.hpp"

namespace fa::ch10::forward {

/// O and LSE, under the names "o" and "lse".
std::vector<TensorSpec> workspace(const AttentionShape& shape);

/// Bytes of q, k, v, o and lse.
Traffic traffic(const AttentionShape& shape);

/// Shared memory per block, in bytes.
std::size_t shared_bytes(const AttentionShape& shape);

/// Enqueues chapter 09's `specialised`, compiled for 16 bits and head_dim 64, 96, 128 and 256.
/// @throws CudaError
void launch(const AttentionBackward::Args& args, cudaStream_t stream);

}  // namespace fa::ch10::forward
