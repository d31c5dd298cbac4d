/// @file
/// Texture fetches (shim/gpusim_textures.h), as the CUDA programming guide describes them ("Texture
/// Fetching").
#include "gpusim/runtime/textures.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "gpusim/runtime/block.hpp"
#include "gpusim/runtime/device.hpp"
#include "gpusim/shim/cuda_fp16.h"
#include "gpusim/shim/gpusim_textures.h"

namespace gpusim::device {
namespace {

#define GPUSIM_CALLER __builtin_return_address(0)

const Texture& texture_of(unsigned long long object) { return *reinterpret_cast<const Texture*>(object); }

void note_read(const std::byte* element, std::size_t bytes, const void* pc) {
  if (current_runner == nullptr) return;
  switch (bytes) {
    case 1: return current_runner->access<AccessKind::kRead, 1>(element, pc);
    case 2: return current_runner->access<AccessKind::kRead, 2>(element, pc);
    case 4: return current_runner->access<AccessKind::kRead, 4>(element, pc);
    case 8: return current_runner->access<AccessKind::kRead, 8>(element, pc);
    default: return current_runner->access<AccessKind::kRead, 16>(element, pc);
  }
}

/// One component of an element: a float, if fetches return floats, or else the bits of an integer.
std::uint32_t component(const Texture& t, const std::byte* at, int bits) {
  std::uint32_t raw = 0;
  std::memcpy(&raw, at, std::size_t(bits) / 8);
  if (t.format.f == cudaChannelFormatKindFloat)
    return bits == 32 ? raw : std::bit_cast<std::uint32_t>(float16::Binary16::widen(std::uint16_t(raw)));
  const bool is_signed = t.format.f == cudaChannelFormatKindSigned;
  const auto value = is_signed ? std::int32_t(raw << (32 - bits)) >> (32 - bits) : std::int32_t(raw);
  if (t.how.readMode != cudaReadModeNormalizedFloat || bits == 32) return std::uint32_t(value);
  const float most = is_signed ? float((1 << (bits - 1)) - 1) : float((1 << bits) - 1);
  return std::bit_cast<std::uint32_t>(std::max(float(value) / most, -1.0f));
}

Texel read(const Texture& t, const std::byte* at, const void* pc) {
  note_read(at, t.element_bytes(), pc);
  Texel texel{};
  const int bits[4] = {t.format.x, t.format.y, t.format.z, t.format.w};
  for (int i = 0; i < 4 && bits[i] != 0; ++i) {
    texel.bits[i] = component(t, at, bits[i]);
    at += bits[i] / 8;
  }
  return texel;
}

/// An index into `size` elements, in the way of the address mode; -1: outside, where there is the border.
std::int64_t index_in(std::int64_t i, std::size_t size, cudaTextureAddressMode mode) {
  const auto n = std::int64_t(size);
  switch (mode) {
    case cudaAddressModeWrap: return ((i % n) + n) % n;
    case cudaAddressModeMirror: {
      const std::int64_t in_two = ((i % (2 * n)) + 2 * n) % (2 * n);
      return in_two < n ? in_two : 2 * n - 1 - in_two;
    }
    case cudaAddressModeBorder: return i >= 0 && i < n ? i : -1;
    case cudaAddressModeClamp: break;
  }
  return std::clamp<std::int64_t>(i, 0, n - 1);
}

/// A coordinate of a point: the element before it and the one after it, and how near it is to the latter.
struct Axis {
  std::int64_t first, second;
  float weight;
};
Axis axis(const Texture& t, float x, std::size_t size, int dimension) {
  cudaTextureAddressMode mode = t.how.addressMode[dimension];
  const bool repeats = mode == cudaAddressModeWrap || mode == cudaAddressModeMirror;
  if (!t.how.normalizedCoords && repeats) mode = cudaAddressModeClamp;
  const double point = t.how.normalizedCoords != 0 ? double(x) * double(size) : double(x);
  const auto index = [&](double at) {
    constexpr double kFar = 1e9;  // NaN as well
    const double inside = at > -kFar && at < kFar ? at : at > 0 ? kFar : -kFar;
    return index_in(std::int64_t(inside), size, mode);
  };
  if (t.how.filterMode == cudaFilterModePoint) return {index(std::floor(point)), 0, 0.0f};
  const double before = std::floor(point - 0.5);
  constexpr float kFractions = 256.0f;  // the hardware has 8 bits for them
  const float weight = std::floor(float(point - 0.5 - before) * kFractions + 0.5f) / kFractions;
  return {index(before), index(before + 1.0), weight};
}

Texel at(const Texture& t, std::int64_t x, std::int64_t y, std::int64_t z, const void* pc) {
  if (x >= 0 && y >= 0 && z >= 0)
    return read(t, t.element(std::size_t(x), std::size_t(y), std::size_t(z)), pc);
  Texel border{};
  const bool is_float =
      t.format.f == cudaChannelFormatKindFloat || t.how.readMode == cudaReadModeNormalizedFloat;
  for (int i = 0; i < 4; ++i) {
    border.bits[i] = is_float ? std::bit_cast<std::uint32_t>(t.how.borderColor[i])
                              : std::uint32_t(std::int64_t(t.how.borderColor[i]));
  }
  return border;
}

Texel sample_from(const Texture& t, int dimensions, const Axis& x, const Axis& y, const Axis& z,
                  const void* pc) {
  if (t.how.filterMode == cudaFilterModePoint) return at(t, x.first, y.first, z.first, pc);
  std::array<float, 4> sum{};
  for (int corner = 0; corner < 1 << dimensions; ++corner) {
    const bool after_x = (corner & 1) != 0, after_y = (corner & 2) != 0, after_z = (corner & 4) != 0;
    const float weight = (after_x ? x.weight : 1.0f - x.weight) *
                         (dimensions < 2 ? 1.0f
                          : after_y      ? y.weight
                                         : 1.0f - y.weight) *
                         (dimensions < 3 ? 1.0f
                          : after_z      ? z.weight
                                         : 1.0f - z.weight);
    if (weight == 0.0f) continue;
    const Texel texel =
        at(t, after_x ? x.second : x.first, after_y ? y.second : y.first, after_z ? z.second : z.first, pc);
    for (int i = 0; i < 4; ++i) sum[std::size_t(i)] += weight * std::bit_cast<float>(texel.bits[i]);
  }
  Texel result;
  for (int i = 0; i < 4; ++i) result.bits[i] = std::bit_cast<std::uint32_t>(sum[std::size_t(i)]);
  return result;
}

}  // namespace

/// Of a variable of the host. A fetch through a reference to which nothing is bound ends the thread.
cudaTextureObject_t object_of_reference(const void* object) {
  const auto value = *static_cast<const cudaTextureObject_t*>(object);
  if (value == 0) trap();
  return value;
}

Texel fetch_linear(cudaTextureObject_t object, long long index) {
  const Texture& t = texture_of(object);
  if (index < 0 || std::size_t(index) >= t.width) return {};
  return read(t, t.element(std::size_t(index), 0, 0), GPUSIM_CALLER);
}

Texel sample(cudaTextureObject_t object, int dimensions, float x, float y, float z, int layer) {
  const Texture& t = texture_of(object);
  const Axis none{0, 0, 0.0f};
  const Axis third =
      layer < 0 ? none : Axis{std::clamp<std::int64_t>(layer, 0, std::int64_t(t.depth) - 1), 0, 0.0f};
  return sample_from(t, dimensions, axis(t, x, t.width, 0), dimensions >= 2 ? axis(t, y, t.height, 1) : none,
                     dimensions >= 3 ? axis(t, z, t.depth, 2) : third, GPUSIM_CALLER);
}

Texel gather(cudaTextureObject_t object, float x, float y, int component_number) {
  Texture t = texture_of(object);
  t.how.filterMode = cudaFilterModeLinear;
  const Axis ax = axis(t, x, t.width, 0), ay = axis(t, y, t.height, 1);
  const auto c = std::size_t(component_number);
  return {at(t, ax.first, ay.second, 0, GPUSIM_CALLER).bits[c],
          at(t, ax.second, ay.second, 0, GPUSIM_CALLER).bits[c],
          at(t, ax.second, ay.first, 0, GPUSIM_CALLER).bits[c],
          at(t, ax.first, ay.first, 0, GPUSIM_CALLER).bits[c]};
}

void* surface_element(cudaSurfaceObject_t object, int x, int y, int z, cudaSurfaceBoundaryMode mode,
                      std::size_t bytes) {
  const Texture& t = texture_of(object);
  const auto row = std::int64_t(t.width * t.element_bytes());
  std::int64_t at_x = x, at_y = y, at_z = z;
  const auto is_inside = [&] {
    return at_x >= 0 && at_x + std::int64_t(bytes) <= row && at_y >= 0 && at_y < std::int64_t(t.height) &&
           at_z >= 0 && at_z < std::int64_t(t.depth);
  };
  if (mode == cudaBoundaryModeClamp && !is_inside()) {
    at_x = std::clamp<std::int64_t>(at_x, 0, row - std::int64_t(bytes));
    at_y = std::clamp<std::int64_t>(at_y, 0, std::int64_t(t.height) - 1);
    at_z = std::clamp<std::int64_t>(at_z, 0, std::int64_t(t.depth) - 1);
  }
  if (!is_inside()) return nullptr;
  return const_cast<std::byte*>(t.element(0, std::size_t(at_y), std::size_t(at_z)) + at_x);
}

}  // namespace gpusim::device
