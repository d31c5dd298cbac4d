#include "gpusim/runtime/source_text.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <string_view>

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

bool is_one_of(char c, std::string_view characters) { return characters.find(c) != characters.npos; }

/// A number, true, false, or a name in capital letters.
bool is_constant(std::string_view text) {
  while (!text.empty() && is_one_of(text.front(), " \t+-")) text.remove_prefix(1);
  while (!text.empty() && is_one_of(text.back(), " \t")) text.remove_suffix(1);
  if (text == "true" || text == "false") return true;
  const bool is_number = !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) != 0;
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return is_number ? std::isalnum(byte) != 0 || c == '.' || c == '\''
                     : std::isupper(byte) != 0 || std::isdigit(byte) != 0 || c == '_';
  });
}

}  // namespace

bool stores_constants_only(const std::string& text) {
  const std::string code = text.substr(0, text.find("//"));
  bool stores = false;
  for (std::size_t at = code.find('='); at != code.npos; at = code.find('=', at + 1)) {
    const char before = at == 0 ? ' ' : code[at - 1];
    const char after = at + 1 < code.size() ? code[at + 1] : ' ';
    if (after == '=') {
      ++at;
      continue;
    }
    if (before == '!' || (is_one_of(before, "<>") && (at < 2 || code[at - 2] != before))) continue;
    if (is_one_of(before, "<>+-*/%&|^")) return false;
    const std::size_t end = std::min(code.find_first_of(";,)=}", at + 1), code.size());
    const bool goes_on = end < code.size() && code[end] == '=';  // a = b = 0
    if (!goes_on && !is_constant(std::string_view(code).substr(at + 1, end - at - 1))) return false;
    stores = true;
  }
  return stores;
}

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
