/// @file
/// The runtime API: copies and fills.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "gpusim/runtime/api.hpp"
#include "gpusim/runtime/arena.hpp"
#include "gpusim/runtime/host_memory.hpp"
#include "gpusim/runtime/streams.hpp"

namespace gpusim::api {
namespace {

bool is_in_arena(const void* p) { return Arena::instance().contains(reinterpret_cast<std::uintptr_t>(p)); }

/// Whether [p, p + bytes) is in one live allocation, or is host memory, which the simulator does not check.
bool is_valid_range(const void* p, std::size_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  return !is_in_arena(p) || Arena::instance().find(address, bytes) != 0;
}

/// Whether a copy may take this side to be the device's, or the host's. The runtime knows pointers of pinned
/// and managed memory, which are both.
bool can_be(const void* p, bool on_device) {
  switch (place_of(p)) {
    case Place::kHost: return !on_device;
    case Place::kPinned:
    case Place::kManaged: return true;
    case Place::kDevice:
    case Place::kVariable: return on_device;
  }
  return false;
}

/// The operation that has begun uses these bytes, if they are the device's.
void use(const void* p, std::size_t bytes, Use use) {
  if (is_in_arena(p))
    Streams::instance().use(reinterpret_cast<std::uintptr_t>(p) - Arena::instance().base(), bytes, use);
}

struct Fill {
  void* to;
  int value;
  std::size_t bytes;
  std::size_t rows = 1, slices = 1, pitch = 0, slice = 0;
};

cudaError_t fill(const Fill& f, cudaStream_t stream, const HostCall& call) {
  const gpusim::OneHostThread turn;
  if (f.bytes == 0 || f.rows == 0 || f.slices == 0) return cudaSuccess;
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  if (f.rows > 1 && f.pitch < f.bytes) return result(cudaErrorInvalidPitchValue);
  auto* const first = static_cast<std::byte*>(f.to);
  const auto row = [=](std::size_t slice, std::size_t r) { return first + slice * f.slice + r * f.pitch; };
  for (std::size_t slice = 0; slice < f.slices; ++slice) {
    for (std::size_t r = 0; r < f.rows; ++r) {
      if (place_of(row(slice, r)) == Place::kHost || !is_valid_range(row(slice, r), f.bytes))
        return result(cudaErrorInvalidValue);
    }
  }
  return enqueue(stream, cudaGraphNodeTypeMemset, [=](cudaStream_t in) {
    const HostRuntime runtime;
    Streams::instance().begin(in, call);
    for (std::size_t slice = 0; slice < f.slices; ++slice) {
      for (std::size_t r = 0; r < f.rows; ++r) {
        std::byte* const to = row(slice, r);
        use(to, f.bytes, Use::kWrite);
        std::memset(to, f.value, f.bytes);
        if (is_in_arena(to)) Arena::instance().mark(reinterpret_cast<std::uintptr_t>(to), f.bytes, true);
      }
    }
    return cudaSuccess;
  });
}

}  // namespace

cudaError_t check_copy(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (kind != cudaMemcpyDefault) {
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (!can_be(to, to_device) || !can_be(from, from_device)) return cudaErrorInvalidValue;
  }
  return is_valid_range(to, bytes) && is_valid_range(from, bytes) ? cudaSuccess : cudaErrorInvalidValue;
}

void copy_checked(void* to, const void* from, std::size_t bytes) {
  use(from, bytes, Use::kRead);
  use(to, bytes, Use::kWrite);
  std::memmove(to, from, bytes);
  if (is_in_arena(to)) Arena::instance().mark(reinterpret_cast<std::uintptr_t>(to), bytes, true);
}

cudaError_t copy(const Copy& c, cudaStream_t stream, const HostCall& call, bool waits) {
  const gpusim::OneHostThread turn;
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  if (c.rows > 1 && (c.to_pitch < c.bytes || c.from_pitch < c.bytes))
    return result(cudaErrorInvalidPitchValue);
  if (waits && is_any_capturing()) return result(cudaErrorStreamCaptureImplicit);
  const bool is_empty = c.bytes == 0 || c.rows == 0 || c.slices == 0;
  const auto for_each_row = [](const Copy& all, auto f) {
    for (std::size_t slice = 0; slice < all.slices; ++slice) {
      for (std::size_t row = 0; row < all.rows; ++row) {
        f(static_cast<std::byte*>(all.to) + slice * all.to_slice + row * all.to_pitch,
          static_cast<const std::byte*>(all.from) + slice * all.from_slice + row * all.from_pitch);
      }
    }
  };
  if (!is_empty) {
    cudaError_t error = cudaSuccess;
    for_each_row(c, [&](std::byte* to, const std::byte* from) {
      if (error == cudaSuccess) error = check_copy(to, from, c.bytes, c.kind);
    });
    if (error != cudaSuccess) return result(error);
    error = enqueue(stream, cudaGraphNodeTypeMemcpy, [=](cudaStream_t in) {
      const HostRuntime runtime;
      Streams::instance().begin(in, call);
      for_each_row(c, [&](std::byte* to, const std::byte* from) {
        copy_checked(to, from, c.bytes);
        if (waits) return;
        Streams::instance().use_pinned(to, c.bytes, Use::kWrite);
        Streams::instance().use_pinned(from, c.bytes, Use::kRead);
      });
      return cudaSuccess;
    });
    if (error != cudaSuccess) return error;
  }
  if (!waits) return cudaSuccess;
  Streams::instance().synchronize(nullptr);
  return result(device_error());
}

namespace {

/// A box of memory with pitch, or of an array: where it begins, and bytes per row and slice.
struct Side {
  std::byte* begin;
  std::size_t pitch, slice, element_bytes;
};
Side side_of(const Array* array, cudaPos at, const cudaPitchedPtr& pointer) {
  if (array == nullptr) {
    const std::size_t slice = pointer.pitch * pointer.ysize;
    return {static_cast<std::byte*>(pointer.ptr) + at.x + at.y * pointer.pitch + at.z * slice, pointer.pitch,
            slice, 1};
  }
  const std::size_t element = array->element_bytes();
  return {array->data + at.x * element + at.y * array->row_bytes() + at.z * array->slice_bytes(),
          array->row_bytes(), array->slice_bytes(), element};
}

cudaError_t copy_box(const cudaMemcpy3DParms& p, cudaStream_t stream, const HostCall& call, bool waits) {
  const Side to = side_of(p.dstArray, p.dstPos, p.dstPtr), from = side_of(p.srcArray, p.srcPos, p.srcPtr);
  const std::size_t element = std::max(to.element_bytes, from.element_bytes);
  return copy({to.begin, from.begin, p.extent.width * element, p.extent.height, p.extent.depth, to.pitch,
               from.pitch, to.slice, from.slice, p.kind},
              stream, call, waits);
}

}  // namespace
}  // namespace gpusim::api

using gpusim::api::copy;
using gpusim::api::fill;

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return copy({.to = to, .from = from, .bytes = bytes, .kind = kind}, nullptr,
              {__func__, __builtin_return_address(0)}, true);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy({.to = to, .from = from, .bytes = bytes, .kind = kind}, stream,
              {__func__, __builtin_return_address(0)}, false);
}
cudaError_t cudaMemcpyPeer(void* to, int, const void* from, int, std::size_t bytes) {
  return copy({.to = to, .from = from, .bytes = bytes}, nullptr, {__func__, __builtin_return_address(0)},
              true);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, std::size_t bytes,
                                cudaStream_t stream) {
  return copy({.to = to, .from = from, .bytes = bytes}, stream, {__func__, __builtin_return_address(0)},
              false);
}

cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  if (width > to_pitch || width > from_pitch) return gpusim::api::result(cudaErrorInvalidPitchValue);
  return copy({to, from, width, height, 1, to_pitch, from_pitch, 0, 0, kind}, nullptr,
              {__func__, __builtin_return_address(0)}, true);
}
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) return gpusim::api::result(cudaErrorInvalidPitchValue);
  return copy({to, from, width, height, 1, to_pitch, from_pitch, 0, 0, kind}, stream,
              {__func__, __builtin_return_address(0)}, false);
}
cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* p) {
  return gpusim::api::copy_box(*p, nullptr, {__func__, __builtin_return_address(0)}, true);
}
cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t stream) {
  return gpusim::api::copy_box(*p, stream, {__func__, __builtin_return_address(0)}, false);
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return fill({to, value, bytes}, nullptr, {__func__, __builtin_return_address(0)});
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return fill({to, value, bytes}, stream, {__func__, __builtin_return_address(0)});
}
cudaError_t cudaMemset2D(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height) {
  return fill({to, value, width, height, 1, pitch}, nullptr, {__func__, __builtin_return_address(0)});
}
cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height,
                              cudaStream_t stream) {
  return fill({to, value, width, height, 1, pitch}, stream, {__func__, __builtin_return_address(0)});
}
cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
  return cudaMemset3DAsync(to, value, extent, nullptr);
}
cudaError_t cudaMemset3DAsync(cudaPitchedPtr to, int value, cudaExtent extent, cudaStream_t stream) {
  return fill({to.ptr, value, extent.width, extent.height, extent.depth, to.pitch, to.pitch * to.ysize},
              stream, {__func__, __builtin_return_address(0)});
}

// ---- variables of the device ------------------------------------------------------------------------------

namespace gpusim::api {
namespace {

/// @param kind  as the caller gives it; the other side decides
cudaError_t copy_symbol(void* to, const void* from, const void* symbol, std::size_t bytes,
                        cudaMemcpyKind kind, cudaStream_t stream, const HostCall& call, bool waits) {
  const auto address = reinterpret_cast<std::uintptr_t>(symbol);
  const bool writes_symbol = symbol == to;
  // `&variable` instead of `variable` is a temporary object on the stack.
  const bool is_temporary =
      address - reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) < (8 << 20);
  if (is_temporary || (writes_symbol && is_constant(address))) return result(cudaErrorInvalidSymbol);
  const bool allowed = kind == cudaMemcpyDefault || kind == cudaMemcpyDeviceToDevice ||
                       kind == (writes_symbol ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost);
  if (!allowed) return result(cudaErrorInvalidMemcpyDirection);
  const void* const other = writes_symbol ? from : to;
  if (kind != cudaMemcpyDefault && !can_be(other, kind == cudaMemcpyDeviceToDevice))
    return result(cudaErrorInvalidValue);
  return copy({.to = to, .from = from, .bytes = bytes}, stream, call, waits);
}

std::byte* at(const void* symbol, std::size_t offset) {
  return static_cast<std::byte*>(const_cast<void*>(symbol)) + offset;
}

}  // namespace
}  // namespace gpusim::api

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes, std::size_t offset,
                               cudaMemcpyKind kind) {
  std::byte* const to = gpusim::api::at(symbol, offset);
  return gpusim::api::copy_symbol(to, from, to, bytes, kind, nullptr, {__func__, __builtin_return_address(0)},
                                  true);
}
cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                                 cudaMemcpyKind kind) {
  std::byte* const from = gpusim::api::at(symbol, offset);
  return gpusim::api::copy_symbol(to, from, from, bytes, kind, nullptr,
                                  {__func__, __builtin_return_address(0)}, true);
}
cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t bytes,
                                    std::size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  std::byte* const to = gpusim::api::at(symbol, offset);
  return gpusim::api::copy_symbol(to, from, to, bytes, kind, stream, {__func__, __builtin_return_address(0)},
                                  false);
}
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, std::size_t bytes, std::size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  std::byte* const from = gpusim::api::at(symbol, offset);
  return gpusim::api::copy_symbol(to, from, from, bytes, kind, stream,
                                  {__func__, __builtin_return_address(0)}, false);
}
cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  *address = const_cast<void*>(symbol);
  return cudaSuccess;
}
cudaError_t cudaGetSymbolSize(std::size_t* bytes, const void* symbol) {
  static_cast<void>(symbol);
  *bytes = 0;
  return gpusim::api::result(cudaErrorInvalidSymbol);
}
