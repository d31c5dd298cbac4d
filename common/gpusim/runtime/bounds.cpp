#include "gpusim/runtime/bounds.hpp"

#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include "gpusim/runtime/source_text.hpp"

namespace gpusim {
namespace {

/// Where the bracket at `at` was opened, which may be `at` itself.
std::size_t opening_of(const std::string& text, std::size_t at) {
  int depth = 0;
  do {
    depth += (text[at] == ']') - (text[at] == '[');
  } while (depth > 0 && at-- > 0);
  return at;
}

/// The array that the bracket at `at` indexes: "rS[n]" in "x = rS[n][i]". Empty if there is none.
std::string array_before(const std::string& text, std::size_t at) {
  if (at >= text.size() || (text[at] != '[' && text[at] != ']')) return "";
  const std::size_t end = opening_of(text, at);
  if (end >= text.size()) return "";  // on another line
  std::size_t begin = end;
  for (int depth = 0; begin > 0; --begin) {
    const auto c = static_cast<unsigned char>(text[begin - 1]);
    const bool arrow = c == '>' && begin > 1 && text[begin - 2] == '-';
    if (c == ']' || c == ')') {
      ++depth;
    } else if (c == '[' || c == '(') {
      if (--depth < 0) break;
    } else if (depth == 0 && arrow) {
      --begin;
    } else if (depth == 0 && !std::isalnum(c) &&
               std::string_view("_.:").find(char(c)) == std::string_view::npos) {
      break;
    }
  }
  return text.substr(begin, end - begin);
}

}  // namespace

std::string describe(const IndexedArray& array) {
  std::string_view type = array.type;
  if (type.size() > 2) type = type.substr(1, type.size() - 2);  // without the quotes
  const std::size_t bracket = type.find('[');
  const int count = bracket == type.npos ? 0 : std::atoi(type.substr(bracket + 1).data());
  const std::string name = array_before(source_line(array.file, int(array.line)), array.column - 1);
  const std::string elements =
      count == 1 ? "1 element, 0" : std::to_string(count) + " elements, 0 to " + std::to_string(count - 1);
  return (name.empty() ? "the array" : name) + " has " + elements + ": " + std::string(type);
}

}  // namespace gpusim
