/// @file
/// Texture and surface objects, for code inside kernels: 1, 2 and 3 dimensions and layers, without mipmaps
/// and cubes. Part of <device_functions.h>.
#pragma once

#include <cstdint>
#include <type_traits>

#include "gpusim_bits.h"
#include "surface_types.h"
#include "texture_types.h"
#include "vector_types.h"

namespace gpusim::device {

/// Four components: numbers, or the bits of floats.
struct Texel {
  std::uint32_t bits[4];
};
/// The element at an index of linear memory.
Texel fetch_linear(cudaTextureObject_t texture, long long index);
/// What a texture has at a point. @param layer  -1: it has no layers    @param dimensions  of x, y and z
Texel sample(cudaTextureObject_t texture, int dimensions, float x, float y, float z, int layer);
/// One component of the four elements around a point.
Texel gather(cudaTextureObject_t texture, float x, float y, int component);
/// Where a surface has an element; null if it has none there. @param x  in bytes
void* surface_element(cudaSurfaceObject_t surface, int x, int y, int z, cudaSurfaceBoundaryMode mode,
                      std::size_t bytes);

template <class C>
GPUSIM_INLINE C component_of(const Texel& texel, int i) {
  if constexpr (std::is_floating_point_v<C>) {
    return C(gpusim::bit_cast<float>(texel.bits[i]));
  } else {
    return C(texel.bits[i]);
  }
}
/// @tparam T  a number or a vector of 1, 2 or 4
template <class T>
GPUSIM_INLINE T from_texel(const Texel& texel) {
  if constexpr (std::is_arithmetic_v<T>) {
    return component_of<T>(texel, 0);
  } else {
    using C = decltype(T::x);
    T value;
    value.x = component_of<C>(texel, 0);
    if constexpr (sizeof(T) >= 2 * sizeof(C)) value.y = component_of<C>(texel, 1);
    if constexpr (sizeof(T) >= 4 * sizeof(C)) {
      value.z = component_of<C>(texel, 2);
      value.w = component_of<C>(texel, 3);
    }
    return value;
  }
}

}  // namespace gpusim::device

template <class T>
GPUSIM_INLINE T tex1Dfetch(cudaTextureObject_t texture, int x) {
  return gpusim::device::from_texel<T>(gpusim::device::fetch_linear(texture, x));
}
#define GPUSIM_TEXTURE(name, parameters, dimensions, x, y, z, layer)                                      \
  template <class T>                                                                                      \
  GPUSIM_INLINE T name parameters {                                                                       \
    return gpusim::device::from_texel<T>(gpusim::device::sample(texture, dimensions, x, y, z, layer));    \
  }                                                                                                       \
  template <class T>                                                                                      \
  GPUSIM_INLINE void name(T* result, GPUSIM_UNPACK parameters) {                                          \
    *result = gpusim::device::from_texel<T>(gpusim::device::sample(texture, dimensions, x, y, z, layer)); \
  }
#define GPUSIM_UNPACK(...) __VA_ARGS__
GPUSIM_TEXTURE(tex1D, (cudaTextureObject_t texture, float x), 1, x, 0.0f, 0.0f, -1)
GPUSIM_TEXTURE(tex2D, (cudaTextureObject_t texture, float x, float y), 2, x, y, 0.0f, -1)
GPUSIM_TEXTURE(tex3D, (cudaTextureObject_t texture, float x, float y, float z), 3, x, y, z, -1)
GPUSIM_TEXTURE(tex1DLayered, (cudaTextureObject_t texture, float x, int layer), 1, x, 0.0f, 0.0f, layer)
GPUSIM_TEXTURE(tex2DLayered, (cudaTextureObject_t texture, float x, float y, int layer), 2, x, y, 0.0f, layer)
GPUSIM_TEXTURE(tex1DLod, (cudaTextureObject_t texture, float x, float), 1, x, 0.0f, 0.0f, -1)
GPUSIM_TEXTURE(tex2DLod, (cudaTextureObject_t texture, float x, float y, float), 2, x, y, 0.0f, -1)
GPUSIM_TEXTURE(tex3DLod, (cudaTextureObject_t texture, float x, float y, float z, float), 3, x, y, z, -1)
#undef GPUSIM_UNPACK
#undef GPUSIM_TEXTURE
template <class T>
GPUSIM_INLINE T tex2Dgather(cudaTextureObject_t texture, float x, float y, int component = 0) {
  return gpusim::device::from_texel<T>(gpusim::device::gather(texture, x, y, component));
}

#define GPUSIM_SURFACE(name, parameters, x, y, z)                                                      \
  template <class T>                                                                                   \
  GPUSIM_INLINE T surf##name##read(cudaSurfaceObject_t surface, GPUSIM_UNPACK parameters,              \
                                   cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {              \
    const void* const at = gpusim::device::surface_element(surface, x, y, z, mode, sizeof(T));         \
    return at == nullptr && mode != cudaBoundaryModeTrap ? T() : *static_cast<const T*>(at);           \
  }                                                                                                    \
  template <class T>                                                                                   \
  GPUSIM_INLINE void surf##name##read(T* value, cudaSurfaceObject_t surface, GPUSIM_UNPACK parameters, \
                                      cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {           \
    const void* const at = gpusim::device::surface_element(surface, x, y, z, mode, sizeof(T));         \
    *value = at == nullptr && mode != cudaBoundaryModeTrap ? T() : *static_cast<const T*>(at);         \
  }                                                                                                    \
  template <class T>                                                                                   \
  GPUSIM_INLINE void surf##name##write(T value, cudaSurfaceObject_t surface, GPUSIM_UNPACK parameters, \
                                       cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {          \
    void* const at = gpusim::device::surface_element(surface, x, y, z, mode, sizeof(T));               \
    if (at != nullptr || mode == cudaBoundaryModeTrap) *static_cast<T*>(at) = value;                   \
  }
#define GPUSIM_UNPACK(...) __VA_ARGS__
GPUSIM_SURFACE(1D, (int x), x, 0, 0)
GPUSIM_SURFACE(2D, (int x, int y), x, y, 0)
GPUSIM_SURFACE(3D, (int x, int y, int z), x, y, z)
GPUSIM_SURFACE(2DLayered, (int x, int y, int z), x, y, z)
#undef GPUSIM_UNPACK
#undef GPUSIM_SURFACE
