#include "gpusim/check/shared_arrays.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

namespace gpusim::check {
namespace {

struct DumpedFunction {
  std::string mangled;
  std::vector<std::string> lines;
};

/// What is known of a variable of the dump. A number or an offset that differs between threads is that of thread (0,0,0).
struct Known {
  enum Kind : std::uint8_t { kUnknown, kOfParameters, kNumber, kPointer } kind = kUnknown;
  std::int64_t number = 0;      ///< of a pointer: the offset, if it is known
  bool offset_is_known = true;  ///< of a pointer; false: it depends on parameters
  bool differs = false;         ///< between threads
  std::string variable;         ///< of a pointer: what it points into
};

/// The functions of the dump, by the names that calls use.
std::map<std::string, DumpedFunction> functions_of(const std::string& dump) {
  constexpr std::string_view kStart = ";; Function ", kEnd = ", funcdef_no=";
  std::map<std::string, DumpedFunction> functions;
  DumpedFunction* current = nullptr;
  std::istringstream in(dump);
  for (std::string line; std::getline(in, line);) {
    const std::size_t end = line.find(kEnd);
    if (line.starts_with(kStart) && end != line.npos) {
      const std::size_t mangled = line.rfind(" (", end);
      current = &functions[line.substr(kStart.size(), mangled - kStart.size())];
      current->mangled = line.substr(mangled + 2, end - mangled - 2);
    } else if (current != nullptr) {
      current->lines.push_back(line.substr(std::min(line.find_first_not_of(' '), line.size())));
    }
  }
  return functions;
}

bool is_number(const std::string& text) {
  const std::size_t first = text.starts_with('-') ? 1 : 0;
  return text.size() > first && std::all_of(text.begin() + std::ptrdiff_t(first), text.end(),
                                            [](unsigned char c) { return std::isdigit(c); });
}

/// "sK_12" -> "sK", "_12" -> "", "s.k" -> "s.k"
std::string written_name(const std::string& variable) {
  const std::size_t mark = variable.rfind('_');
  return mark != variable.npos && is_number(variable.substr(mark + 1)) ? variable.substr(0, mark) : variable;
}

/// Bytes of what a pointer of this type points to; 0 if the type tells nothing.
std::int64_t bytes_of_element(const std::string& type) {
  static const std::map<std::string, std::int64_t> kBytes = {
      {"char", 1},          {"unsigned char", 1}, {"struct __half", 2},         {"struct __nv_bfloat16", 2},
      {"float", 4},         {"int", 4},           {"unsigned int", 4},          {"struct __half2", 4},
      {"struct float2", 8}, {"double", 8},        {"struct __nv_bfloat162", 4}, {"struct float4", 16},
      {"struct uint4", 16}};
  const auto it = kBytes.find(type.substr(0, type.find(" *")));
  return it == kBytes.end() ? 0 : it->second;
}

std::string written_name_or_temporary(const std::string& variable) {
  const std::string name = written_name(variable);
  return name.empty() || name.ends_with(' ') ? variable : name;
}

/// Not "_12", "sK.446", "*p" or a variable of a constructor.
bool is_written_by_a_person(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return !name.empty() && name.find_first_of(" >*") == name.npos &&
         (dot == name.npos || !is_number(name.substr(dot + 1)));
}

bool is_part_of_name(unsigned char c) { return std::isalnum(c) != 0 || c == '_'; }
bool is_part_of_member(unsigned char c) { return is_part_of_name(c) || c == '.'; }

/// "_ZN2fa4ch044smemE" -> "smem"
std::string unqualified_name(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  const std::string name = status == 0 ? demangled.get() : mangled;
  const std::size_t colon = name.rfind("::");
  return colon == name.npos ? name : name.substr(colon + 2);
}

/// Follows the statements of a kernel, for thread (0,0,0).
class Kernel {
 public:
  Kernel(const std::map<std::string, DumpedFunction>& functions, const DumpedFunction& kernel)
      : functions_(functions), kernel_(kernel) {
    run(kernel, "");
  }

  std::string arrays() const {
    std::ostringstream out;
    for (const Array& a : arrays_) {
      out << kernel_.mangled << '\t' << a.variable << '\t' << a.name << '\t' << a.offset << '\t'
          << bytes_of_element_of(a) << '\t' << (a.differs ? "each" : "") << '\t' << a.dimensions << '\n';
    }
    return is_decided_ ? out.str() : "";
  }

 private:
  struct Array {
    std::string variable, name, type;
    std::int64_t offset = 0;
    bool differs = false;
    std::string dimensions;
  };

  /// Follows the statements of a function. @param object  what `this` is; empty in the kernel
  void run(const DumpedFunction& function, const std::string& object) {
    for (std::string line : function.lines) {
      if (!line.ends_with(';') || line.starts_with('#')) continue;
      line.pop_back();
      const std::size_t equals = line.find(" = ");
      if (equals != line.npos) {
        const std::string to = line.substr(0, equals), from = line.substr(equals + 3);
        index(to, from);
        index(from, to);
        learn_size(key_of(to, object), from, object);
        assign(key_of(to, object), key_of(from, object), value_of(from, object));
      } else if (object.empty() && line.find(" (&") != line.npos) {
        construct(line);
      } else {
        declare(line, object);
      }
    }
  }

  /// "static float tile[32][33]", "const struct T * sK"
  void declare(const std::string& line, const std::string& object) {
    const std::size_t bracket = line.find('[');
    const std::size_t space = line.rfind(' ', bracket);
    if (space == line.npos) return;
    if (line.starts_with("static ") && bracket != line.npos) {
      const std::string name = line.substr(space + 1, bracket - space - 1);
      std::string dimensions = line.substr(bracket + 1, line.size() - bracket - 2);
      for (std::size_t at; (at = dimensions.find("][")) != dimensions.npos;) dimensions.replace(at, 2, ",");
      arrays_.push_back({name, name, "", 0, false, dimensions});
    } else {
      if (bracket != line.npos) types_[line.substr(space + 1, bracket - space - 1)] = "an array";
      const std::size_t begin = line.starts_with("const ") ? 6 : 0;
      types_[key_of(line.substr(space + 1), object)] = line.substr(begin, space - begin);
    }
  }

  /// "totals[_5]" or "(*_4)[_5]" has the type of "sum_7", which it is set to or loaded into: an array outside of functions.
  void index(const std::string& element, const std::string& value) {
    const std::size_t bracket = element.find('[');
    if (bracket == element.npos || element.find(']') != element.size() - 1) return;
    std::string name = element.substr(0, bracket);
    if (name.starts_with("(*_")) {
      const auto pointer = values_.find(name.substr(2, name.size() - 3));
      if (pointer == values_.end() || pointer->second.kind != Known::kPointer) return;
      name = pointer->second.variable;
    }
    const bool is_known =
        std::any_of(arrays_.begin(), arrays_.end(), [&](const Array& a) { return a.variable == name; });
    const auto type = types_.find(types_.contains(value) ? value : written_name(value));
    const bool is_name = std::all_of(name.begin(), name.end(), is_part_of_name);
    if (!is_name || is_known || types_.contains(name) || type == types_.end()) return;
    arrays_.push_back({name, name, type->second, 0, false, ""});
  }

  /// "_8 = _7 * 2" and then "_9 = sK_3 + _8": what sK points to has 2 bytes. "_1 = this->q": q has the type of _1.
  void learn_size(const std::string& to, const std::string& from, const std::string& object) {
    if (types_.contains(to) && key_of(from, object).find('.') != from.npos)
      types_.try_emplace(key_of(from, object), types_[to]);
    std::istringstream words(from);
    std::string left, operation, right;
    if (!(words >> left >> operation >> right)) return;
    if (operation == "*" && is_number(right)) factors_[to] = std::stoll(right);
    const auto factor = factors_.find(key_of(right, object));
    const auto type = types_.find(written_name_or_temporary(key_of(left, object)));
    if (operation == "+" && factor != factors_.end() && type != types_.end()) {
      std::int64_t& bytes = sizes_.try_emplace(type->second, factor->second).first->second;
      bytes = std::min(bytes, factor->second);
    }
  }

  std::int64_t bytes_of_element_of(const Array& array) const {
    const auto learned = types_.find(array.name);  // members are loaded after they have been set
    const std::string& type = array.type.empty() && learned != types_.end() ? learned->second : array.type;
    const std::int64_t bytes = bytes_of_element(type);
    const auto size = sizes_.find(type);
    return bytes != 0 || size == sizes_.end() || size->second > 16 ? bytes : size->second;
  }

  /// "SharedTiles<..>::SharedTiles (&s, _15)": the members of s become arrays.
  void construct(const std::string& line) {
    const std::size_t open = line.find(" (&"), comma = line.find(", ", open);
    const auto it = functions_.find(line.substr(0, open));
    if (comma == line.npos || it == functions_.end() || line.find(", ", comma + 2) != line.npos) return;
    argument_ = value_of(line.substr(comma + 2, line.size() - comma - 3), "");
    if (argument_.kind == Known::kPointer) run(it->second, line.substr(open + 3, comma - open - 3));
  }

  /// A name for a variable of the dump. In a constructor of s, "this_14(D)->q" is "s.q", and "_2" a variable of its own.
  static std::string key_of(const std::string& text, const std::string& object) {
    if (object.empty()) return text;
    const std::size_t arrow = text.find("->");
    return text.starts_with("this") && arrow != text.npos ? object + "." + text.substr(arrow + 2)
                                                          : object + " " + text;
  }

  Known value_of(const std::string& text, const std::string& object) const {
    if (is_number(text)) return Known{Known::kNumber, std::stoll(text)};
    if (text.starts_with("_ZTW")) {  // a function that returns the address of a variable
      const std::string mangled = "_Z" + text.substr(4, text.find(' ') - 4);
      return Known{Known::kPointer, 0, true, false, unqualified_name(mangled)};
    }
    if (text.starts_with("threadIdx.")) return Known{Known::kNumber, 0, true, true};
    if (text.starts_with("blockDim.") || text.starts_with("gridDim.")) return Known{Known::kOfParameters};
    if (const std::size_t cast = text.find(") "); text.starts_with('(') && cast != text.npos) {
      return value_of(text.substr(cast + 2), object);
    }
    std::istringstream words(text);
    std::string left, operation, right, rest;
    if (words >> left >> operation >> right && !(words >> rest)) {
      return combined(value_of(left, object), operation, value_of(right, object));
    }
    const auto it = values_.find(key_of(text, object));
    if (it != values_.end()) return it->second;
    if (text.ends_with("(D)")) return object.empty() ? Known{Known::kOfParameters} : argument_;
    const std::size_t dot = text.find('.');  // a member: of a parameter, if nothing declares the object
    const bool is_member = dot != text.npos && std::all_of(text.begin(), text.end(), is_part_of_member);
    if (object.empty() && is_member && !types_.contains(text.substr(0, dot)))
      return Known{Known::kOfParameters};
    return {};
  }

  static Known combined(Known left, const std::string& operation, const Known& right) {
    if (left.kind == Known::kPointer && operation == "+") {
      if (right.kind == Known::kUnknown) return {};
      left.offset_is_known &= right.kind == Known::kNumber;
      left.number += right.number;
      left.differs |= right.differs;
      return left;
    }
    if (left.kind == Known::kUnknown || right.kind == Known::kUnknown) return {};
    if (left.kind != Known::kNumber || right.kind != Known::kNumber) return Known{Known::kOfParameters};
    const auto number = result(left.number, operation, right.number);
    if (!number) return {};
    return Known{Known::kNumber, *number, true, left.differs || right.differs};
  }

  static std::optional<std::int64_t> result(std::int64_t a, const std::string& operation, std::int64_t b) {
    if (operation == "+") return a + b;
    if (operation == "-") return a - b;
    if (operation == "*") return a * b;
    if (operation == "/" && b != 0) return a / b;
    if (operation == "%" && b != 0) return a % b;
    if (operation == "&") return a & b;
    if (operation == ">>" && b >= 0 && b < 64) return a >> b;
    if (operation == "<<" && b >= 0 && b < 64) return a << b;
    return std::nullopt;
  }

  void assign(const std::string& variable, const std::string& from, const Known& value) {
    values_[variable] = value;
    const std::string name = written_name(variable);
    if (value.kind != Known::kPointer || !is_written_by_a_person(name)) return;
    is_decided_ &= value.offset_is_known;
    auto type = types_.find(name);
    if (type == types_.end()) type = types_.find(from);
    arrays_.push_back(
        {value.variable, name, type == types_.end() ? "" : type->second, value.number, value.differs, ""});
  }

  const std::map<std::string, DumpedFunction>& functions_;
  const DumpedFunction& kernel_;
  std::map<std::string, std::string> types_;
  std::map<std::string, Known> values_;
  std::map<std::string, std::int64_t> factors_;  ///< of variables that are a product with a number
  std::map<std::string, std::int64_t> sizes_;    ///< bytes of an element, by the type of a pointer
  std::vector<Array> arrays_;
  Known argument_;  ///< of the constructor that is being followed
  bool is_decided_ = true;
};

}  // namespace

std::string shared_arrays(const std::string& dump) {
  const std::map<std::string, DumpedFunction> functions = functions_of(dump);
  std::string lines;
  for (const auto& [name, function] : functions) {
    const bool is_lambda = function.mangled.starts_with("_ZZ");
    const bool is_kernel = function.mangled.find("B6kernel") != std::string::npos;
    if (is_kernel && !is_lambda) lines += Kernel(functions, function).arrays();
  }
  return lines;
}

}  // namespace gpusim::check
