#include "harness/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <string_view>
#include <utility>

namespace fa {

std::string with_prefix(double value) {
  constexpr const char* kPrefixes[] = {"", " k", " M", " G", " T", " P", " E", " Z", " Y"};
  std::size_t prefix = 0;
  // From 999.5 on, three digits would round to 1000.
  while (std::abs(value) >= 999.5 && prefix + 1 < std::size(kPrefixes)) {
    value /= 1000;
    ++prefix;
  }
  return fmt::format("{:.3g}{}", value, kPrefixes[prefix]);
}

std::string in_lines(const std::vector<std::string>& words, std::size_t width) {
  std::string text;
  std::size_t column = 0;
  for (const std::string& word : words) {
    if (column == 0) {
      column = word.size();
    } else if (column + 1 + word.size() <= width) {
      text += ' ';
      column += 1 + word.size();
    } else {
      text += "\n  ";
      column = 2 + word.size();
    }
    text += word;
  }
  return text;
}

std::string in_shell(const std::string& word) {
  const auto plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           std::string_view("@%+=:,./-_").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string closest(const std::string& word, const std::vector<std::string>& words) {
  const auto distance = [&](const std::string& other) {
    std::vector<std::size_t> row(other.size() + 1);  // to the beginnings of the other word
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < word.size(); ++i) {
      std::size_t diagonal = std::exchange(row[0], i + 1);
      for (std::size_t j = 0; j < other.size(); ++j) {
        const std::size_t replaced = diagonal + (word[i] != other[j]);
        diagonal = row[j + 1];
        row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
      }
    }
    return row.back();
  };
  std::string best;
  std::size_t least = word.size() / 3 + 1;
  for (const std::string& other : words) {
    if (const std::size_t changes = distance(other); changes < least) least = changes, best = other;
  }
  return best;
}

std::string scientific(double value) {
  if (std::isnan(value)) return "nan";  // whatever its sign bit
  if (value == 0 || std::isinf(value)) return fmt::format("{}", value);
  const std::string text = fmt::format("{:.1e}", value);  // "3.1e-07", "2.0e+06"
  const std::size_t e = text.find('e');
  const std::string digits = text.substr(e - 2, 2) == ".0" ? text.substr(0, e - 2) : text.substr(0, e);
  return fmt::format("{}e{}", digits, std::stoi(text.substr(e + 1)));
}

}  // namespace fa
