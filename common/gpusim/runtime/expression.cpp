#include "gpusim/runtime/expression.hpp"

#include <cctype>
#include <sstream>
#include <vector>

namespace gpusim {
namespace {

std::optional<std::int64_t> result(std::int64_t a, const std::string& operation, std::int64_t b) {
  if (operation == "+") return a + b;
  if (operation == "-") return a - b;
  if (operation == "*") return a * b;
  if (operation == "/" && b != 0) return a / b;
  if (operation == "%" && b != 0) return a % b;
  if (operation == "&") return a & b;
  if (operation == "|") return a | b;
  if (operation == "^") return a ^ b;
  if (operation == ">>" && b >= 0 && b < 64) return a >> b;
  if (operation == "<<" && b >= 0 && b < 64) return a << b;
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> Expression::value(
    const std::function<std::int64_t(const std::string&)>& value_of) const {
  std::vector<std::int64_t> stack;
  std::istringstream words(text_);
  for (std::string word; words >> word;) {
    const auto last = static_cast<unsigned char>(word.back());
    if (std::isdigit(last) != 0 && word[0] != '$') {
      stack.push_back(std::stoll(word));
    } else if (word[0] == '$' || std::isalpha(last) != 0) {
      stack.push_back(value_of(word));
    } else if (stack.size() < 2) {
      return std::nullopt;
    } else {
      const std::int64_t right = stack.back();
      stack.pop_back();
      const auto number = result(stack.back(), word, right);
      if (!number) return std::nullopt;
      stack.back() = *number;
    }
  }
  return stack.size() == 1 ? std::optional(stack[0]) : std::nullopt;
}

}  // namespace gpusim
