/// @file
/// Whole numbers that depend on others, in postfix notation: "$3 64 * threadIdx.x 32 / 16 * +".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace gpusim {

class Expression {
 public:
  Expression() = default;
  explicit Expression(std::string text) : text_(std::move(text)) {}

  /// @param value_of  a name
  /// @return  nothing if the expression is empty or wrong, or divides by zero
  std::optional<std::int64_t> value(const std::function<std::int64_t(const std::string&)>& value_of) const;

  bool empty() const { return text_.empty(); }
  bool contains(const std::string& name) const { return text_.find(name) != text_.npos; }

 private:
  std::string text_;
};

}  // namespace gpusim
