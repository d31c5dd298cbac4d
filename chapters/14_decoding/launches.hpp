/// @file
/// The launches of the variants. Those that use TMA are compiled for sm_90a alone.
#pragma once

#include <cuda_runtime.h>

#include "attention/decoding_attention.hpp"

namespace fa::ch14 {

void launch_one_block_a_head(const DecodingAttention::Args& args, cudaStream_t stream);
void launch_packed_heads(const DecodingAttention::Args& args, cudaStream_t stream);
void launch_split_keys(const DecodingAttention::Args& args, cudaStream_t stream);
void launch_ampere(const DecodingAttention::Args& args, cudaStream_t stream);

void launch_in_flight(const DecodingAttention::Args& args, cudaStream_t stream);
void launch_balanced(const DecodingAttention::Args& args, cudaStream_t stream);
void launch_one_kernel(const DecodingAttention::Args& args, cudaStream_t stream);
void launch_paged(const DecodingAttention::Args& args, cudaStream_t stream);
void launch_fp8_cache(const DecodingAttention::Args& args, cudaStream_t stream);

}  // namespace fa::ch14
