/// @file
/// The runtime API: arrays, texture and surface objects.
#include <algorithm>
#include <set>

#include "gpusim/runtime/api.hpp"
#include "gpusim/runtime/arena.hpp"
#include "gpusim/runtime/textures.hpp"

using gpusim::Arena;
using gpusim::Texture;
using gpusim::api::copy;
using gpusim::api::result;

namespace {

/// Copies to or from an array, possibly over the ends of its rows: bytes in order.
std::byte* place_in(cudaArray_const_t array, std::size_t x, std::size_t y) {
  return array->data + y * array->row_bytes() + x;
}

std::size_t at_least_one(std::size_t n) { return std::max<std::size_t>(n, 1); }

unsigned long long object_of(const Texture& texture) {
  return static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(new Texture(texture)));
}

/// @return  false if it cannot be a texture
bool describe(const cudaResourceDesc& resource, Texture& texture) {
  texture.resource = resource;
  switch (resource.resType) {
    case cudaResourceTypeArray: {
      const cudaArray* const array = resource.res.array.array;
      if (array == nullptr) return false;
      texture.data = array->data;
      texture.format = array->format;
      texture.width = array->width;
      texture.height = at_least_one(array->height);
      texture.depth = at_least_one(array->depth);
      texture.pitch = array->row_bytes();
      return true;
    }
    case cudaResourceTypeLinear:
      texture.data = static_cast<const std::byte*>(resource.res.linear.devPtr);
      texture.format = resource.res.linear.desc;
      texture.height = texture.depth = 1;
      if (texture.element_bytes() == 0) return false;
      texture.width = resource.res.linear.sizeInBytes / texture.element_bytes();
      texture.pitch = resource.res.linear.sizeInBytes;
      return texture.data != nullptr;
    case cudaResourceTypePitch2D:
      texture.data = static_cast<const std::byte*>(resource.res.pitch2D.devPtr);
      texture.format = resource.res.pitch2D.desc;
      texture.width = resource.res.pitch2D.width;
      texture.height = resource.res.pitch2D.height;
      texture.depth = 1;
      texture.pitch = resource.res.pitch2D.pitchInBytes;
      return texture.data != nullptr && texture.element_bytes() != 0;
    case cudaResourceTypeMipmappedArray: return false;
  }
  return false;
}

}  // namespace

cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind f) {
  return {x, y, z, w, f};
}
cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* format, cudaArray_const_t array) {
  *format = array->format;
  return cudaSuccess;
}

cudaError_t cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* format, cudaExtent extent,
                              unsigned int flags) {
  if (array == nullptr || format == nullptr || extent.width == 0) return result(cudaErrorInvalidValue);
  if ((flags & cudaArrayCubemap) != 0) return result(cudaErrorNotSupported);
  auto* const made = new cudaArray{{*format, extent.width, extent.height, extent.depth, flags, nullptr}};
  made->data =
      static_cast<std::byte*>(Arena::instance().allocate(made->slice_bytes() * at_least_one(extent.depth)));
  if (made->data == nullptr) {
    delete made;
    return result(cudaErrorMemoryAllocation);
  }
  *array = made;
  return cudaSuccess;
}
cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* format, std::size_t width,
                            std::size_t height, unsigned int flags) {
  return cudaMalloc3DArray(array, format, {width, height, 0}, flags);
}
cudaError_t cudaFreeArray(cudaArray_t array) {
  if (array == nullptr) return cudaSuccess;
  gpusim::Streams::instance().synchronize_all();
  Arena::instance().release(array->data);
  delete array;
  return cudaSuccess;
}
cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* format, cudaExtent* extent, unsigned int* flags,
                             cudaArray_t array) {
  if (format != nullptr) *format = array->format;
  if (extent != nullptr) *extent = {array->width, array->height, array->depth};
  if (flags != nullptr) *flags = array->flags;
  return cudaSuccess;
}

cudaError_t cudaMemcpyToArray(cudaArray_t to, std::size_t x, std::size_t y, const void* from,
                              std::size_t bytes, cudaMemcpyKind kind) {
  return copy({.to = place_in(to, x, y), .from = from, .bytes = bytes, .kind = kind}, nullptr,
              {__func__, __builtin_return_address(0)}, true);
}
cudaError_t cudaMemcpyToArrayAsync(cudaArray_t to, std::size_t x, std::size_t y, const void* from,
                                   std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return copy({.to = place_in(to, x, y), .from = from, .bytes = bytes, .kind = kind}, stream,
              {__func__, __builtin_return_address(0)}, false);
}
cudaError_t cudaMemcpyFromArray(void* to, cudaArray_const_t from, std::size_t x, std::size_t y,
                                std::size_t bytes, cudaMemcpyKind kind) {
  return copy({.to = to, .from = place_in(from, x, y), .bytes = bytes, .kind = kind}, nullptr,
              {__func__, __builtin_return_address(0)}, true);
}
cudaError_t cudaMemcpy2DToArray(cudaArray_t to, std::size_t x, std::size_t y, const void* from,
                                std::size_t from_pitch, std::size_t width, std::size_t height,
                                cudaMemcpyKind kind) {
  if (x + width > to->row_bytes()) return result(cudaErrorInvalidValue);
  return copy({place_in(to, x, y), from, width, height, 1, to->row_bytes(), from_pitch, 0, 0, kind}, nullptr,
              {__func__, __builtin_return_address(0)}, true);
}
cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, std::size_t x, std::size_t y, const void* from,
                                     std::size_t from_pitch, std::size_t width, std::size_t height,
                                     cudaMemcpyKind kind, cudaStream_t stream) {
  if (x + width > to->row_bytes()) return result(cudaErrorInvalidValue);
  return copy({place_in(to, x, y), from, width, height, 1, to->row_bytes(), from_pitch, 0, 0, kind}, stream,
              {__func__, __builtin_return_address(0)}, false);
}
cudaError_t cudaMemcpy2DFromArray(void* to, std::size_t to_pitch, cudaArray_const_t from, std::size_t x,
                                  std::size_t y, std::size_t width, std::size_t height, cudaMemcpyKind kind) {
  if (x + width > from->row_bytes()) return result(cudaErrorInvalidValue);
  return copy({to, place_in(from, x, y), width, height, 1, to_pitch, from->row_bytes(), 0, 0, kind}, nullptr,
              {__func__, __builtin_return_address(0)}, true);
}

cudaError_t cudaCreateTextureObject(cudaTextureObject_t* object, const cudaResourceDesc* resource,
                                    const cudaTextureDesc* description, const cudaResourceViewDesc* view) {
  if (object == nullptr || resource == nullptr || description == nullptr)
    return result(cudaErrorInvalidValue);
  if (view != nullptr || resource->resType == cudaResourceTypeMipmappedArray)
    return result(cudaErrorNotSupported);
  Texture texture{};
  if (!describe(*resource, texture)) return result(cudaErrorInvalidValue);
  texture.how = *description;
  const bool returns_floats =
      texture.format.f == cudaChannelFormatKindFloat || description->readMode == cudaReadModeNormalizedFloat;
  if (description->filterMode == cudaFilterModeLinear && !returns_floats)
    return result(cudaErrorInvalidFilterSetting);
  if (description->readMode == cudaReadModeNormalizedFloat &&
      (texture.format.x == 32 && texture.format.f != cudaChannelFormatKindFloat))
    return result(cudaErrorInvalidNormSetting);
  *object = object_of(texture);
  return cudaSuccess;
}
cudaError_t cudaDestroyTextureObject(cudaTextureObject_t object) {
  delete reinterpret_cast<Texture*>(object);
  return cudaSuccess;
}
cudaError_t cudaGetTextureObjectResourceDesc(cudaResourceDesc* resource, cudaTextureObject_t object) {
  *resource = reinterpret_cast<const Texture*>(object)->resource;
  return cudaSuccess;
}
cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* object, const cudaResourceDesc* resource) {
  if (object == nullptr || resource == nullptr || resource->resType != cudaResourceTypeArray)
    return result(cudaErrorInvalidValue);
  Texture texture{};
  if (!describe(*resource, texture)) return result(cudaErrorInvalidValue);
  *object = object_of(texture);
  return cudaSuccess;
}
cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t object) { return cudaDestroyTextureObject(object); }
