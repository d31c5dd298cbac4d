#include "attention/inputs.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>

#include "attention/parallel.hpp"

namespace fa {
namespace {

/// 64 random bits for a counter: the output function of SplitMix64 (Steele, Lea & Flood 2014).
std::uint64_t mix(std::uint64_t counter) {
  std::uint64_t bits = counter * 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

/// FNV-1a, so that each tensor of a seed gets its own stream.
std::uint64_t hash(std::string_view name) {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (const char c : name) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return value;
}

/// The random bits of one element.
class ElementBits {
 public:
  static constexpr std::uint64_t kWords = 4;

  ElementBits(std::uint64_t stream, std::int64_t element)
      : first_(stream + std::uint64_t(element) * kWords) {}

  std::uint64_t word(std::uint64_t index) const { return mix(first_ + index); }

 private:
  std::uint64_t first_;
};

/// -1 <= value < 1 in steps of 2^-23, from the upper 24 bits.
float uniform(std::uint64_t bits) { return float(std::int64_t(bits >> 40) - (1 << 23)) / float(1 << 23); }

/// The sum of twelve uniform 16-bit numbers minus its mean: variance 12 * (1/12) = 1, and exact in fp32.
float normal(const ElementBits& bits) {
  std::int64_t sum = 0;
  for (std::uint64_t index = 0; index < 3; ++index) {
    const std::uint64_t word = bits.word(index);
    for (int shift = 0; shift < 64; shift += 16) sum += std::int64_t(word >> shift & 0xffff);
  }
  constexpr std::int64_t kTwiceMean = 12 * 0xffff;
  return float(2 * sum - kTwiceMean) / float(2 << 16);
}

float outlier_or_normal(const ElementBits& bits) {
  const std::uint64_t word = bits.word(3);
  if (word % 32 != 0) return normal(bits);
  const float magnitude = 90.0f + 20.0f * float(word >> 48) / 65536.0f;  // exact: 21 significant bits
  return (word >> 5) % 2 == 0 ? magnitude : -magnitude;
}

/// Element (row, column): what kSpecial says of every fourth row.
float special(std::uint64_t stream, std::int64_t row, std::int64_t column, std::int64_t columns) {
  const ElementBits bits(stream, row * columns + column);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  switch (row % 4) {
    case 1: return bits.word(3) % 4 == 0 ? -kInf : normal(bits);
    case 2: return -kInf;
    case 3:
      if (column != std::int64_t(mix(stream ^ std::uint64_t(row)) % std::uint64_t(columns))) break;
      return std::numeric_limits<float>::quiet_NaN();
  }
  return normal(bits);
}

}  // namespace

std::optional<Init> init_of(std::string_view name) {
  const auto* found = std::find(std::begin(kInitNames), std::end(kInitNames), name);
  if (found == std::end(kInitNames)) return std::nullopt;
  return Init(found - std::begin(kInitNames));
}

RandomElements::RandomElements(std::string_view name, std::int64_t columns, Init init, std::uint64_t seed)
    : stream_(mix(seed ^ hash(name))), columns_(columns), init_(init) {}

float RandomElements::operator[](std::int64_t element) const {
  const ElementBits bits(stream_, element);
  switch (init_) {
    case Init::kNormal: return normal(bits);
    case Init::kUniform: return uniform(bits.word(0));
    case Init::kOutliers: return outlier_or_normal(bits);
    case Init::kOffset: return normal(bits) + 2 * normal(ElementBits(mix(stream_), element % columns_));
    case Init::kSpecial: return special(stream_, element / columns_, element % columns_, columns_);
  }
  return 0.0f;
}

Tensor random_tensor(const TensorSpec& spec, Init init, std::uint64_t seed) {
  const RandomElements elements(spec.name, spec.shape.empty() ? 1 : spec.shape.back(), init, seed);
  Tensor tensor{.shape = spec.shape, .data = std::vector<float>(std::size_t(spec.elements()))};
  parallel_for(spec.elements(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t element = begin; element < end; ++element)
      tensor.data[std::size_t(element)] = elements[element];
  });
  return tensor;
}

TensorMap random_tensors(const std::vector<TensorSpec>& specs, Init init, std::uint64_t seed) {
  TensorMap tensors;
  for (const TensorSpec& spec : specs) tensors.emplace(spec.name, random_tensor(spec, init, seed));
  return tensors;
}

}  // namespace fa
