#include "gpusim/runtime/tensor_map.hpp"

#include <cstdio>
#include <cstring>
#include <string>

#include "gpusim/gpusim.hpp"
#include "gpusim/runtime/arena.hpp"
#include "gpusim/runtime/host_memory.hpp"
#include "gpusim/tensor_map_rules.hpp"

namespace gpusim {
namespace {

std::string& last_error() {
  static std::string error;
  return error;
}

}  // namespace

std::string last_tensor_map_error() { return last_error(); }

}  // namespace gpusim

using gpusim::TensorMap;

CUresult cuMemGetAddressRange(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
  const gpusim::Arena& arena = gpusim::Arena::instance();
  const auto at = std::uintptr_t(address);
  std::uintptr_t begin = at, end = at;
  if (gpusim::is_constant(at)) {  // a string of a kernel
    end = begin + std::strlen(reinterpret_cast<const char*>(at)) + 1;
  } else if (const std::uint32_t id = arena.contains(at) ? arena.find(at, 1) : 0; id != 0) {
    begin = arena.allocation(id).begin;
    end = arena.allocation(id).end;
  } else {
    return CUDA_ERROR_NOT_FOUND;
  }
  if (base != nullptr) *base = begin;
  if (bytes != nullptr) *bytes = end - begin;
  return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                                const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2_promotion,
                                CUtensorMapFloatOOBfill fill) {
  std::string& rule = gpusim::last_error();
  rule = gpusim::broken_tensor_map_rule(map, type, rank, address, dims, strides, box, element_strides,
                                        interleave, swizzle, l2_promotion, fill);
  if (rule.empty() && interleave != CU_TENSOR_MAP_INTERLEAVE_NONE)
    rule = "the simulator knows only CU_TENSOR_MAP_INTERLEAVE_NONE";
  if (!rule.empty()) {
    std::fprintf(stderr, "gpusim: cuTensorMapEncodeTiled: %s\n", rule.c_str());
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
  to.element_bytes = std::uint8_t(gpusim::tensor_map_rules::size_of(type));
  to.nan_fill = fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
  std::memset(map, 0, sizeof *map);
  std::memcpy(map, &to, sizeof to);
  return CUDA_SUCCESS;
}
