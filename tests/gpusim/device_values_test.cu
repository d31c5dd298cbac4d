/// @file
/// Functions of CUDA, compared with what an H200 computed (device_values.cuh).
#include "device_values.cuh"

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "simulator.hpp"

namespace gpusim_test {
namespace {

using gpusim_values::kArguments;

/// Without spaces, which depend on how the source is laid out.
std::string compact(std::string expression) {
  std::erase(expression, ' ');
  return expression;
}

/// By expression: the values of a GPU, for each of the arguments.
std::map<std::string, std::vector<unsigned long long>> values_of_gpu() {
  const std::string test = __FILE__;
  std::ifstream file(test.substr(0, test.rfind('/')) + "/device_values.txt");
  std::map<std::string, std::vector<unsigned long long>> values;
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    std::vector<unsigned long long> row(kArguments);
    for (auto& value : row) in >> std::hex >> value;
    std::string name;
    std::getline(in >> std::ws, name);
    values[compact(name)] = row;
  }
  return values;
}

template <bool kExact, std::size_t n>
std::map<std::string, std::vector<unsigned long long>> values_here(const char* const (&names)[n]) {
  const auto out = Buffer<unsigned long long>::zeros("out", n * kArguments);
  EXPECT_TRUE(
      is_clean(run({1, kArguments}, gpusim_values::compute<kExact>, gpusim_values::arguments(), out.get())));
  const std::vector<unsigned long long> all = out.host();
  std::map<std::string, std::vector<unsigned long long>> values;
  for (std::size_t i = 0; i < n; ++i)
    values[names[i]] = {all.begin() + long(i * kArguments), all.begin() + long((i + 1) * kArguments)};
  return values;
}

TEST(DeviceFunctions, HaveTheBitsOfAGpu) {
  const auto gpu = values_of_gpu();
  for (const auto& [name, values] : values_here<true>(gpusim_values::kExactNames)) {
    const auto found = gpu.find(compact(name));
    ASSERT_NE(found, gpu.end()) << name;
    for (int i = 0; i < kArguments; ++i)
      EXPECT_EQ(values[std::size_t(i)], found->second[std::size_t(i)])
          << name << " of arguments " << i << std::hex;
  }
}

/// The value of an expression, whose type its size tells.
double number(const std::string& name, unsigned long long bits) {
  const bool is_half = name[0] == 'h' && name[1] != 'y', is_bfloat16 = name == "hexp(e)";
  if (is_bfloat16) return float(__ushort_as_bfloat16(gpusim_values::Short(bits)));
  if (is_half) return float(__ushort_as_half(gpusim_values::Short(bits)));
  if (name.find("(a") == name.npos && name.find("abs(a)") == name.npos) {
    float value;
    const auto word = unsigned(bits);
    std::memcpy(&value, &word, sizeof value);
    return value;
  }
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

TEST(DeviceFunctions, AreCloseToThoseThatAGpuApproximates) {
  const auto gpu = values_of_gpu();
  for (const auto& [name, values] : values_here<false>(gpusim_values::kCloseNames)) {
    const auto found = gpu.find(compact(name));
    ASSERT_NE(found, gpu.end()) << name;
    for (int i = 0; i < kArguments; ++i) {
      const double here = number(name, values[std::size_t(i)]),
                   there = number(name, found->second[std::size_t(i)]);
      if (std::isnan(there) || std::isinf(there)) {
        EXPECT_TRUE(std::isnan(there) ? std::isnan(here) : here == there)
            << name << " of arguments " << i << ": " << here;
      } else {
        const double tolerance = name[0] == 'h' && name[1] != 'y' ? 1e-2
                                 : name.find("(a") == name.npos   ? 2e-5
                                                                  : 1e-9;
        EXPECT_NEAR(here, there, tolerance * std::fabs(there) + 1e-37) << name << " of arguments " << i;
      }
    }
  }
}

}  // namespace
}  // namespace gpusim_test
