/// @file
/// What a texture or a surface object stands for.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace gpusim {

struct Texture {
  const std::byte* data;
  cudaChannelFormatDesc format;
  std::size_t width, height, depth;  ///< at least 1; the depth is the number of layers, if it has layers
  std::size_t pitch;                 ///< bytes from row to row
  cudaResourceDesc resource;
  cudaTextureDesc how;

  std::size_t element_bytes() const { return std::size_t(format.x + format.y + format.z + format.w) / 8; }
  const std::byte* element(std::size_t x, std::size_t y, std::size_t z) const {
    return data + (z * height + y) * pitch + x * element_bytes();
  }
};

}  // namespace gpusim
