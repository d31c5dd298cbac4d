/// @file
/// Host tensors and their descriptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace fa {

/// The element type of a tensor in device memory.
enum class DType {
  kFloat32,
  kFloat16,
  kBFloat16,
  kInt32,  ///< in host memory a float, which is exact up to kMostExact
  kUint8,
  kFloat8,  ///< e4m3, the type of an 8-bit cache of K and V
};

/// The largest number up to which a float holds every whole number.
constexpr std::int64_t kMostExact = 1 << 24;

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kInt32: return 4;
    case DType::kFloat16:
    case DType::kBFloat16: return 2;
    case DType::kUint8:
    case DType::kFloat8: return 1;
  }
  return 0;
}

/// "fp32", "fp16" or "bf16", as on the command line; "int32", "uint8" or "fp8".
constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32: return "fp32";
    case DType::kFloat16: return "fp16";
    case DType::kBFloat16: return "bf16";
    case DType::kInt32: return "int32";
    case DType::kUint8: return "uint8";
    case DType::kFloat8: return "fp8";
  }
  return "?";
}

/// The name of a tensor, the length of each dimension, and the element type on the device.
struct TensorSpec {
  std::string name;
  std::vector<std::int64_t> shape;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> strides =
      {};  ///< elements to the next index of each dimension; empty if it is dense

  std::int64_t elements() const {
    std::int64_t n = 1;
    for (std::int64_t length : shape) n *= length;
    return n;
  }
  std::size_t bytes() const { return std::size_t(elements()) * size_of(dtype); }

  /// The elements of memory from its first to its last one, with those in between that are not its own.
  std::int64_t extent() const {
    if (strides.empty()) return elements();
    std::int64_t last = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) last += (shape[i] - 1) * strides[i];
    return last + 1;
  }
  std::size_t extent_bytes() const { return std::size_t(extent()) * size_of(dtype); }
};

/// A dense tensor in host memory, row-major (C order).
template <class T>
struct HostTensor {
  std::vector<std::int64_t> shape;
  std::vector<T> data;
};

using Tensor = HostTensor<float>;  ///< the input or output of a kernel, widened to fp32
using TensorMap = std::map<std::string, Tensor>;
using Reference = std::map<std::string, std::vector<double>>;  ///< expected outputs by name, in float64

/// A part of a problem that can be computed on its own. @tparam Shape  the problem's
template <class Shape>
struct Excerpt {
  Shape shape;
  std::function<TensorMap(const TensorMap&)> cut;  ///< inputs or outputs of the problem: those of the part
};

/// The first `count` elements, followed by the last `count`. @param data  at least twice as many
inline std::vector<float> both_ends(const std::vector<float>& data, std::size_t count) {
  std::vector<float> ends(data.begin(), data.begin() + std::ptrdiff_t(count));
  ends.insert(ends.end(), data.end() - std::ptrdiff_t(count), data.end());
  return ends;
}

}  // namespace fa
