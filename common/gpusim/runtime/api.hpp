/// @file
/// What the parts of the runtime API share (api*.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "gpusim/runtime/streams.hpp"

namespace gpusim::api {

/// Without cudaFuncSetAttribute(), no launch has more dynamic shared memory.
inline constexpr std::size_t kDefaultDynamicShared = 48 * 1024;

/// Remembers an error for cudaGetLastError(). @return  the same error
cudaError_t result(cudaError_t error);

/// An error that a kernel has met, as a failed assert() is: the next call that waits for it returns it. A GPU
/// would return it from then on; here, the next launch begins anew.
void fail_device(cudaError_t error);
cudaError_t device_error();

/// The stream that a handle stands for: nullptr for the default one.
cudaStream_t resolve(cudaStream_t stream);
/// Whether a handle stands for a stream that exists.
bool is_stream(cudaStream_t stream);

/// Where a pointer leads.
enum class Place { kHost, kPinned, kDevice, kManaged, kVariable };
Place place_of(const void* pointer);
inline bool is_on_device(Place place) { return place != Place::kHost && place != Place::kPinned; }

/// The dynamic shared memory that a kernel may have.
std::size_t dynamic_limit(const void* kernel);

/// Runs an operation now, or puts it into the graph that its stream is being captured into.
/// @param operation  gets the stream in which it runs
cudaError_t enqueue(cudaStream_t stream, cudaGraphNodeType type,
                    const std::function<cudaError_t(cudaStream_t)>& operation);
/// Whether a stream is being captured.
bool is_capturing(cudaStream_t stream);
/// Of any stream: what waits for the device is not allowed then.
bool is_any_capturing();
/// An event is recorded in a stream that is being captured, and a stream waits for such an event. @return
/// false if neither is
bool capture_event(cudaEvent_t event, cudaStream_t stream);
bool capture_wait(cudaStream_t stream, cudaEvent_t event);

/// One copy of contiguous bytes, checked, within an operation that has begun.
cudaError_t check_copy(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
void copy_checked(void* to, const void* from, std::size_t bytes);

/// A copy with one name for the reports: `rows` rows in each of `slices` slices.
struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;  ///< of a row
  std::size_t rows = 1, slices = 1;
  std::size_t to_pitch = 0, from_pitch = 0;  ///< bytes from row to row
  std::size_t to_slice = 0, from_slice = 0;
  cudaMemcpyKind kind = cudaMemcpyDefault;
};
/// @param call  as reports name it    @param waits  whether the host waits for it
cudaError_t copy(const Copy& what, cudaStream_t stream, const HostCall& call, bool waits);

/// A cudaArray: rows without gaps, in the device's memory.
struct Array {
  cudaChannelFormatDesc format;
  std::size_t width, height, depth;  ///< in elements; height and depth are 0 if there are none
  unsigned flags;
  std::byte* data;

  std::size_t element_bytes() const { return std::size_t(format.x + format.y + format.z + format.w) / 8; }
  std::size_t row_bytes() const { return width * element_bytes(); }
  std::size_t slice_bytes() const { return row_bytes() * (height == 0 ? 1 : height); }
};

}  // namespace gpusim::api

/// What a cudaArray_t points to.
struct cudaArray : gpusim::api::Array {};
