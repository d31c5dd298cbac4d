// Division by a multiplication: the quotient and the remainder are those of the operators, for every dividend
// below 2^31.

#include "device/divisor.cuh"

#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <random>
#include <vector>

#include "device/launch.cuh"
#include "device_vector.hpp"

namespace fa {
namespace divisor_test {

__global__ void divide(const int* n, Divisor by, int* quotients, int* remainders) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  quotients[i] = n[i] / by;
  remainders[i] = n[i] % by;
}

void expect_exact(const std::vector<int>& dividends, int d) {
  constexpr unsigned kThreads = 32;
  ASSERT_EQ(dividends.size() % kThreads, 0u);
  DeviceVector<int> n(dividends), quotients(dividends.size()), remainders(dividends.size());
  launch(divide, unsigned(dividends.size()) / kThreads, kThreads, 0, nullptr, n.get(), Divisor(d),
         quotients.get(), remainders.get());
  const std::vector<int> q = quotients.host(), r = remainders.host();
  for (std::size_t i = 0; i < dividends.size(); ++i) {
    ASSERT_EQ(q[i], dividends[i] / d) << dividends[i] << " / " << d;
    ASSERT_EQ(r[i], dividends[i] % d) << dividends[i] << " % " << d;
  }
}

/// The ends of the range, and the neighbours of multiples of d, where a quotient changes.
std::vector<int> dividends_for(int d, std::mt19937& random) {
  std::vector<int> all = {0, INT_MAX, INT_MAX - 1, d - 1, d, INT_MAX / d * d, INT_MAX / d * d - 1};
  while (all.size() < 64) {
    const int multiple = int(random() >> 1) / d * d;
    all.insert(all.end(), {multiple, std::max(0, multiple - 1), int(random() >> 1)});
  }
  all.resize(64);
  return all;
}

TEST(Divisor, DividesLikeTheOperators) {
  std::mt19937 random(1);
  std::vector<int> divisors = {INT_MAX, INT_MAX - 1, INT_MAX / 2, INT_MAX / 2 + 1, 1 << 30};
  for (int d = 1; d <= 40; ++d) divisors.push_back(d);
  for (int bit = 6; bit < 30; ++bit)
    divisors.insert(divisors.end(), {(1 << bit) - 1, 1 << bit, (1 << bit) + 1});
  for (int i = 0; i < 40; ++i) divisors.push_back(1 + int(random() >> (1 + i % 31)) / 2);
  for (const int d : divisors) expect_exact(dividends_for(d, random), d);
}

}  // namespace divisor_test
}  // namespace fa
