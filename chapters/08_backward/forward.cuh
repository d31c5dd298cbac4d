/// @file
/// The forward pass, which runs before the backward pass: the last kernels of chapters 05 and 07.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <vector>

#include "attention/attention_backward.hpp"
#include "attention/tensor.hpp"
#include "attention/traffic.hpp"

namespace fa::ch08::forward {

/// O and LSE, under the names "o" and "lse".
std::vector<TensorSpec> workspace(const AttentionShape& shape);

/// Bytes of q, k, v, o and lse.
Traffic traffic(const AttentionShape& shape);

/// Shared memory per block, in bytes.
std::size_t shared_bytes(const AttentionShape& shape);

/// Enqueues chapter 05's `register_tiled` for fp32, or chapter 07's `final` for 16 bits. They are compiled
/// for the head dimensions in sizes.cuh.
/// @throws CudaError
void launch(const AttentionBackward::Args& args, cudaStream_t stream);

}  // namespace fa::ch08::forward
