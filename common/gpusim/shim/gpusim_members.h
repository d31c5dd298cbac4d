/// @file
/// Structs that a kernel lays over shared memory: what their members are called, for reports.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cuda_runtime.h"
#include "gpusim/runtime/device_members.hpp"

namespace gpusim {
namespace members {

/// Stands for a base class of T in an initialiser.
template <class T>
struct BaseOf {
  template <class Base>
  requires(std::is_base_of_v<Base, T> && !std::is_same_v<Base, T>) operator Base()
      const;  // NOLINT(google-explicit-constructor)
};

/// A struct without a base class, whose members are all public.
template <class T>
concept Open = std::is_class_v<T> && std::is_aggregate_v<T> && !requires {
  T{BaseOf<T>()};
};

/// The members of an object, in order. None if it has more than 12, or if the compiler does not tell their
/// names.
template <class Object>
constexpr auto of(const Object& object) {
  if constexpr (!Open<Object> || requires { Object{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}; }) {
    return std::tuple<>();
#if defined(__GNUC__) && !defined(__clang__)
  } else if constexpr (requires { Object{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}; }) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k, l] = object;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l);
  } else if constexpr (requires { Object{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}; }) {
    const auto& [a, b, c, d, e, f, g, h, i, j, k] = object;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k);
  } else if constexpr (requires { Object{{}, {}, {}, {}, {}, {}, {}, {}, {}, {}}; }) {
    const auto& [a, b, c, d, e, f, g, h, i, j] = object;
    return std::tie(a, b, c, d, e, f, g, h, i, j);
  } else if constexpr (requires { Object{{}, {}, {}, {}, {}, {}, {}, {}, {}}; }) {
    const auto& [a, b, c, d, e, f, g, h, i] = object;
    return std::tie(a, b, c, d, e, f, g, h, i);
  } else if constexpr (requires { Object{{}, {}, {}, {}, {}, {}, {}, {}}; }) {
    const auto& [a, b, c, d, e, f, g, h] = object;
    return std::tie(a, b, c, d, e, f, g, h);
  } else if constexpr (requires { Object{{}, {}, {}, {}, {}, {}, {}}; }) {
    const auto& [a, b, c, d, e, f, g] = object;
    return std::tie(a, b, c, d, e, f, g);
  } else if constexpr (requires { Object{{}, {}, {}, {}, {}, {}}; }) {
    const auto& [a, b, c, d, e, f] = object;
    return std::tie(a, b, c, d, e, f);
  } else if constexpr (requires { Object{{}, {}, {}, {}, {}}; }) {
    const auto& [a, b, c, d, e] = object;
    return std::tie(a, b, c, d, e);
  } else if constexpr (requires { Object{{}, {}, {}, {}}; }) {
    const auto& [a, b, c, d] = object;
    return std::tie(a, b, c, d);
  } else if constexpr (requires { Object{{}, {}, {}}; }) {
    const auto& [a, b, c] = object;
    return std::tie(a, b, c);
  } else if constexpr (requires { Object{{}, {}}; }) {
    const auto& [a, b] = object;
    return std::tie(a, b);
  } else if constexpr (requires { Object{{}}; }) {
    const auto& [a] = object;
    return std::tie(a);
#endif
  } else {
    return std::tuple<>();
  }
}

template <class Object>
struct Somewhere {
  Object object;
};
template <class Object>
extern const Somewhere<Object> somewhere;  ///< of which only addresses are used

/// The compiler's name of a function for a member: "... [with auto kMember = (&
/// somewhere<S>.Somewhere<S>::object.S::q); ...]"
template <auto kMember>
constexpr std::string_view text_with_name() {
  return __PRETTY_FUNCTION__;
}

template <class Object, std::size_t kNumber>
constexpr std::string_view name() {
  const std::string_view text = text_with_name<&std::get<kNumber>(of(somewhere<Object>.object))>();
  const std::size_t end = text.find(");"), begin = text.rfind("::", end) + 2;
  return text.substr(begin, end - begin);
}

/// ".k_ring.full[1]": what lies at a byte of an object. Empty for the bytes between members.
template <class Object>
std::string at(const void* object, std::size_t offset) {
  if constexpr (std::is_array_v<Object>) {
    using Element = std::remove_extent_t<Object>;
    const std::size_t begin = offset / sizeof(Element) * sizeof(Element);
    return "[" + std::to_string(offset / sizeof(Element)) + "]" +
           at<Element>(static_cast<const char*>(object) + begin, offset - begin);
  } else {
    const auto all = of(*static_cast<const Object*>(object));
    std::string text;
    const auto look = [&]<std::size_t kNumber>(std::integral_constant<std::size_t, kNumber>) {
      const auto& member = std::get<kNumber>(all);
      const auto begin =
          std::size_t(reinterpret_cast<const char*>(&member) - static_cast<const char*>(object));
      if (offset - begin >= sizeof member) return;
      using Member = std::remove_cv_t<std::remove_reference_t<decltype(member)>>;
      text = "." + std::string(name<Object, kNumber>()) + at<Member>(&member, offset - begin);
    };
    [&]<std::size_t... kNumbers>(std::index_sequence<kNumbers...>) {
      (look(std::integral_constant<std::size_t, kNumbers>()), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<decltype(all)>>());
    return text;
  }
}

}  // namespace members

/// Declares that a struct lies in shared memory: reports about its bytes then name the member.
template <class Object>
GPUSIM_INLINE void declare_members(const Object& object) {
  device::declare_members(&object, sizeof object, &members::at<Object>);
}

}  // namespace gpusim
