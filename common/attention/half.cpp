#include "attention/half.hpp"

#include <fmt/format.h>

#include <Eigen/Core>
#include <bit>
#include <stdexcept>

#include "attention/parallel.hpp"

namespace fa {
namespace {

constexpr std::int64_t kElementsPerRange = 1 << 16;

template <class Half>
std::vector<std::uint16_t> narrow_as(const std::vector<float>& values) {
  std::vector<std::uint16_t> bits(values.size());
  parallel_for(std::int64_t(values.size()), kElementsPerRange, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = std::size_t(begin); i < std::size_t(end); ++i) {
      bits[i] = Eigen::numext::bit_cast<std::uint16_t>(Half(values[i]));
    }
  });
  return bits;
}

template <class Half>
std::vector<float> widen_as(const std::vector<std::uint16_t>& bits) {
  std::vector<float> values(bits.size());
  parallel_for(std::int64_t(bits.size()), kElementsPerRange, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = std::size_t(begin); i < std::size_t(end); ++i) {
      values[i] = float(Eigen::numext::bit_cast<Half>(bits[i]));
    }
  });
  return values;
}

[[noreturn]] void refuse_type(DType dtype) {
  throw std::invalid_argument(fmt::format("{} is not a 16-bit type", name_of(dtype)));
}

}  // namespace

std::vector<std::uint16_t> narrow(const std::vector<float>& values, DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return narrow_as<Eigen::half>(values);
    case DType::kBFloat16: return narrow_as<Eigen::bfloat16>(values);
    default: break;
  }
  refuse_type(dtype);
}

std::vector<float> widen(const std::vector<std::uint16_t>& bits, DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return widen_as<Eigen::half>(bits);
    case DType::kBFloat16: return widen_as<Eigen::bfloat16>(bits);
    default: break;
  }
  refuse_type(dtype);
}

std::vector<float> rounded_to(DType dtype, const std::vector<float>& values) {
  return dtype == DType::kFloat32 ? values : widen(narrow(values, dtype), dtype);
}

}  // namespace fa
