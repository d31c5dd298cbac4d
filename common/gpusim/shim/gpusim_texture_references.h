/// @file
/// Texture references, `texture<float, 2> name;`, which CUDA had until version 11: `gpusim run` includes this
/// for sources that use them. Each stands for a texture object, which is made when something is bound.
#pragma once

#include "cuda_runtime.h"

#define cudaTextureType1D 0x01
#define cudaTextureType2D 0x02
#define cudaTextureType3D 0x03
#define cudaTextureType1DLayered 0xF1
#define cudaTextureType2DLayered 0xF2

struct textureReference {
  int normalized = 0;
  cudaTextureFilterMode filterMode = cudaFilterModePoint;
  cudaTextureAddressMode addressMode[3] = {cudaAddressModeClamp, cudaAddressModeClamp, cudaAddressModeClamp};
  cudaChannelFormatDesc channelDesc = {};
  int sRGB = 0;
  cudaTextureReadMode gpusim_mode = cudaReadModeElementType;
  cudaTextureObject_t gpusim_object = 0;  ///< 0: nothing is bound
};

template <class T, int kType = cudaTextureType1D, cudaTextureReadMode kMode = cudaReadModeElementType>
struct texture : textureReference {
  texture() { gpusim_mode = kMode; }
  texture(int normalized_coordinates, cudaTextureFilterMode filter, cudaTextureAddressMode address)
      : texture() {
    normalized = normalized_coordinates;
    filterMode = filter;
    addressMode[0] = addressMode[1] = addressMode[2] = address;
  }
};

namespace gpusim::device {
/// Without hooks: the reference is a variable of the host.
cudaTextureObject_t object_of_reference(const void* object);
}  // namespace gpusim::device

namespace gpusim::references {

/// What a fetch returns: T, or floats in its place.
template <class T, cudaTextureReadMode kMode>
struct Fetched {
  using type = T;
};
#define GPUSIM_NORMALIZED(type_1, name, result)          \
  template <>                                            \
  struct Fetched<type_1, cudaReadModeNormalizedFloat> {  \
    using type = float;                                  \
  };                                                     \
  template <>                                            \
  struct Fetched<name##1, cudaReadModeNormalizedFloat> { \
    using type = float1;                                 \
  };                                                     \
  template <>                                            \
  struct Fetched<name##2, cudaReadModeNormalizedFloat> { \
    using type = float2;                                 \
  };                                                     \
  template <>                                            \
  struct Fetched<name##4, cudaReadModeNormalizedFloat> { \
    using type = float4;                                 \
  };
GPUSIM_NORMALIZED(signed char, char, float)
GPUSIM_NORMALIZED(unsigned char, uchar, float)
GPUSIM_NORMALIZED(short, short, float)
GPUSIM_NORMALIZED(unsigned short, ushort, float)
#undef GPUSIM_NORMALIZED
template <class T, cudaTextureReadMode kMode>
using fetched_t = typename Fetched<T, kMode>::type;

inline cudaError_t bind(textureReference& to, const cudaResourceDesc& resource) {
  if (to.gpusim_object != 0) cudaDestroyTextureObject(to.gpusim_object);
  to.gpusim_object = 0;
  cudaTextureDesc how = {};
  for (int i = 0; i < 3; ++i) how.addressMode[i] = to.addressMode[i];
  how.filterMode = to.filterMode;
  how.readMode = to.gpusim_mode;
  how.normalizedCoords = to.normalized;
  return cudaCreateTextureObject(&to.gpusim_object, &resource, &how, nullptr);
}

}  // namespace gpusim::references

template <class T, int kType, cudaTextureReadMode kMode>
cudaError_t cudaBindTexture(size_t* offset, texture<T, kType, kMode>& to, const void* pointer,
                            const cudaChannelFormatDesc& format, size_t bytes = 0xffffffffu) {
  if (offset != nullptr) *offset = 0;
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeLinear;
  resource.res.linear.devPtr = const_cast<void*>(pointer);
  resource.res.linear.desc = format;
  resource.res.linear.sizeInBytes = bytes;
  return gpusim::references::bind(to, resource);
}
template <class T, int kType, cudaTextureReadMode kMode>
cudaError_t cudaBindTexture(size_t* offset, texture<T, kType, kMode>& to, const void* pointer,
                            size_t bytes = 0xffffffffu) {
  return cudaBindTexture(offset, to, pointer, cudaCreateChannelDesc<T>(), bytes);
}
template <class T, int kType, cudaTextureReadMode kMode>
cudaError_t cudaBindTexture2D(size_t* offset, texture<T, kType, kMode>& to, const void* pointer,
                              const cudaChannelFormatDesc& format, size_t width, size_t height,
                              size_t pitch) {
  if (offset != nullptr) *offset = 0;
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypePitch2D;
  resource.res.pitch2D.devPtr = const_cast<void*>(pointer);
  resource.res.pitch2D.desc = format;
  resource.res.pitch2D.width = width;
  resource.res.pitch2D.height = height;
  resource.res.pitch2D.pitchInBytes = pitch;
  return gpusim::references::bind(to, resource);
}
template <class T, int kType, cudaTextureReadMode kMode>
cudaError_t cudaBindTexture2D(size_t* offset, texture<T, kType, kMode>& to, const void* pointer, size_t width,
                              size_t height, size_t pitch) {
  return cudaBindTexture2D(offset, to, pointer, cudaCreateChannelDesc<T>(), width, height, pitch);
}
template <class T, int kType, cudaTextureReadMode kMode>
cudaError_t cudaBindTextureToArray(texture<T, kType, kMode>& to, cudaArray_const_t array) {
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = const_cast<cudaArray_t>(array);
  return gpusim::references::bind(to, resource);
}
template <class T, int kType, cudaTextureReadMode kMode>
cudaError_t cudaBindTextureToArray(texture<T, kType, kMode>& to, cudaArray_const_t array,
                                   const cudaChannelFormatDesc&) {
  return cudaBindTextureToArray(to, array);
}
inline cudaError_t cudaUnbindTexture(textureReference& reference) {
  if (reference.gpusim_object != 0) cudaDestroyTextureObject(reference.gpusim_object);
  reference.gpusim_object = 0;
  return cudaSuccess;
}

#define GPUSIM_REFERENCE_FETCH(name, parameters, arguments)                                             \
  template <class T, int kType, cudaTextureReadMode kMode>                                              \
  GPUSIM_INLINE gpusim::references::fetched_t<T, kMode> name(const texture<T, kType, kMode>& reference, \
                                                             GPUSIM_UNPACK parameters) {                \
    return name<gpusim::references::fetched_t<T, kMode>>(                                               \
        gpusim::device::object_of_reference(&reference.gpusim_object), GPUSIM_UNPACK arguments);        \
  }
#define GPUSIM_UNPACK(...) __VA_ARGS__
GPUSIM_REFERENCE_FETCH(tex1Dfetch, (int x), (x))
GPUSIM_REFERENCE_FETCH(tex1D, (float x), (x))
GPUSIM_REFERENCE_FETCH(tex2D, (float x, float y), (x, y))
GPUSIM_REFERENCE_FETCH(tex3D, (float x, float y, float z), (x, y, z))
GPUSIM_REFERENCE_FETCH(tex1DLayered, (float x, int layer), (x, layer))
GPUSIM_REFERENCE_FETCH(tex2DLayered, (float x, float y, int layer), (x, y, layer))
#undef GPUSIM_UNPACK
#undef GPUSIM_REFERENCE_FETCH
