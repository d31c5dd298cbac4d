/// @file
/// The beginning of every set of precompiled headers. A source instantiates, at its end, each function
/// template that an inline function of the headers calls, whether the source uses it or not: with <string>,
/// <cmath> and <memory>, a tenth of a second. Functions that a constant expression has called are in the
/// precompiled headers instead.
#pragma once

#include <bits/c++config.h>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS  // Bessel functions and the like

#include <string>
#include <utility>
#include <vector>

namespace fa::instantiated {

template <class Char>
constexpr bool strings() {
  using String = std::basic_string<Char>;
  const Char text[] = {Char('a'), Char('b'), Char()};
  String a(text), b(text, 1), c(40, Char('c')), d = a, e = std::move(b);
  a += c;
  a += text;
  a.append(c).append(text).append(text, 2).insert(0, text).replace(0, 1, text, 1);
  a.push_back(Char('d'));
  c.assign(text).resize(4);
  c.reserve(90);
  c = a;
  d = std::move(c);
  d = text;
  e = text + a + text + a + (a + a) + (text + String(text)) + (String(text) + String(text));
  return e.substr(1).compare(a) != 0 && a != d && a != text && e.find(Char('d')) > 0 && !e.empty() &&
         (a < e || e < a);
}

template <class T>
constexpr bool vectors() {
  const T values[] = {T(), T(), T()};
  std::vector<T> a(values, values + 3), b = {T(), T()}, c(2), d(2, T()), e = a, f = std::move(b);
  a.insert(a.end(), values, values + 3);
  a.insert(a.end(), e.begin(), e.end());
  a.push_back(T());
  a.emplace_back(T());
  b = e;
  c = std::move(e);
  d.resize(7);
  d.reserve(20);
  return a.size() > f.size() && !d.empty();
}

static_assert(strings<char>() && strings<wchar_t>() && strings<char8_t>() && strings<char16_t>() &&
              strings<char32_t>());
static_assert(vectors<float>() && vectors<int>() && vectors<long>());

}  // namespace fa::instantiated
