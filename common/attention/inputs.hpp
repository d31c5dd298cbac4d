/// @file
/// Random inputs: the same numbers for the same seed on every machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "attention/tensor.hpp"

namespace fa {

/// How the elements of a random input are distributed.
enum class Init {
  kNormal,    ///< mean 0, standard deviation 1, within -6 .. 6
  kUniform,   ///< -1 <= x < 1
  kOutliers,  ///< normal, but one element in 32 lies in 90 .. 110 or -110 .. -90: exp(90) overflows fp32
};

/// The words of --init, in the order of the enum.
constexpr std::string_view kInitNames[] = {"normal", "uniform", "outliers"};

/// "normal", "uniform" or "outliers".
constexpr std::string_view name_of(Init init) { return kInitNames[int(init)]; }

/// The distribution of that name, or nothing if there is none.
std::optional<Init> init_of(std::string_view name);

/// A tensor of random numbers, of the shape of `spec`.
///
/// Element i depends on the seed, the name of the tensor and i alone: neither on the shape, nor on the number
/// of cores, nor on the machine, because integer arithmetic makes every bit (the normal distribution is the
/// sum of twelve uniform ones, which needs neither log() nor cos()).
Tensor random_tensor(const TensorSpec& spec, Init init, std::uint64_t seed);

/// All tensors of a list, by name.
TensorMap random_tensors(const std::vector<TensorSpec>& specs, Init init, std::uint64_t seed);

}  // namespace fa
