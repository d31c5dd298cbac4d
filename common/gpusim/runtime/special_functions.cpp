/// @file
/// Functions that CUDA has and the C library has not (shim/math_functions.h).
#include <cmath>
#include <limits>

namespace gpusim::device {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kHalfRootPi = 0.88622692545275801365;
constexpr double kRootPi = 2.0 * kHalfRootPi;

/// Where erf is about x. @param log_complement  log(1 - x^2)    (Winitzki 2008)
double first_guess(double log_complement) {
  constexpr double a = 0.147, kTwoByPiA = 2.0 / (3.14159265358979323846 * a);
  const double t = kTwoByPiA + log_complement / 2.0;
  return std::sqrt(std::sqrt(t * t - log_complement / a) - t);
}

}  // namespace

double inverse_erfc(double x);

double inverse_erf(double x) {
  const double magnitude = std::fabs(x);
  if (!(magnitude <= 1.0)) return kNaN;
  if (magnitude == 1.0) return std::copysign(kInfinity, x);
  if (magnitude > 0.5) return std::copysign(inverse_erfc(1.0 - magnitude), x);  // the difference is exact
  if (magnitude < 1e-9) return kHalfRootPi * x;
  double y = std::copysign(first_guess(std::log1p(-x * x)), x);
  for (int i = 0; i < 3; ++i) {  // Halley's method
    const double step = (std::erf(y) - x) * kHalfRootPi * std::exp(y * y);
    y -= step / (1.0 + y * step);
  }
  return y;
}

double inverse_erfc(double x) {
  if (!(x >= 0.0 && x <= 2.0)) return kNaN;
  if (x == 0.0 || x == 2.0) return x == 0.0 ? kInfinity : -kInfinity;
  if (x > 1.5) return -inverse_erfc(2.0 - x);
  if (x >= 0.5) return inverse_erf(1.0 - x);
  double y = first_guess(std::log(x) + std::log(2.0 - x));
  for (int i = 0; i < 4; ++i) {
    const double step = (std::erfc(y) / x - 1.0) * std::exp(y * y + std::log(x)) * kHalfRootPi;
    y += step / (1.0 - y * step);
  }
  return y;
}

double scaled_erfc(double x) {
  if (x < 10.0) return std::exp(x * x) * std::erfc(x);
  // The asymptotic series: 1 - 1 / (2 x^2) + 1 * 3 / (2 x^2)^2 - ...
  double sum = 1.0, term = 1.0;
  for (int n = 1; n < 20; ++n) {
    term *= -(2.0 * n - 1.0) / (2.0 * x * x);
    sum += term;
  }
  return sum / (x * kRootPi);
}

double bessel_i(int order, double x) {
  if (x != x) return x;
  const double magnitude = std::fabs(x);
  double value = kInfinity;
  if (magnitude < 100.0) {
    value = std::cyl_bessel_i(double(order), magnitude);
  } else if (magnitude < 1000.0) {  // the asymptotic series
    const double mu = 4.0 * order * order;
    double sum = 1.0, term = 1.0;
    for (int n = 1; n < 20; ++n) {
      const double odd = 2.0 * n - 1.0;
      term *= -(mu - odd * odd) / (8.0 * n * magnitude);
      sum += term;
    }
    const double half = std::exp(magnitude / 2.0);  // its square may be too large
    value = half * (half / std::sqrt(2.0 * 3.14159265358979323846 * magnitude)) * sum;
  }
  return order % 2 != 0 && x < 0.0 ? -value : value;
}

}  // namespace gpusim::device
