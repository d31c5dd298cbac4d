/// @file
/// As compiled_once.hpp: what the chapters about attention need.
#pragma once

#include "harness/compiled_once.hpp"

#ifndef FA_COMPILED_ONCE_ATTENTION  // compiled_once_attention.cpp compiles them
#define FA_COMPILED_ONCE_ATTENTION extern
#endif

// Both problems of attention have the same shapes and arguments.
FA_COMPILED_ONCE_ATTENTION template class std::vector<fa::Variant<fa::AttentionForward>>;
FA_COMPILED_ONCE_ATTENTION template class std::vector<fa::Variant<fa::AttentionBackward>>;
FA_COMPILED_ONCE_ATTENTION template class std::function<void(const fa::AttentionForward::Args&,
                                                             cudaStream_t)>;
FA_COMPILED_ONCE_ATTENTION template class std::function<fa::Traffic(const fa::AttentionShape&)>;
FA_COMPILED_ONCE_ATTENTION template class std::function<fa::DeviceNeeds(const fa::AttentionShape&)>;
FA_COMPILED_ONCE_ATTENTION template class std::function<std::optional<fa::Refusal>(
    const fa::AttentionShape&)>;
FA_COMPILED_ONCE_ATTENTION template class std::function<std::vector<fa::TensorSpec>(
    const fa::AttentionShape&)>;
FA_COMPILED_ONCE_ATTENTION template class std::function<std::optional<std::string>(const fa::AttentionShape&,
                                                                                   const fa::TensorMap&)>;

FA_COMPILED_ONCE_ATTENTION template class std::vector<fa::Variant<fa::MaskedAttention>>;
FA_COMPILED_ONCE_ATTENTION template class std::function<void(const fa::MaskedAttention::Args&, cudaStream_t)>;
FA_COMPILED_ONCE_ATTENTION template class std::function<fa::Traffic(const fa::MaskedShape&)>;
FA_COMPILED_ONCE_ATTENTION template class std::function<fa::DeviceNeeds(const fa::MaskedShape&)>;
FA_COMPILED_ONCE_ATTENTION template class std::function<std::optional<fa::Refusal>(const fa::MaskedShape&)>;
FA_COMPILED_ONCE_ATTENTION template class std::function<std::vector<fa::TensorSpec>(const fa::MaskedShape&)>;
FA_COMPILED_ONCE_ATTENTION template class std::function<std::optional<std::string>(const fa::MaskedShape&,
                                                                                   const fa::TensorMap&)>;

FA_COMPILED_ONCE_ATTENTION template class std::vector<fa::Variant<fa::DecodingAttention>>;
FA_COMPILED_ONCE_ATTENTION template class std::function<void(const fa::DecodingAttention::Args&,
                                                             cudaStream_t)>;
FA_COMPILED_ONCE_ATTENTION template class std::function<fa::Traffic(const fa::DecodingShape&)>;
FA_COMPILED_ONCE_ATTENTION template class std::function<fa::DeviceNeeds(const fa::DecodingShape&)>;
FA_COMPILED_ONCE_ATTENTION template class std::function<std::optional<fa::Refusal>(const fa::DecodingShape&)>;
FA_COMPILED_ONCE_ATTENTION template class std::function<std::vector<fa::TensorSpec>(
    const fa::DecodingShape&)>;
FA_COMPILED_ONCE_ATTENTION template class std::function<std::optional<std::string>(const fa::DecodingShape&,
                                                                                   const fa::TensorMap&)>;
