#include "gpusim/runtime/source_text.hpp"

#include <cctype>
#include <cstdlib>
#include <fstream>

namespace gpusim {

std::string source_line(const std::string& path, int line) {
  std::ifstream file(path);
  std::string text;
  for (int number = 0; number < line; ++number) {
    if (!std::getline(file, text)) return "";
  }
  return text;
}

std::string source_line(const std::string& place) {
  const std::size_t colon = place.rfind(':');
  return colon == place.npos ? "" : source_line(place.substr(0, colon), std::atoi(place.c_str() + colon + 1));
}

namespace {

/// The end of a call's template arguments: the position of its parenthesis.
std::size_t parenthesis_after(const std::string& text, std::size_t at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    depth += (text[at] == '<') - (text[at] == '>');
    if (depth == 0 && text[at] != '>') break;
  }
  return at < text.size() && text[at] == '(' ? at : text.npos;
}

}  // namespace

std::string argument_of_call(const std::string& text, const std::string& function, int number) {
  std::size_t open = text.npos;
  for (std::size_t at = text.find(function); at != text.npos; at = text.find(function, at + 1)) {
    const bool is_end_of_name =
        at > 0 && (std::isalnum(static_cast<unsigned char>(text[at - 1])) != 0 || text[at - 1] == '_');
    const std::size_t here = parenthesis_after(text, at + function.size());
    if (is_end_of_name || here == text.npos) continue;
    if (open != text.npos) return "";
    open = here;
  }
  if (open == text.npos || function.empty()) return "";
  int depth = 0;
  for (std::size_t at = open + 1, begin = at; at < text.size(); ++at) {
    const char c = text[at];
    if (depth == 0 && (c == ',' || c == ')')) {
      if (number-- == 0) {
        begin += text.substr(begin).find_first_not_of(' ');
        return text.substr(begin, at - begin);
      }
      if (c == ')') break;
      begin = at + 1;
    }
    depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
  }
  return "";
}

}  // namespace gpusim
