/// @file
/// Makes the tensor maps of a cache, on the host.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "device/tensor_map_encoding.hpp"
#include "ring.cuh"
#include "tiles.cuh"

namespace fa::ch14 {

/// A cache in global memory: [batches, heads, tokens, d]. A batch is a page, or a sequence.
struct CacheShape {
  int batches, heads, tokens;
};

/// The map of K or V: a box is `box_keys` tokens with all their panels.
/// @throws std::invalid_argument  if the driver would refuse the map; CudaError  if there is no such driver
template <class Tile>
CUtensorMap cache_map(const void* first, const CacheShape& shape, int box_keys) {
  using Element = typename Tile::Element;
  constexpr auto type = std::is_same_v<Element, Fp8>             ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                        : std::is_same_v<Element, __nv_bfloat16> ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                                 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  constexpr std::int64_t kRowBytes = Tile::kHeadDim * sizeof(Element),
                         kPanelBytes = Tile::kPanel * sizeof(Element);
  constexpr auto swizzle = kPanelBytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;
  const cuuint64_t lengths[] = {cuuint64_t(Tile::kPanel), cuuint64_t(shape.tokens), cuuint64_t(Tile::kPanels),
                                cuuint64_t(shape.heads), cuuint64_t(shape.batches)};
  const cuuint64_t strides[] = {cuuint64_t(kRowBytes), cuuint64_t(kPanelBytes),
                                cuuint64_t(kRowBytes * shape.tokens),
                                cuuint64_t(kRowBytes * shape.tokens * shape.heads)};
  const cuuint32_t box[] = {cuuint32_t(Tile::kPanel), cuuint32_t(box_keys), cuuint32_t(Tile::kPanels), 1, 1};
  const cuuint32_t steps[] = {1, 1, 1, 1, 1};
  CUtensorMap map;
  // No promotion: with that to 256 bytes, which chapter 09 has, the same reads take 8 % longer on an H200.
  const auto encode = [&](auto encoder) {
    return encoder(&map, type, 5, const_cast<void*>(first), lengths, strides, box, steps,
                   CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  encode_tensor_map(encode, "a cache of " + std::to_string(shape.batches) + " x " +
                                std::to_string(shape.heads) + " x " + std::to_string(shape.tokens) + " x " +
                                std::to_string(Tile::kHeadDim) + " elements");
  return map;
}

/// The tokens of a box: a tile of one panel may be a single box, if a page has so many tokens.
template <class Tile>
constexpr int box_keys(int page_size) {
  return Tile::kPanels == 1 && !Tile::kQInShared && (page_size == 0 || page_size >= Tile::kKeys) ? Tile::kKeys
                                                                                                 : 16;
}

}  // namespace fa::ch14
