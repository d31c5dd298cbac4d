/// @file
/// What cuTensorMapEncodeTiled() demands. The driver says only that an argument is invalid; this says which
/// one, and why. It needs <cuda.h>, of the simulator or of CUDA, and nothing else.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

namespace gpusim {
namespace tensor_map_rules {

inline std::size_t size_of(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8: return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ: return 4;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64: return 8;
    default: return 0;
  }
}

inline bool is_floating(CUtensorMapDataType type) {
  return type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ;
}

inline std::string element(const char* array, std::uint32_t i, std::uint64_t value) {
  return std::string(array) + "[" + std::to_string(i) + "] is " + std::to_string(value);
}

inline std::string hexadecimal(const void* address) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx",
                static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(address)));
  return text;
}

}  // namespace tensor_map_rules

/// The rule that these arguments of cuTensorMapEncodeTiled() break, with the value that breaks it. Empty if
/// there is none.
inline std::string broken_tensor_map_rule(const CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                          const void* address, const cuuint64_t* dims,
                                          const cuuint64_t* strides, const cuuint32_t* box,
                                          const cuuint32_t* element_strides, CUtensorMapInterleave,
                                          CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2_promotion,
                                          CUtensorMapFloatOOBfill fill) {
  using tensor_map_rules::element;
  constexpr auto kMostSize = std::uint64_t(1) << 32;
  constexpr auto kMostStride = std::uint64_t(1) << 40;
  if (map == nullptr || reinterpret_cast<std::uintptr_t>(map) % 64 != 0)
    return "the map must be at a multiple of 64 bytes";
  const std::size_t bytes = tensor_map_rules::size_of(type);
  if (bytes == 0) return "unknown data type " + std::to_string(int(type));
  if (rank < 1 || rank > 5) return "the rank is " + std::to_string(rank) + ": must be 1 to 5";
  if (address == nullptr || reinterpret_cast<std::uintptr_t>(address) % 16 != 0)
    return "the global address is " + tensor_map_rules::hexadecimal(address) +
           ": must be a multiple of 16, and not 0";
  if (dims == nullptr || (rank > 1 && strides == nullptr) || box == nullptr || element_strides == nullptr)
    return "an array is null";
  for (cuuint32_t i = 0; i < rank; ++i) {
    if (dims[i] < 1 || dims[i] > kMostSize) return element("globalDim", i, dims[i]) + ": must be 1 to 2^32";
    if (i > 0 && strides[i - 1] % 16 != 0)
      return element("globalStrides", i - 1, strides[i - 1]) + " bytes: must be a multiple of 16";
    if (i > 0 && strides[i - 1] >= kMostStride)
      return element("globalStrides", i - 1, strides[i - 1]) + " bytes: must be below 2^40";
    if (box[i] < 1 || box[i] > 256) return element("boxDim", i, box[i]) + ": must be 1 to 256";
    if (element_strides[i] < 1 || element_strides[i] > 8)
      return element("elementStrides", i, element_strides[i]) + ": must be 1 to 8";
  }
  const std::uint64_t inner = box[0] * bytes;
  if (inner % 16 != 0)
    return "boxDim[0] is " + std::to_string(box[0]) + ", or " + std::to_string(inner) +
           " bytes: must be a multiple of 16 bytes";
  if (swizzle < CU_TENSOR_MAP_SWIZZLE_NONE || swizzle > CU_TENSOR_MAP_SWIZZLE_128B)
    return "unknown swizzle " + std::to_string(int(swizzle));
  if (swizzle != CU_TENSOR_MAP_SWIZZLE_NONE) {
    const std::uint64_t span = std::uint64_t(16) << int(swizzle);
    if (inner > span)
      return "boxDim[0] is " + std::to_string(box[0]) + ", or " + std::to_string(inner) +
             " bytes: must be at most " + std::to_string(span) + " bytes with CU_TENSOR_MAP_SWIZZLE_" +
             std::to_string(span) + "B";
  }
  if (l2_promotion < CU_TENSOR_MAP_L2_PROMOTION_NONE || l2_promotion > CU_TENSOR_MAP_L2_PROMOTION_L2_256B)
    return "unknown L2 promotion " + std::to_string(int(l2_promotion));
  if (fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA && !tensor_map_rules::is_floating(type))
    return "elements outside can be NaN only for a floating-point type";
  if (fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE && fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA)
    return "unknown fill " + std::to_string(int(fill));
  return "";
}

}  // namespace gpusim
