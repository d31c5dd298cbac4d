/// @file
/// The runtime API: streams and events.
#include <algorithm>
#include <chrono>
#include <set>

#include "gpusim/runtime/api.hpp"
#include "gpusim/runtime/host_memory.hpp"
#include "gpusim/runtime/streams.hpp"

struct CUstream_st {
  unsigned flags = 0;
  int priority = 0;
};
struct CUevent_st {
  std::chrono::steady_clock::time_point time;
  unsigned flags = 0;
  bool recorded = false;
};

namespace gpusim::api {
namespace {

constexpr int kHighestPriority = -5;

/// Only for a thread that has its turn.
std::set<cudaStream_t>& streams() {
  static auto* all = new std::set<cudaStream_t>;
  return *all;
}

cudaStream_t create_stream(unsigned flags, int priority) {
  const OneHostThread turn;
  auto* const stream = new CUstream_st{flags, priority};
  streams().insert(stream);
  Streams::instance().create(stream, (flags & cudaStreamNonBlocking) == 0);
  return stream;
}

}  // namespace

cudaStream_t resolve(cudaStream_t stream) {
  if (stream == cudaStreamLegacy) return nullptr;
  if (stream != cudaStreamPerThread) return stream;
  thread_local const cudaStream_t own = create_stream(0, 0);
  return own;
}

bool is_stream(cudaStream_t stream) {
  const OneHostThread turn;
  return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread ||
         streams().count(stream) != 0;
}

}  // namespace gpusim::api

using gpusim::Streams;
using gpusim::api::is_stream;
using gpusim::api::resolve;
using gpusim::api::result;

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  if (stream == nullptr || flags > cudaStreamNonBlocking) return result(cudaErrorInvalidValue);
  *stream = gpusim::api::create_stream(flags, std::clamp(priority, gpusim::api::kHighestPriority, 0));
  return cudaSuccess;
}
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int* flags) {
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  *flags = resolve(stream) == nullptr ? 0 : resolve(stream)->flags;
  return cudaSuccess;
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  *priority = resolve(stream) == nullptr ? 0 : resolve(stream)->priority;
  return cudaSuccess;
}
/// Attributes say how fast a stream may be, and nothing of that is simulated.
cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID, const cudaStreamAttrValue* value) {
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  return result(value == nullptr ? cudaErrorInvalidValue : cudaSuccess);
}
cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaStreamAttrID attribute,
                                   cudaStreamAttrValue* value) {
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  if (value == nullptr) return result(cudaErrorInvalidValue);
  *value = {};
  if (attribute == cudaStreamAttributePriority) return cudaStreamGetPriority(stream, &value->priority);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const gpusim::OneHostThread turn;
  if (gpusim::api::streams().erase(stream) == 0) return result(cudaErrorInvalidResourceHandle);
  Streams::instance().destroy(stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  if (gpusim::api::is_capturing(stream)) return result(cudaErrorStreamCaptureUnsupported);
  Streams::instance().synchronize(resolve(stream));
  return result(gpusim::api::device_error());
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  if (!is_stream(stream) || event == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (!gpusim::api::capture_wait(stream, event)) Streams::instance().wait(resolve(stream), event);
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  if (function == nullptr) return result(cudaErrorInvalidValue);
  return gpusim::api::enqueue(stream, cudaGraphNodeTypeHost, [function, data](cudaStream_t in) {
    // The function runs after what is before it in its stream, and so may use what that has written.
    Streams::instance().synchronize(in);
    function(data);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned int) {
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  return gpusim::api::enqueue(stream, cudaGraphNodeTypeHost, [=](cudaStream_t in) {
    Streams::instance().synchronize(in);
    callback(stream, cudaSuccess, data);
    return cudaSuccess;
  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  if (event == nullptr) return result(cudaErrorInvalidValue);
  *event = new CUevent_st{{}, flags};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return result(cudaErrorInvalidResourceHandle);
  Streams::instance().forget_event(event);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (!is_stream(stream) || event == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (gpusim::api::capture_event(event, stream)) return cudaSuccess;
  Streams::instance().record(event, resolve(stream));
  event->time = std::chrono::steady_clock::now();
  event->recorded = true;
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int) {
  return cudaEventRecord(event, stream);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event == nullptr) return result(cudaErrorInvalidResourceHandle);
  Streams::instance().synchronize_event(event);
  return result(gpusim::api::device_error());
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }

/// The time of the simulation, which says nothing about a GPU. It is never 0, because programs divide by it.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (start == nullptr || end == nullptr || !start->recorded || !end->recorded ||
      ((start->flags | end->flags) & cudaEventDisableTiming) != 0)
    return result(cudaErrorInvalidResourceHandle);
  constexpr float kResolution = 0.0005f;
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
  if (end->time >= start->time) *milliseconds = std::max(*milliseconds, kResolution);
  return cudaSuccess;
}
