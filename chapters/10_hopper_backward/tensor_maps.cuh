/// @file
/// Makes the tensor maps of chapter 10, on the host.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "09_hopper/tensor_maps.cuh"
#include "copies.cuh"

namespace fa::ch10 {

using ch09::like_k, ch09::like_o, ch09::like_q, ch09::like_v;
using ch09::tensor_map;

/// @throws std::invalid_argument  unless the tensor, to which threads store 16 bytes at a time, is at a
///   multiple of 16
template <class T>
void require_alignment(const char* name, const T* tensor) {
  const auto address = reinterpret_cast<std::uintptr_t>(tensor);
  if (address % 16 != 0)
    throw std::invalid_argument(std::string(name) + " is at address " + std::to_string(address) +
                                ": must be a multiple of 16");
}

/// @param dk, dv  as K and V
template <class Tile>
TensorMaps key_tile_maps(const Backward<typename Tile::T>& a, typename Tile::T* dk, typename Tile::T* dv) {
  using T = typename Tile::T;
  return {.q = tensor_map(like_q<T>(a, a.q, a.q_strides), Tile::Br),
          .d_o = tensor_map(like_o<T>(a, a.d_o, a.do_strides), Tile::Br),
          .k = tensor_map(like_k<T>(a, a.k, a.k_strides), Tile::Bc),
          .v = tensor_map(like_v<T>(a, a.v, a.v_strides), Tile::Bc),
          .dk = tensor_map(like_k<T>(a, dk, a.dk_strides), 16),
          .dv = tensor_map(like_v<T>(a, dv, a.dv_strides), 16)};
}

}  // namespace fa::ch10
