#include "gpusim/runtime/swap_guess.hpp"

#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <vector>

namespace gpusim {
namespace {

/// The swap is this near to the read.
constexpr int kLines = 12;

std::vector<std::string> lines_from(const std::string& place) {
  const std::size_t colon = place.rfind(':');
  std::vector<std::string> lines;
  if (colon == place.npos) return lines;
  const int first = std::atoi(place.c_str() + colon + 1);
  std::ifstream file(place.substr(0, colon));
  std::string text;
  for (int line = 1; line < first + kLines && std::getline(file, text); ++line) {
    if (line >= first) lines.push_back(text.substr(0, text.find("//")));
  }
  return lines;
}

std::string without_spaces(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) result += c;
  }
  return result;
}

/// The first argument of a call whose name ends at `at`, without spaces; empty if none begins there.
std::string first_argument(std::string_view text, std::size_t at) {
  at = text.find_first_not_of(" \t", at);
  if (at == text.npos || text[at] != '(') return "";
  int depth = 0;
  for (std::size_t end = at + 1; end < text.size(); ++end) {
    const char c = text[end];
    if (depth == 0 && (c == ',' || c == ')')) return without_spaces(text.substr(at + 1, end - at - 1));
    depth += (c == '(' || c == '[') - (c == ')' || c == ']');
  }
  return "";
}

/// "(unsigned*)&bins[i]" -> "bins[i]", "reinterpret_cast<int*>(address)" -> "*address": the word to which a
/// pointer leads.
std::string word_at(std::string pointer) {
  for (bool changed = true; changed && !pointer.empty();) {
    changed = false;
    const std::size_t cast = pointer.find("_cast<") == pointer.npos ? pointer.npos : pointer.find(">(");
    if (cast != pointer.npos && pointer.back() == ')') {
      pointer = pointer.substr(cast + 2, pointer.size() - cast - 3);
      changed = true;
    } else if (pointer[0] == '(') {
      const std::size_t close = pointer.find(')');
      if (close == pointer.npos) return "";
      const bool is_cast = close + 1 < pointer.size();
      pointer = is_cast ? pointer.substr(close + 1) : pointer.substr(1, close - 1);
      changed = true;
    }
  }
  if (pointer.empty()) return "";
  return pointer[0] == '&' ? pointer.substr(1) : "*" + pointer;
}

bool is_word_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Whether a line, without spaces, has this expression, and not only the beginning of a longer one.
bool has(const std::string& line, const std::string& expression) {
  for (std::size_t at = line.find(expression); at != line.npos; at = line.find(expression, at + 1)) {
    const std::size_t end = at + expression.size();
    const bool begins = at == 0 || expression[0] == '*' || !is_word_character(line[at - 1]);
    if (begins && (end == line.size() || !is_word_character(line[end]))) return true;
  }
  return false;
}

}  // namespace

bool is_guess_for_swap(const std::string& place) {
  const std::vector<std::string> lines = lines_from(place);
  if (lines.empty()) return false;
  const std::string read = without_spaces(lines.front());
  std::string text;
  for (const std::string& line : lines) text += line + ' ';
  for (const std::string_view name : {"atomicCAS", "atomicCAS_system", "atomicCAS_block",
                                      "__sync_val_compare_and_swap", "__sync_bool_compare_and_swap"}) {
    for (std::size_t at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
      const std::string word = word_at(first_argument(text, at + name.size()));
      if (word.size() > 1 && (has(read, word) || (word[0] == '*' && has(read, word.substr(1) + "[0]"))))
        return true;
    }
  }
  return false;
}

}  // namespace gpusim
