/// @file
/// What <bit>, <concepts> and <type_traits> have in C++20, for sources in C++17 too. These need -fconcepts.
#pragma once

#include <cstdint>
#include <type_traits>

namespace gpusim {

template <class To, class From>
inline __attribute__((always_inline)) constexpr To bit_cast(const From& from) noexcept {
  static_assert(sizeof(To) == sizeof(From), "bit_cast() needs types of the same size");
  return __builtin_bit_cast(To, from);
}

template <class T>
struct TypeIdentity {
  using type = T;
};
template <class T>
using type_identity_t = typename TypeIdentity<T>::type;

template <class T>
concept Integral = std::is_integral_v<T>;

}  // namespace gpusim
