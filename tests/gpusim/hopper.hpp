/// @file
/// Helpers for the tests of compute capability 9.0: tensor maps.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <array>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "gpusim/gpusim.hpp"

namespace gpusim_test {

/// The text of a report as the compiler lets the simulator write it: only g++ tells what the kernel calls
/// "byte 8 of "full"".
inline std::string in_words(std::string text) {
#ifdef __clang__
  for (const std::string name : {"full", "empty"}) {
    for (int i = 0; i < 2; ++i) {
      const std::string element = name + "[" + std::to_string(i) + "]";
      for (std::size_t at = text.find(element); at != std::string::npos; at = text.find(element, at))
        text.replace(at, element.size(), "byte " + std::to_string(8 * i) + " of \"" + name + "\"");
    }
  }
#endif
  return text;
}

template <class T>
constexpr CUtensorMapDataType type_of() {
  if constexpr (std::is_same_v<T, float>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  if constexpr (std::is_same_v<T, double>) return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
  if constexpr (std::is_same_v<T, unsigned char>) return CU_TENSOR_MAP_DATA_TYPE_UINT8;
  if constexpr (std::is_same_v<T, unsigned short>) return CU_TENSOR_MAP_DATA_TYPE_UINT16;
  if constexpr (std::is_same_v<T, int>) return CU_TENSOR_MAP_DATA_TYPE_INT32;
  return CU_TENSOR_MAP_DATA_TYPE_UINT32;
}

/// A tensor of three dimensions, the innermost first. Its rows may be further apart than they are long.
struct Layout {
  std::array<cuuint64_t, 3> size;
  std::array<cuuint32_t, 3> box;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  cuuint64_t row_bytes = 0;    ///< 0: as long as a row is
  cuuint64_t plane_bytes = 0;  ///< 0: as long as all its rows
  std::array<cuuint32_t, 3> steps = {1, 1, 1};
};

template <class T>
CUtensorMap map_of(T* data, const Layout& l) {
  void* found = nullptr;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault);
  const auto encode = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
  const cuuint64_t row = l.row_bytes != 0 ? l.row_bytes : l.size[0] * sizeof(T);
  const cuuint64_t strides[2] = {row, l.plane_bytes != 0 ? l.plane_bytes : row * l.size[1]};
  CUtensorMap map;
  if (encode(&map, type_of<T>(), 3, data, l.size.data(), strides, l.box.data(), l.steps.data(),
             CU_TENSOR_MAP_INTERLEAVE_NONE, l.swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS) {
    throw std::runtime_error(gpusim::last_tensor_map_error());
  }
  return map;
}

}  // namespace gpusim_test
