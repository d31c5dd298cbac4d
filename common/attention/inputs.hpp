/// @file
/// Random inputs: the same numbers for the same seed on every machine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "attention/tensor.hpp"

namespace fa {

/// The distribution of the elements of a random input.
enum class Init {
  kNormal,    ///< mean 0, standard deviation 1, within -6 .. 6
  kUniform,   ///< -1 <= x < 1
  kOutliers,  ///< normal, except that one element in 32 is in 90 .. 110 or -110 .. -90: exp(90) overflows
              ///< fp32
  kOffset,    ///< normal, plus a constant for each column (of the last axis) of standard deviation 2
  kSpecial,   ///< rows of the last axis in turn: normal; one element in four -inf; all -inf; normal with one
              ///< NaN
};

/// The values of --init, in the order of the enum.
constexpr std::string_view kInitNames[] = {"normal", "uniform", "outliers", "offset", "special"};

/// Those whose numbers are all finite.
constexpr std::span<const std::string_view> kFiniteInitNames(kInitNames, 4);
static_assert(kFiniteInitNames.back() == "offset");

/// One of kInitNames.
constexpr std::string_view name_of(Init init) { return kInitNames[int(init)]; }

/// The distribution with that name, or nothing if there is none.
std::optional<Init> init_of(std::string_view name);

/// The elements of a tensor of random numbers, one by one.
///
/// Element i depends only on the seed, the name of the tensor, i and (with kOffset and kSpecial) the length
/// of a row: not on the other sizes, the number of cores or the machine, because integer arithmetic produces
/// every bit (the normal distribution is the sum of twelve uniform ones, which needs neither log() nor
/// cos()).
class RandomElements {
 public:
  /// @param columns  the length of a row
  RandomElements(std::string_view name, std::int64_t columns, Init init, std::uint64_t seed);
  float operator[](std::int64_t element) const;

 private:
  std::uint64_t stream_;
  std::int64_t columns_;
  Init init_;
};

/// All of them, in the shape of `spec`.
Tensor random_tensor(const TensorSpec& spec, Init init, std::uint64_t seed);

/// All tensors of a list, by name.
TensorMap random_tensors(const std::vector<TensorSpec>& specs, Init init, std::uint64_t seed);

}  // namespace fa
