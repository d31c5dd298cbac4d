#include "gpusim/check/shared_arrays.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "gpusim/check/gpu_functions.hpp"
#include "gpusim/runtime/expression.hpp"

namespace gpusim::check {
namespace {

struct DumpedFunction {
  std::string mangled;
  std::string signature;  ///< "int fa::offset (int row, int col)"
  std::vector<std::string> lines;
};

/// What is known of a variable of the dump.
struct Known {
  enum Kind : std::uint8_t { kUnknown, kOfParameters, kNumber, kPointer } kind = kUnknown;
  std::string value = "0";      ///< in the notation of Expression; of a pointer: the offset, if it is known
  bool offset_is_known = true;  ///< of a pointer; false: it depends on what parameters contain
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
      if (line == "{" && !current->lines.empty()) current->signature = current->lines.back();
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

/// Also of numbers without a sign that count backwards: 18446744073709551612 is -4.
std::int64_t to_number(const std::string& text) {
  return std::int64_t(std::strtoull(text.c_str(), nullptr, 10));
}

/// "a<b, c>, d" -> {"a<b, c>", "d"}
std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '<' || c == '(' ? 1 : c == '>' || c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else if (c != ' ' || !parts.back().empty()) {
      parts.back() += c;
    }
  }
  return parts;
}

/// Names and types of the parameters, in order.
std::vector<std::pair<std::string, std::string>> parameters_of(const DumpedFunction& function) {
  std::vector<std::pair<std::string, std::string>> parameters;
  const std::size_t open = function.signature.rfind(" (");
  if (open == std::string::npos || !function.signature.ends_with(')')) return parameters;
  const std::size_t begin = open + 2, end = function.signature.size() - 1;
  for (const std::string& p : split_at_commas(function.signature.substr(begin, end - begin))) {
    const std::size_t space = std::min(p.rfind(' '), p.size() - 1);
    parameters.emplace_back(p.substr(space + 1), p.substr(0, space));
  }
  return parameters;
}

/// Not a pointer, a floating-point number or a struct.
bool is_integer(const std::string& type) {
  return type.find_first_of("*&") == type.npos && type.find("struct ") == type.npos && type != "float" &&
         type != "double";
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

/// Whether it calls an instance of this function template.
bool is_call_of(const std::string& function, const std::string& line) {
  const std::size_t begin = line.find(function + "<");
  return line.ends_with(')') && (begin == 0 || (begin != line.npos && line.substr(0, begin).ends_with("::")));
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

/// Follows the statements of a kernel, or of a function that is given numbers.
class Kernel {
 public:
  /// @param name_of_parameter  in the result, by position
  Kernel(const std::map<std::string, DumpedFunction>& functions, const DumpedFunction& kernel,
         const std::function<std::string(std::size_t)>& name_of_parameter)
      : functions_(functions), kernel_(kernel) {
    const auto parameters = parameters_of(kernel);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto& [name, type] = parameters[i];
      if (is_integer(type)) parameters_[name] = name_of_parameter(i);
    }
    run(kernel, "");
  }

  const Known& returned() const { return returned_; }

  std::string arrays() const {
    std::ostringstream out;
    for (const Array& a : arrays_) {
      out << kernel_.mangled << '\t' << a.variable << '\t' << a.name << '\t' << a.offset << '\t'
          << bytes_of_element_of(a) << '\t' << a.dimensions << '\t' << a.layout << '\n';
    }
    return is_decided_ ? out.str() : "";
  }

 private:
  struct Array {
    std::string variable, name, type;
    std::string offset = "0";
    std::string dimensions;
    std::string layout;
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
        if (is_written_by_a_person(key_of(from, object)))
          loaded_[key_of(to, object)] = written_name(key_of(from, object));
        assign(key_of(to, object), key_of(from, object), value_of(from, object));
      } else if (is_call_of("declare_rows", line)) {
        declare_rows(line, object);
      } else if (object.empty() && line.starts_with("return ")) {
        returned_ = value_of(line.substr(7), object);
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
      arrays_.push_back({name, name, "", "0", dimensions, ""});
    } else {
      if (bracket != line.npos) types_[line.substr(space + 1, bracket - space - 1)] = "an array";
      const std::size_t begin = line.starts_with("const ") ? 6 : 0;
      types_[key_of(line.substr(space + 1), object)] = line.substr(begin, space - begin);
    }
  }

  /// "totals[_5]" or "(*_4)[_5]" has the type of "sum_7", which it is set to or loaded into: an array outside
  /// of functions.
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
    arrays_.push_back({name, name, type->second, "0", "", ""});
  }

  /// "_8 = _7 * 2" and then "_9 = sK_3 + _8": what sK points to has 2 bytes. "_1 = this->q": q has the type
  /// of _1.
  void learn_size(const std::string& to, const std::string& from, const std::string& object) {
    if (types_.contains(to) && key_of(from, object).find('.') != from.npos)
      types_.try_emplace(key_of(from, object), types_[to]);
    std::istringstream words(from);
    std::string left, operation, right;
    if (!(words >> left >> operation >> right)) return;
    if (operation == "*" && is_number(right)) factors_[to] = to_number(right);
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

  /// A name for a variable of the dump. In a constructor of s, "this_14(D)->q" is "s.q", and "_2" a variable
  /// of its own.
  static std::string key_of(const std::string& text, const std::string& object) {
    if (object.empty()) return text;
    const std::size_t arrow = text.find("->");
    return text.starts_with("this") && arrow != text.npos ? object + "." + text.substr(arrow + 2)
                                                          : object + " " + text;
  }

  Known value_of(const std::string& text, const std::string& object) const {
    if (is_number(text)) return Known{Known::kNumber, std::to_string(to_number(text))};
    if (text.starts_with("_ZTW")) {  // a function that returns the address of a variable
      const std::string mangled = "_Z" + text.substr(4, text.find(' ') - 4);
      return Known{Known::kPointer, "0", true, unqualified_name(mangled)};
    }
    if (text.starts_with("threadIdx.") || text.starts_with("blockDim.")) return Known{Known::kNumber, text};
    if (text.starts_with("gridDim.")) return Known{Known::kOfParameters};
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
    if (text.ends_with("(D)")) {
      if (!object.empty()) return argument_;
      const auto parameter = parameters_.find(written_name(text.substr(0, text.size() - 3)));
      return parameter == parameters_.end() ? Known{Known::kOfParameters}
                                            : Known{Known::kNumber, parameter->second};
    }
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
      left.value = result(left.value, operation, right.value).value_or("0");
      return left;
    }
    if (left.kind == Known::kUnknown || right.kind == Known::kUnknown) return {};
    if (left.kind != Known::kNumber || right.kind != Known::kNumber) return Known{Known::kOfParameters};
    const auto value = result(left.value, operation, right.value);
    if (!value) return {};
    return Known{Known::kNumber, *value};
  }

  static std::optional<std::string> result(const std::string& a, const std::string& operation,
                                           const std::string& b) {
    static const std::set<std::string> kOperations = {"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"};
    if (!kOperations.contains(operation)) return std::nullopt;
    if (b == "0" && operation == "+") return a;
    if (a == "0" && operation == "+") return b;
    const std::string expression = a + ' ' + b + ' ' + operation;
    if (!is_number(a) || !is_number(b)) return expression;
    const auto number = Expression(expression).value([](const std::string&) { return 0; });
    return number ? std::optional(std::to_string(*number)) : std::nullopt;
  }

  /// "fa::declare_rows<65, float, float> (sK_12, _3)"
  void declare_rows(const std::string& line, const std::string& object) {
    const std::size_t begin = line.find('<') + 1, open = line.rfind(" (");
    const std::string layout = layout_of(split_at_commas(line.substr(begin, open - 1 - begin))[0]);
    for (const std::string& word : split_at_commas(line.substr(open + 2, line.size() - open - 3))) {
      const auto loaded = loaded_.find(key_of(word, object));
      const bool is_temporary = !is_written_by_a_person(written_name(word)) && loaded != loaded_.end();
      const std::string name = is_temporary ? loaded->second : written_name(word);
      for (Array& a : arrays_) {
        if (a.name == name) a.layout = layout;
      }
    }
  }

  /// Where element (r, c) of an array lies, by what declare_rows() was given: the distance between rows, or a
  /// class whose function offset(r, c) says it without branches.
  std::string layout_of(const std::string& rows) const {
    if (is_number(rows)) return "r " + rows + " * c +";
    const auto function = functions_.find(rows + "::offset");
    if (function == functions_.end()) return "";
    const auto& lines = function->second.lines;
    const auto is_block = [](const std::string& line) { return line.starts_with("<bb "); };
    if (std::count_if(lines.begin(), lines.end(), is_block) != 1) return "";
    const auto name = [](std::size_t position) { return position == 0 ? "r" : "c"; };
    const Known offset = Kernel(functions_, function->second, name).returned();
    return offset.kind == Known::kNumber ? offset.value : "";
  }

  void assign(const std::string& variable, const std::string& from, const Known& value) {
    values_[variable] = value;
    const std::string name = written_name(variable);
    if (value.kind != Known::kPointer || !is_written_by_a_person(name)) return;
    is_decided_ &= value.offset_is_known;
    auto type = types_.find(name);
    if (type == types_.end()) type = types_.find(from);
    arrays_.push_back({value.variable, name, type == types_.end() ? "" : type->second, value.value, "", ""});
  }

  const std::map<std::string, DumpedFunction>& functions_;
  const DumpedFunction& kernel_;
  std::map<std::string, std::string> parameters_;  ///< those that are integers: their names in the result
  std::map<std::string, std::string> types_;
  std::map<std::string, Known> values_;
  std::map<std::string, std::string> loaded_;    ///< names of arrays, by variables that are set to them
  std::map<std::string, std::int64_t> factors_;  ///< of variables that are a product with a number
  std::map<std::string, std::int64_t> sizes_;    ///< bytes of an element, by the type of a pointer
  std::vector<Array> arrays_;
  Known argument_;  ///< of the constructor that is being followed
  Known returned_;
  bool is_decided_ = true;
};

}  // namespace

std::string shared_arrays(const std::string& dump) {
  const std::map<std::string, DumpedFunction> functions = functions_of(dump);
  const std::set<std::string> kernels = gpu_functions(dump).kernels;
  const auto numbered = [](std::size_t position) { return "$" + std::to_string(position); };
  std::string lines;
  for (const auto& [name, function] : functions) {
    if (kernels.contains(function.mangled)) lines += Kernel(functions, function, numbered).arrays();
  }
  return lines;
}

}  // namespace gpusim::check
