#include "gpusim/runtime/allocation_names.hpp"

#include <unwind.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <utility>

namespace gpusim {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::string trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return std::string(text);
}

/// A call may go over several lines: this many of them, from the one that the debug information names.
constexpr int kLinesOfCall = 4;

/// The source from `first` to `last`, relative to a place "/path/kernel.cu:48", without comments at line
/// ends.
std::string source_around(const std::string& place, int first, int last) {
  const std::size_t colon = place.rfind(':');
  if (colon == place.npos) return "";
  const int line = std::atoi(place.c_str() + colon + 1);
  std::ifstream file(place.substr(0, colon));
  std::string all, text;
  for (int number = 1; number <= line + last && std::getline(file, text); ++number) {
    if (number >= line + first) all += text.substr(0, text.find("//")) + '\n';
  }
  return all;
}

/// The position after the bracket that closes the one at `open`.
std::size_t after_bracket(std::string_view text, std::size_t open) {
  int depth = 0;
  for (std::size_t at = open; at < text.size(); ++at) {
    depth += (text[at] == '(' || text[at] == '[' || text[at] == '{') -
             (text[at] == ')' || text[at] == ']' || text[at] == '}');
    if (depth == 0) return at + 1;
  }
  return text.npos;
}

/// A call of a function: where its name begins, and the arguments as they are written.
struct WrittenCall {
  std::size_t begin = 0;
  std::vector<std::string> arguments;
};

std::size_t begin_of_arguments(std::string_view text, std::size_t at) {
  while (at < text.size() && is_space(text[at])) ++at;
  if (at < text.size() && text[at] == '<') {  // template arguments
    int depth = 0;
    for (; at < text.size(); ++at) {
      depth += (text[at] == '<') - (text[at] == '>');
      if (depth == 0) break;
      if (text[at] == ';') return text.npos;
    }
    ++at;
    while (at < text.size() && is_space(text[at])) ++at;
  }
  return at < text.size() && text[at] == '(' ? at : text.npos;
}

/// A call of a function, or of one whose name begins so, if `whole` is false. The first one from `at` on.
bool find_call(std::string_view text, std::string_view name, bool whole, WrittenCall& call,
               std::size_t from = 0) {
  for (std::size_t at = text.find(name, from); at != text.npos; at = text.find(name, at + 1)) {
    if (name.empty() || (at > 0 && is_word(text[at - 1]))) continue;
    std::size_t end = at + name.size();
    while (!whole && end < text.size() && is_word(text[end])) ++end;
    if (end < text.size() && is_word(text[end])) continue;
    const std::size_t open = begin_of_arguments(text, end);
    const std::size_t close = open == text.npos ? open : after_bracket(text, open);
    if (close == text.npos) continue;
    call.begin = at;
    call.arguments.clear();
    std::size_t begin = open + 1;
    int depth = 0;
    for (std::size_t i = begin; i < close; ++i) {
      const char c = text[i];
      if (depth == 0 && (c == ',' || i + 1 == close)) {
        call.arguments.push_back(trimmed(text.substr(begin, i - begin)));
        begin = i + 1;
      }
      depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
    }
    return true;
  }
  return false;
}

/// "(void**)&d_x" -> "d_x", with its address taken; "ptr" -> "ptr", without.
std::pair<std::string, bool> variable_of(std::string text) {
  bool is_address = false;
  for (bool changed = true; changed;) {
    changed = false;
    text = trimmed(text);
    for (const std::string_view cast : {"reinterpret_cast<", "static_cast<"}) {
      const std::size_t open = text.find(">(");
      if (!text.starts_with(cast) || open == text.npos || text.back() != ')') continue;
      text = text.substr(open + 2, text.size() - open - 3);
      changed = true;
    }
    if (text.starts_with('(')) {
      const std::size_t close = after_bracket(text, 0);
      if (close == text.npos) return {"", false};
      text = close == text.size() ? text.substr(1, close - 2) : text.substr(close);  // brackets, or a cast
      changed = true;
    } else if (text.starts_with('&')) {
      text.erase(0, 1);
      is_address = changed = true;
    } else if (text.starts_with("this->")) {
      text.erase(0, 6);
      changed = true;
    }
  }
  const bool is_name =
      !text.empty() && (is_word(text[0]) || text[0] == ':') &&
      std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
      std::all_of(text.begin(), text.end(), [](char c) {
        return is_word(c) || std::string_view(".:->[]+*% ").find(c) != std::string_view::npos;
      });
  if (const std::size_t plus = text.find('+'); is_name && plus != text.npos && !is_address)
    return {trimmed(text.substr(0, plus)) + "[" + trimmed(text.substr(plus + 1)) + "]", true};
  return {is_name ? text : "", is_address};
}

/// The variable that gets what the expression at `at` gives: "d_x" in "float* d_x = alloc(n)" and in
/// "Buffer d_x(n)"; empty if there is none.
std::string receiver_of(std::string_view text, std::size_t at) {
  while (at > 0 && (is_space(text[at - 1]) || text[at - 1] == ':' || is_word(text[at - 1]))) --at;  // a scope
  if (at > 0 && text[at - 1] == ')') {                                                              // a cast
    int depth = 0;
    while (at > 0) {
      --at;
      depth += (text[at] == ')') - (text[at] == '(');
      if (depth == 0) break;
    }
    while (at > 0 && is_space(text[at - 1])) --at;
  }
  if (at == 0 || (text[at - 1] != '=' && text[at - 1] != '(' && text[at - 1] != '{')) return "";
  if (text[at - 1] == '=' && at > 1 && std::string_view("=!<>").find(text[at - 2]) != std::string_view::npos)
    return "";
  std::size_t end = at - 1;
  while (end > 0 && is_space(text[end - 1])) --end;
  std::size_t begin = end;
  int depth = 0;
  for (; begin > 0; --begin) {
    const char c = text[begin - 1];
    depth += (c == ']') - (c == '[');
    const bool is_arrow = c == '>' && begin > 1 && text[begin - 2] == '-';
    if (depth == 0 && !is_word(c) && c != '.' && c != '[' && !is_arrow && !(c == '-' && text[begin] == '>'))
      break;
  }
  const std::string name = trimmed(text.substr(begin, end - begin));
  static constexpr std::string_view kNoVariables[] = {"return", "if", "while", "switch", "sizeof"};
  return std::find(std::begin(kNoVariables), std::end(kNoVariables), name) == std::end(kNoVariables) ? name
                                                                                                     : "";
}

/// The object that a constructor of a class makes on this line: "d_x" in "Buffer<float> d_x(n);"
std::string object_of(std::string_view text, std::string_view class_name) {
  for (std::size_t at = text.find(class_name); at != text.npos; at = text.find(class_name, at + 1)) {
    if (at > 0 && is_word(text[at - 1])) continue;
    std::size_t end = at + class_name.size();
    if (end < text.size() && is_word(text[end])) continue;
    const std::size_t begin = at;
    if (end < text.size() && text[end] == '<') {
      int depth = 0;
      for (; end < text.size(); ++end) {
        depth += (text[end] == '<') - (text[end] == '>');
        if (depth == 0) break;
      }
      ++end;
    }
    while (end < text.size() && is_space(text[end])) ++end;
    std::size_t last = end;
    while (last < text.size() && is_word(text[last])) ++last;
    if (last > end) return std::string(text.substr(end, last - end));
    if (const std::string receiver = receiver_of(text, begin); !receiver.empty()) return receiver;
  }
  return "";
}

/// Whether a function is a constructor: its file declares a class of that name.
bool is_class(const std::string& place, const std::string& name) {
  const std::string text = source_around(place, -(1 << 30), 1 << 20);
  for (const std::string_view what : {"class ", "struct "}) {
    const std::string wanted = std::string(what) + name;
    for (std::size_t at = text.find(wanted); at != text.npos; at = text.find(wanted, at + 1)) {
      if (!is_word(text[at + wanted.size()])) return true;
    }
  }
  return false;
}

/// Whether the function goes on to return a variable, in the lines after a place.
bool returns(const std::string& place, const std::string& variable) {
  constexpr int kMostLines = 40;
  const std::string text = source_around(place, 0, kMostLines);
  for (std::size_t at = text.find("return"); at != text.npos; at = text.find("return", at + 1)) {
    if (const std::size_t end = text.find("\n}"); end != text.npos && end < at) return false;
    const std::string what = text.substr(at + 6, text.find(';', at) - at - 6);
    if (variable_of(what).first == variable) return true;
  }
  return false;
}

/// The array that a loop goes through with this variable: "d" for p in "for (float*& p : d)".
std::string array_of(const std::string& place, const std::string& variable) {
  constexpr int kLinesBefore = -4;
  const std::string text = source_around(place, kLinesBefore, 0);
  for (std::size_t at = text.find(variable); at != text.npos && !variable.empty();
       at = text.find(variable, at + 1)) {
    if (at == 0 || (text[at - 1] != '&' && !is_space(text[at - 1]))) continue;
    std::size_t end = at + variable.size();
    while (end < text.size() && text[end] == ' ') ++end;
    if (end + 1 >= text.size() || text[end] != ':' || text[end + 1] == ':') continue;
    const std::size_t close = text.find(')', end);
    const std::string array =
        close == text.npos ? "" : variable_of(text.substr(end + 1, close - end - 1)).first;
    if (!array.empty()) return array;
  }
  return "";
}

/// The first call from `from` on that allocates memory of the device.
bool find_allocation(std::string_view text, WrittenCall& call, std::size_t from = 0) {
  constexpr std::string_view kOfHost = "cudaMallocHost";
  while (find_call(text, "cudaMalloc", false, call, from)) {
    if (text.substr(call.begin, kOfHost.size()) != kOfHost) return true;
    from = call.begin + 1;
  }
  return false;
}

}  // namespace

std::vector<std::uintptr_t> callers() {
  constexpr std::size_t kMost = 16;
  std::vector<std::uintptr_t> result;
  result.reserve(kMost);
  _Unwind_Backtrace(
      [](_Unwind_Context* frame, void* data) {
        auto& pcs = *static_cast<std::vector<std::uintptr_t>*>(data);
        if (pcs.size() == kMost) return _URC_NORMAL_STOP;
        pcs.push_back(_Unwind_GetIP(frame));
        return _URC_NO_REASON;
      },
      &result);
  return result;
}

std::string allocation_name(const std::vector<Frame>& frames, std::size_t number) {
  if (frames.empty()) return "";
  WrittenCall call;
  const auto text_of = [&](std::size_t frame) { return source_around(frames[frame].place, 0, kLinesOfCall); };
  const std::string text = text_of(0);
  if (!find_allocation(text, call) && !find_call(text, "cudaHostAlloc", true, call)) return "";
  const std::size_t end_of_line = text.find('\n');
  for (WrittenCall next; number > 0 && find_allocation(text, next, call.begin + 1); --number) {
    if (next.begin > end_of_line) break;
    call = next;
  }
  if (call.arguments.empty()) return "";
  auto [name, is_address] = variable_of(call.arguments[0]);
  if (const std::string array = array_of(frames[0].place, name); !array.empty()) return array + "[]";
  std::string member;  // of an object that a caller has
  for (std::size_t i = 0; i + 1 < frames.size() && !name.empty(); ++i) {
    const std::string& function = frames[i].function;
    const std::string outside = text_of(i + 1);
    if (!is_address) {  // the caller has passed the address of its variable
      if (!find_call(outside, function, true, call)) break;
      const auto passed = std::find_if(call.arguments.begin(), call.arguments.end(),
                                       [](const std::string& a) { return variable_of(a).second; });
      if (passed == call.arguments.end()) break;
      std::tie(name, is_address) = variable_of(*passed);
    } else if (const std::string object = object_of(outside, function);
               !object.empty() && is_class(frames[i].place, function)) {
      member = "." + name + member;
      name = object;
    } else if (returns(frames[i].place, name)) {
      if (!find_call(outside, function, true, call)) break;
      const std::string receiver = receiver_of(outside, call.begin);
      if (receiver.empty()) break;
      name = receiver;
    } else {
      break;
    }
  }
  return name + member;
}

}  // namespace gpusim
