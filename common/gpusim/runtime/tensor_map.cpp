#include "gpusim/runtime/tensor_map.hpp"

#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "gpusim/gpusim.hpp"

namespace gpusim {
namespace {

std::string& last_error() {
  static std::string error;
  return error;
}

std::size_t size_of(CUtensorMapDataType type) {
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
  }
  return 0;
}

bool is_floating(CUtensorMapDataType type) {
  return type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16 && type <= CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ;
}

std::string element(const char* array, std::uint32_t i, std::uint64_t value) {
  return std::string(array) + "[" + std::to_string(i) + "] is " + std::to_string(value);
}

}  // namespace

std::string last_tensor_map_error() { return last_error(); }

}  // namespace gpusim

namespace {

using gpusim::element;
using gpusim::TensorMap;

/// The rule that a map would break; nothing if it is valid.
std::optional<std::string> broken_rule(const CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                       const void* address, const cuuint64_t* dims, const cuuint64_t* strides,
                                       const cuuint32_t* box, const cuuint32_t* element_strides,
                                       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                       CUtensorMapL2promotion l2_promotion, CUtensorMapFloatOOBfill fill) {
  constexpr auto kMostSize = std::uint64_t(1) << 32;
  constexpr auto kMostStride = std::uint64_t(1) << 40;
  if (map == nullptr || reinterpret_cast<std::uintptr_t>(map) % 64 != 0)
    return "the map must be at a multiple of 64 bytes";
  const std::size_t bytes = gpusim::size_of(type);
  if (bytes == 0) return "unknown data type " + std::to_string(int(type));
  if (rank < 1 || rank > TensorMap::kMaxRank)
    return "the rank is " + std::to_string(rank) + ": must be 1 to 5";
  if (address == nullptr || reinterpret_cast<std::uintptr_t>(address) % 16 != 0)
    return "the global address must be a multiple of 16 bytes";
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
  if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE)
    return "the simulator knows only CU_TENSOR_MAP_INTERLEAVE_NONE";
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
  if (fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA && !gpusim::is_floating(type))
    return "elements outside can be NaN only for a floating-point type";
  if (fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE && fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA)
    return "unknown fill " + std::to_string(int(fill));
  return std::nullopt;
}

}  // namespace

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2_promotion,
                                CUtensorMapFloatOOBfill fill) {
  gpusim::last_error().clear();
  if (const auto rule = broken_rule(map, type, rank, address, dims, strides, box, element_strides, interleave,
                                    swizzle, l2_promotion, fill)) {
    gpusim::last_error() = *rule;
    std::fprintf(stderr, "gpusim: cuTensorMapEncodeTiled: %s\n", rule->c_str());
    return CUDA_ERROR_INVALID_VALUE;
  }
  TensorMap to;
  to.magic = TensorMap::kMagic;
  to.address = reinterpret_cast<std::uintptr_t>(address);
  for (std::size_t i = 0; i < rank; ++i) {
    to.last[i] = std::uint32_t(dims[i] - 1);
    to.box[i] = std::uint16_t(box[i]);
    to.steps[i] = i == 0 ? 1 : std::uint8_t(element_strides[i]);  // the driver ignores the innermost
    if (i > 0) to.strides[i - 1] = strides[i - 1];
  }
  to.rank = std::uint8_t(rank);
  to.type = std::uint8_t(type);
  to.swizzle = std::uint8_t(swizzle);
  to.element_bytes = std::uint8_t(gpusim::size_of(type));
  to.nan_fill = fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
  std::memset(map, 0, sizeof *map);
  std::memcpy(map, &to, sizeof to);
  return CUDA_SUCCESS;
}
