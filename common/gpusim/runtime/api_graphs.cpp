/// @file
/// The runtime API: graphs. A graph is a list of operations, which run in the order in which they came: each
/// comes after those that it depends on. What a GPU would run in parallel is not compared.
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "gpusim/runtime/api.hpp"

struct CUgraphNode_st {
  cudaGraphNodeType type;
  std::function<cudaError_t(cudaStream_t)> operation;
};
struct CUgraph_st {
  std::vector<std::shared_ptr<CUgraphNode_st>> nodes;
};
struct CUgraphExec_st {
  std::vector<std::shared_ptr<CUgraphNode_st>> nodes;
  std::map<cudaGraphNode_t, std::size_t> positions;  ///< of the graph's nodes

  explicit CUgraphExec_st(const CUgraph_st& graph) : nodes(graph.nodes) {
    for (std::size_t i = 0; i < nodes.size(); ++i) positions[nodes[i].get()] = i;
  }
};

namespace gpusim::device {
cudaError_t launch_by_address(const cudaLaunchConfig_t& config, const void* kernel, void** arguments);
}

namespace gpusim::api {
namespace {

/// Streams that are being captured, and events in them, by the graph that they belong to.
struct Captures {
  std::map<cudaStream_t, CUgraph_st*> streams;
  std::map<cudaStream_t, CUgraph_st*> origins;
  std::map<cudaEvent_t, CUgraph_st*> events;
  CUgraph_st* all = nullptr;  ///< gets what any stream does

  CUgraph_st* of(cudaStream_t stream) const {
    const auto found = streams.find(stream);
    return found == streams.end() ? nullptr : found->second;
  }
  void forget(const CUgraph_st* graph) {
    for (auto* const map : {&streams, &origins})
      for (auto it = map->begin(); it != map->end();)
        it = it->second == graph ? map->erase(it) : std::next(it);
    for (auto it = events.begin(); it != events.end();)
      it = it->second == graph ? events.erase(it) : std::next(it);
  }
};
Captures& captures() {
  static auto* all = new Captures;
  return *all;
}

cudaGraphNode_t add(cudaGraph_t graph, cudaGraphNodeType type,
                    std::function<cudaError_t(cudaStream_t)> operation) {
  graph->nodes.push_back(std::make_shared<CUgraphNode_st>(CUgraphNode_st{type, std::move(operation)}));
  return graph->nodes.back().get();
}

cudaError_t add_node(cudaGraphNode_t* node, cudaGraph_t graph, cudaGraphNodeType type,
                     std::function<cudaError_t(cudaStream_t)> operation) {
  if (node == nullptr || graph == nullptr) return result(cudaErrorInvalidValue);
  *node = add(graph, type, std::move(operation));
  return cudaSuccess;
}

}  // namespace

bool is_capturing(cudaStream_t stream) { return captures().of(resolve(stream)) != nullptr; }
bool is_any_capturing() { return captures().all != nullptr || !captures().streams.empty(); }

bool capture_event(cudaEvent_t event, cudaStream_t stream) {
  if (!is_any_capturing()) return false;
  captures().events.erase(event);
  CUgraph_st* const graph = captures().of(resolve(stream));
  if (graph == nullptr) return false;
  captures().events[event] = graph;
  return true;
}
bool capture_wait(cudaStream_t stream, cudaEvent_t event) {
  const auto found = captures().events.find(event);
  if (found == captures().events.end())
    return is_capturing(stream);  // what is outside of a graph comes before it
  captures().streams[resolve(stream)] = found->second;
  return true;
}

cudaError_t enqueue(cudaStream_t stream, cudaGraphNodeType type,
                    const std::function<cudaError_t(cudaStream_t)>& operation) {
  const cudaStream_t in = resolve(stream);
  if (is_any_capturing()) {
    if (CUgraph_st* const graph = captures().all != nullptr ? captures().all : captures().of(in)) {
      add(graph, type, operation);
      return cudaSuccess;
    }
    if (in == nullptr) return result(cudaErrorStreamCaptureImplicit);
  }
  return operation(in);
}

}  // namespace gpusim::api

using gpusim::api::captures;
using gpusim::api::is_stream;
using gpusim::api::resolve;
using gpusim::api::result;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  const cudaStream_t in = resolve(stream);
  if (in == nullptr) return result(cudaErrorStreamCaptureUnsupported);
  if (captures().of(in) != nullptr) return result(cudaErrorIllegalState);
  captures().streams[in] = captures().origins[in] = new CUgraph_st;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const auto origin = captures().origins.find(resolve(stream));
  if (origin == captures().origins.end()) {
    return result(captures().of(resolve(stream)) == nullptr ? cudaErrorIllegalState
                                                            : cudaErrorStreamCaptureUnmatched);
  }
  *graph = origin->second;
  captures().forget(*graph);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = gpusim::api::is_capturing(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  static thread_local cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
  std::swap(*mode, current);
  return cudaSuccess;
}

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned int) {
  *graph = new CUgraph_st;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
  *clone = new CUgraph_st(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  if (nodes != nullptr) {
    *count = std::min(*count, graph->nodes.size());
    for (std::size_t i = 0; i < *count; ++i) nodes[i] = graph->nodes[i].get();
  } else {
    *count = graph->nodes.size();
  }
  return cudaSuccess;
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  *type = node->type;
  return cudaSuccess;
}

namespace gpusim::api {
namespace {

/// Puts the launch of a kernel into a graph.
cudaError_t capture_kernel(CUgraph_st& graph, const cudaKernelNodeParams& p) {
  captures().all = &graph;
  const cudaError_t error = device::launch_by_address(
      {p.gridDim, p.blockDim, p.sharedMemBytes, nullptr, nullptr, 0}, p.func, p.kernelParams);
  captures().all = nullptr;
  return error;
}

}  // namespace
}  // namespace gpusim::api

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*,
                                   std::size_t, const cudaKernelNodeParams* p) {
  if (node == nullptr || graph == nullptr || p == nullptr) return result(cudaErrorInvalidValue);
  if (const cudaError_t error = gpusim::api::capture_kernel(*graph, *p); error != cudaSuccess) return error;
  *node = graph->nodes.back().get();
  return cudaSuccess;
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t executable, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* p) {
  const auto at = executable->positions.find(node);
  if (at == executable->positions.end() || p == nullptr) return result(cudaErrorInvalidValue);
  CUgraph_st one;
  if (const cudaError_t error = gpusim::api::capture_kernel(one, *p); error != cudaSuccess) return error;
  executable->nodes[at->second] = one.nodes.back();
  return cudaSuccess;
}
cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* p) {
  CUgraph_st one;
  if (const cudaError_t error = gpusim::api::capture_kernel(one, *p); error != cudaSuccess) return error;
  *node = *one.nodes.back();
  return cudaSuccess;
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*,
                                   std::size_t, const cudaMemcpy3DParms* p) {
  return gpusim::api::add_node(node, graph, cudaGraphNodeTypeMemcpy,
                               [p = *p](cudaStream_t in) { return cudaMemcpy3DAsync(&p, in); });
}
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*,
                                     std::size_t, void* to, const void* from, std::size_t bytes,
                                     cudaMemcpyKind kind) {
  return gpusim::api::add_node(node, graph, cudaGraphNodeTypeMemcpy,
                               [=](cudaStream_t in) { return cudaMemcpyAsync(to, from, bytes, kind, in); });
}
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*,
                                   std::size_t, const cudaMemsetParams* p) {
  // Fills with a pattern of 1, 2 or 4 bytes; cudaMemset() has patterns of one byte.
  std::uint32_t pattern = p->value;
  if (p->elementSize == 1) pattern = (p->value & 0xff) * 0x01010101u;
  if (p->elementSize == 2) pattern = (p->value & 0xffff) * 0x00010001u;
  const auto byte = int(pattern & 0xff);
  if (pattern != std::uint32_t(byte) * 0x01010101u) return result(cudaErrorNotSupported);
  return gpusim::api::add_node(node, graph, cudaGraphNodeTypeMemset, [p = *p, byte](cudaStream_t in) {
    return cudaMemset2DAsync(p.dst, p.pitch, byte, p.width * p.elementSize, p.height, in);
  });
}
cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*,
                                 std::size_t, const cudaHostNodeParams* p) {
  return gpusim::api::add_node(node, graph, cudaGraphNodeTypeHost, [p = *p](cudaStream_t in) {
    return cudaLaunchHostFunc(in, p.fn, p.userData);
  });
}
cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*,
                                  std::size_t) {
  return gpusim::api::add_node(node, graph, cudaGraphNodeTypeEmpty, [](cudaStream_t) { return cudaSuccess; });
}
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t*,
                                       std::size_t, cudaGraph_t child) {
  return gpusim::api::add_node(node, graph, cudaGraphNodeTypeGraph, [nodes = child->nodes](cudaStream_t in) {
    for (const auto& each : nodes) {
      if (const cudaError_t error = each->operation(in); error != cudaSuccess) return error;
    }
    return cudaSuccess;
  });
}

/// A node that came earlier may depend on one that came later: they change places.
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, std::size_t count) {
  auto& nodes = graph->nodes;
  const auto position = [&](cudaGraphNode_t node) {
    return std::find_if(nodes.begin(), nodes.end(), [&](const auto& each) { return each.get() == node; });
  };
  for (std::size_t i = 0; i < count; ++i) {
    const auto first = position(from[i]), second = position(to[i]);
    if (first == nodes.end() || second == nodes.end()) return result(cudaErrorInvalidValue);
    if (second < first) std::rotate(second, second + 1, first + 1);
  }
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long) {
  if (executable == nullptr || graph == nullptr) return result(cudaErrorInvalidValue);
  *executable = new CUgraphExec_st(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  if (executable == nullptr) return result(cudaErrorInvalidValue);
  return gpusim::api::enqueue(stream, cudaGraphNodeTypeGraph, [nodes = executable->nodes](cudaStream_t in) {
    for (const auto& node : nodes) {
      if (const cudaError_t error = node->operation(in); error != cudaSuccess) return error;
    }
    return cudaSuccess;
  });
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* info) {
  if (info != nullptr) *info = {cudaGraphExecUpdateSuccess, nullptr, nullptr};
  *executable = CUgraphExec_st(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
