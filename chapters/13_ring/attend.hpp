/// @file
/// Attention on one GPU, by the kernels of earlier chapters: what this chapter distributes.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "attention/attention.hpp"
#include "attention/attention_backward.hpp"
#include "attention/tensor.hpp"
#include "attention/traffic.hpp"
#include "harness/chapter.hpp"

namespace fa::ch13 {

/// The kernels of two chapters, one for each pass. They take any strides.
struct Engine {
  using Args = AttentionForward::Args;

  std::string chapters;  ///< "09, 10"

  /// Enqueues O and LSE.
  void (*forward)(const Args&, cudaStream_t);
  /// Enqueues dQ, dK and dV, given LSE and O of *all* keys: the gradients are sums over the keys, or queries,
  /// of the call.
  void (*backward)(const Args&, cudaStream_t);

  /// What the kernels leave for each other. A call with fewer queries and keys needs no more than one with
  /// many.
  std::vector<TensorSpec> (*forward_workspace)(const AttentionShape&);
  std::vector<TensorSpec> (*backward_workspace)(const AttentionShape&);

  /// The bytes of one call.
  Traffic (*forward_traffic)(const AttentionShape&);
  Traffic (*backward_traffic)(const AttentionShape&);

  /// Why the kernels cannot run a shape; nothing if they can.
  std::optional<Refusal> (*refuse)(const AttentionShape&);
  DeviceNeeds (*needs)(const AttentionShape&);
};

/// Chapters 07 and 08: GPUs from sm_80 on.
extern const Engine kMmaEngine;
/// Chapters 09 and 10: sm_90.
extern const Engine kHopperEngine;

/// The faster one that runs on this device.
/// @throws CudaError  if there is no device
const Engine& engine_of_device();

}  // namespace fa::ch13
