/// @file
/// Has the driver encode a tensor map. Taught by chapter 09.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "device/launch.cuh"
#include "device/tensor_map_rules.hpp"

namespace fa {

/// Encodes a tensor map.
/// @param encode  encode(f) calls f, the driver's cuTensorMapEncodeTiled or a function with its parameters,
///   with the description of the map
/// @param what    the tensor and the boxes in words, for the message
/// @throws std::invalid_argument  if the driver refuses the map; std::runtime_error  if it is too old
template <class Encode>
void encode_tensor_map(const Encode& encode, const std::string& what) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  FA_CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                 cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess)
    throw std::runtime_error("the driver has no cuTensorMapEncodeTiled: it must be of CUDA 12 or newer");
  std::string reason = encode(broken_tensor_map_rule);
  if (reason.empty()) {
    const CUresult status = encode(reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function));
    if (status == CUDA_SUCCESS) return;
    reason = "the driver refuses it with error " + std::to_string(int(status));
  }
  throw std::invalid_argument("no tensor map for " + what + ": " + reason);
}

}  // namespace fa
