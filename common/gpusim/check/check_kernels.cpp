/// @file
/// Runs the compiler on a source with kernels, then refuses an object file whose kernels call what only the
/// CPU has.
///
///   gpusim_check_kernels [--names] COMPILER ARGUMENT...
///
/// An argument -DGPUSIM_CUDA_ARCH=900, the value of __CUDA_ARCH__: the source is CUDA C++ as nvcc reads it,
/// with launches in <<< >>>. It is rewritten first (front_end.hpp).
///
/// --names, for g++: also puts the names of the kernels' shared arrays into the object file, for
/// reports (shared_arrays.hpp).
///
/// nvcc knows that from `__host__` and `__device__`, which mean nothing to a C++ compiler. In the simulator
/// they are ABI tags (shim/cuda_runtime.h): a mangled name says whether its function has them, or g++'s dump
/// does (gpu_functions.hpp). Such functions are part of a GPU's program, and so are the simulator's own;
/// functions that the compiler has written, such as copy constructors; and some of the C library's.
/// Everything that a kernel calls has been inlined, and is found in the debug information, or is a call in
/// the object file.
///
/// It includes <cuda_runtime.h> in files that end in .cu, and refuses arrays in kernels whose size is no
/// constant, which are an extension of g++.
#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "gpusim/check/compiler.hpp"
#include "gpusim/check/cuda_source.hpp"
#include "gpusim/check/front_end.hpp"
#include "gpusim/check/gpu_functions.hpp"
#include "gpusim/check/object_file.hpp"
#include "gpusim/check/shared_arrays.hpp"

namespace gpusim::check {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view beginning) { return text.starts_with(beginning); });
}

/// Whether a function is the C++ library's: "_ZSt..", or "_ZN", qualifiers and "St..".
bool is_standard(std::string_view mangled) {
  if (mangled.starts_with("_ZSt")) return true;
  if (!mangled.starts_with("_ZN")) return false;
  mangled.remove_prefix(3);
  mangled.remove_prefix(std::min(mangled.find_first_not_of("rVKRO"), mangled.size()));
  return starts_with_any(mangled, {"St", "Sa", "Ss", "So", "9__gnu_cxx"});
}

/// The C library's functions that CUDA has for kernels as well. The compiler calls those of the first two
/// lines by itself.
bool is_in_cuda_c_library(const std::string& name) {
  static const std::set<std::string> kFunctions = {"__cxa_throw_bad_array_new_length",
                                                   "__popcountdi2",  // of __popc()
                                                   "memcpy",
                                                   "memset",
                                                   "puts",
                                                   "putchar",
                                                   "_Unwind_Resume",
                                                   "printf",
                                                   "vprintf",
                                                   "clock",
                                                   "__assert_fail",
                                                   "abs",
                                                   "labs",
                                                   "llabs",
                                                   "div"};
  static const std::set<std::string> kMath = {
      "acos",   "acosh",    "asin",    "asinh",   "atan",      "atan2",     "atanh",  "cbrt",
      "ceil",   "copysign", "cos",     "cosh",    "erf",       "erfc",      "exp",    "exp10",
      "exp2",   "expm1",    "fabs",    "fdim",    "floor",     "fma",       "fmax",   "fmin",
      "fmod",   "frexp",    "hypot",   "ilogb",   "j0",        "j1",        "jn",     "ldexp",
      "lgamma", "llrint",   "llround", "log",     "log10",     "log1p",     "log2",   "logb",
      "lrint",  "lround",   "modf",    "nan",     "nearbyint", "nextafter", "pow",    "remainder",
      "remquo", "rint",     "round",   "scalbln", "scalbn",    "sin",       "sincos", "sinh",
      "sqrt",   "tan",      "tanh",    "tgamma",  "trunc",     "y0",        "y1",     "yn"};
  const std::string in_double = name.ends_with('f') ? name.substr(0, name.size() - 1) : name;
  return kFunctions.contains(name) || kMath.contains(name) || kMath.contains(in_double);
}

/// Functions of the C++ library that nvcc accepts in a kernel: mathematics, and casts by another name.
bool is_in_cuda_cpp_library(const InlinedCall& call) {
  const std::string_view file = std::string_view(call.file).substr(call.file.rfind('/') + 1);
  return file == "cmath" || file == "std_abs.h" || file == "math.h" || file == "initializer_list" ||
         starts_with_any(call.function, {"_ZSt4moveI", "_ZSt7forwardI"});
}

/// "void std::swap<float>(float&, float&)" -> "std::swap"
std::string short_name(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0) return mangled;
  const std::string full = demangled.get();
  std::string name;  // without template arguments, up to the parameters
  int depth = 0;
  for (std::size_t i = 0; i < full.size(); ++i) {
    const bool is_operator = name.ends_with("operator");
    if (full[i] == '(' && depth == 0 && !is_operator) break;
    if (full[i] == '<' && !is_operator) ++depth;
    if (depth == 0) name += full[i];
    if (full[i] == '>' && depth > 0) --depth;
  }
  if (const std::size_t at = name.find("__cxx11::"); at != name.npos) name.erase(at, 9);
  const std::size_t last = name.find("operator");
  const std::size_t space = name.rfind(' ', last);
  return space == std::string::npos ? name : name.substr(space + 1);
}

/// A constructor, destructor or assignment outside of the library. The debug information does not always tell
/// those that the compiler has written, which a kernel may call, from the others.
bool is_special_member(const std::string& mangled) {
  const std::string name = short_name(mangled);
  const std::size_t last = name.rfind("::");
  if (last == std::string::npos || is_standard(mangled)) return false;
  const std::string member = name.substr(last + 2), scope = name.substr(0, last);
  return member[0] == '~' || member == "operator=" || ("::" + scope).ends_with("::" + member);
}

bool is_of_simulator(std::string_view mangled) {
  return starts_with_any(mangled, {"_ZN6gpusim", "_ZNK6gpusim", "_ZTW", "_ZTH", "__tsan_", "__sanitizer_cov_",
                                   "__ubsan_handle_", "__tls_get_addr"});
}

bool is_of_gpu(const std::string& mangled, const GpuFunctions& known) {
  const bool is_tagged = contains(mangled, kDeviceTag) || contains(mangled, kKernelTag);
  return (is_tagged && !is_standard(mangled)) || is_of_simulator(mangled) || known.device.contains(mangled) ||
         known.kernels.contains(mangled);
}

bool runs_on_gpu(const InlinedCall& call, const GpuFunctions& known) {
  if (!call.function.starts_with("_Z")) return true;  // a lambda; with clang++, any function
  return is_of_gpu(call.function, known) || contains(call.file, "/gpusim/shim/") || call.implicit ||
         is_in_cuda_cpp_library(call) || is_special_member(call.function);
}

bool runs_on_gpu(const Call& call, const GpuFunctions& known) {
  return call.callee.empty() || is_of_gpu(call.callee, known) || is_in_cuda_c_library(call.callee) ||
         is_special_member(call.callee);
}

/// A call of a function that a GPU does not have.
struct Finding {
  SourceLine line;
  std::string function;  ///< mangled
};

void find_inlined(const std::vector<InlinedCall>& calls, const GpuFunctions& known,
                  std::vector<Finding>& findings) {
  for (const InlinedCall& call : calls) {
    if (!runs_on_gpu(call, known)) {
      findings.push_back({call.caller, call.function});
    } else if (!contains(call.file, "/gpusim/shim/") && !is_standard(call.function)) {
      find_inlined(call.inside, known, findings);  // the libraries may do what they like
    }
  }
}

bool is_library_file(std::string_view file) {
  return starts_with_any(file, {"/usr/include/", "/usr/lib/"}) || contains(file, "/c++/") ||
         contains(file, "/gpusim/shim/");
}

/// The line from which the call was made, as a person sees it: not inside a library.
SourceLine line_of(const Call& call, const ObjectFile& object) {
  for (const SourceLine& line : object.lines_of(call.address)) {
    if (!is_library_file(line.file)) return line;
  }
  return {object.source(), 0};
}

/// What the kernels of an object file call, and functions that they call and the compiler has not inlined.
std::vector<Finding> findings_in(const std::string& path, const GpuFunctions& known) {
  const ObjectFile object(path);
  std::vector<const Function*> open;
  for (const Function& f : object.functions()) {
    if (contains(f.name, kKernelTag) || known.kernels.contains(f.name)) open.push_back(&f);
  }
  std::vector<Finding> findings;
  if (open.empty()) return findings;
  std::set<std::uint64_t> seen;
  std::vector<Finding> called;
  while (!open.empty()) {
    const Function& f = *open.back();
    open.pop_back();
    if (!seen.insert(f.begin).second) continue;
    find_inlined(object.inlined_into(f.begin), known, findings);
    const auto& calls = object.calls();
    auto call = std::lower_bound(calls.begin(), calls.end(), f.begin,
                                 [](const Call& c, std::uint64_t address) { return c.address < address; });
    for (; call != calls.end() && call->address < f.end; ++call) {
      if (!runs_on_gpu(*call, known)) {
        called.push_back({line_of(*call, object), call->callee});
        continue;
      }
      if (is_of_simulator(call->callee)) continue;  // such as enter_kernel(), which launches
      for (const Function& other : object.functions()) {
        if (call->target != 0 && other.begin == call->target) open.push_back(&other);
      }
    }
  }
  const auto is_known = [&](const Finding& finding) {  // what std::vector calls is no news
    return std::any_of(findings.begin(), findings.end(), [&](const Finding& other) {
      return other.line.file == finding.line.file && other.line.line == finding.line.line;
    });
  };
  std::erase_if(called, is_known);
  findings.insert(findings.end(), called.begin(), called.end());
  return findings;
}

/// What a kernel cannot do, and what to write instead.
struct Advice {
  std::string action, instead;
};

Advice advice_for(const std::string& mangled) {
  if (mangled.starts_with("__cxa_guard_")) {
    return {"initialize a static variable when it is first used", "use __shared__, or a constant"};
  }
  if (mangled.starts_with("__cxa_")) return {"throw or catch exceptions", "return, or trap with assert()"};
  const std::string name = short_name(mangled), action = "call " + name + "()";
  if (name == "std::max" || name == "std::min") {
    return {action, "use " + name.substr(5) + "() or f" + name.substr(5) + "f()"};
  }
  const std::set<std::string> heap = {"malloc", "calloc", "realloc", "free"};
  if (starts_with_any(name, {"operator new", "operator delete"}) || heap.contains(name)) {
    return {action, "use shared memory, or an array whose size is a constant"};
  }
  if (!mangled.starts_with("_Z") || is_standard(mangled)) {
    return {action, "a kernel can call CUDA's functions, and those with __device__"};
  }
  return {action, "declare it __device__ if a kernel may call it"};
}

/// With nvcc's --expt-relaxed-constexpr, kernels may call functions that are constexpr. Which ones of the
/// library are, the debug information does not say.
void accept_constexpr(std::vector<Finding>& findings, const std::set<std::string>& names) {
  std::erase_if(findings, [&](const Finding& finding) {
    const std::string name = short_name(finding.function);
    const std::size_t last = name.rfind("::");
    return is_standard(finding.function) || names.contains(last == name.npos ? name : name.substr(last + 2));
  });
}

std::vector<Finding> without(std::vector<Finding> findings, const std::vector<LineRange>& host_only) {
  std::erase_if(findings, [&](const Finding& finding) {
    return std::any_of(host_only.begin(), host_only.end(), [&](const LineRange& range) {
      return finding.line.file.ends_with(range.file) && finding.line.line >= range.first &&
             finding.line.line <= range.last;
    });
  });
  return findings;
}

std::string text_of(const SourceLine& where) {
  std::ifstream file(where.file);
  std::string text;
  for (int number = 0; number < where.line; ++number) {
    if (!std::getline(file, text)) return "";
  }
  return text;
}

/// Prints an error in the format of the compiler, the same one only once.
class Errors {
 public:
  void add(const SourceLine& where, const std::string& what, const std::string& advice) {
    std::ostringstream error;
    error << where.file << ':' << where.line << ": error: a kernel cannot " << what << '\n'
          << std::setw(5) << where.line << " | " << text_of(where) << '\n'
          << "      | " << advice << '\n';
    if (printed_.insert(error.str()).second) std::cerr << error.str();
  }

 private:
  std::set<std::string> printed_;
};

int report(const std::vector<Finding>& findings) {
  Errors errors;
  for (const Finding& f : findings) {
    const Advice advice = advice_for(f.function);
    errors.add(f.line, advice.action, "it runs on the CPU only: " + advice.instead);
  }
  return findings.empty() ? 0 : 1;
}

/// Puts the names of the shared arrays into a section of the object file. Without them, reports count bytes.
void add_names(const std::string& object, const std::string& names) {
  if (names.empty()) return;
  const std::string file = object + ".names";
  std::ofstream(file) << names;
  run({"objcopy", "--add-section", ".gpusim_names=" + file, object});
  std::remove(file.c_str());
}

/// The lines of shared_arrays(), with the one symbol for the variables that are `extern __shared__` arrays.
std::string with_dynamic_symbol(const std::string& lines, const std::set<std::string>& dynamic_arrays) {
  if (dynamic_arrays.empty()) return lines;
  std::istringstream in(lines);
  std::string result;
  for (std::string line; std::getline(in, line);) {
    const std::size_t begin = line.find('\t') + 1, end = line.find('\t', begin);
    if (dynamic_arrays.contains(line.substr(begin, end - begin)))
      line.replace(begin, end - begin, kDynamicSymbol);
    result += line + '\n';
  }
  return result;
}

/// The object file that the compiler writes; empty if it writes none.
std::string object_of(const std::vector<std::string>& words) {
  const auto output = std::find(words.begin(), words.end(), "-o");
  const bool compiles = std::find(words.begin(), words.end(), "-c") != words.end();
  if (!compiles || output == words.end() || output + 1 == words.end()) return "";
  return (output + 1)->ends_with(".o") ? output[1] : "";
}

/// Compiles once more, to learn where the arrays are whose size is no constant.
/// @param words  the last one makes the dump
int report_unknown_sizes(std::vector<std::string> words, const std::string& dump, const GpuFunctions& known) {
  if (known.with_unknown_sizes.empty()) return 0;
  words.back() = "-fdump-tree-ssa-lineno=" + dump;
  words.emplace_back("-w");
  run(words);
  const std::string text = contents_of(dump);
  Errors errors;
  for (const std::string& function : known.with_unknown_sizes) {
    for (const SourceLine& where : unknown_sizes(text, function)) {
      errors.add(where, "have an array whose size is known only when it runs",
                 "nvcc needs a constant: a constexpr variable or a template parameter");
    }
  }
  return 1;
}

/// nvcc includes the runtime at the beginning of each file of its own.
void include_runtime(std::vector<std::string>& words) {
  const bool is_cuda =
      std::any_of(words.begin(), words.end(), [](const std::string& word) { return word.ends_with(".cu"); });
  if (is_cuda) words.insert(words.end(), {"-include", "cuda_runtime.h"});
}

/// Whether the compiler optimises. If not, what a kernel calls of the standard library is called and not
/// inlined, also by CUDA's functions in the shim; a program for a debugger, whose kernels have been checked
/// before.
bool optimizes(const std::vector<std::string>& words) {
  const auto level = std::find_if(words.rbegin(), words.rend(),
                                  [](const std::string& word) { return word.starts_with("-O"); });
  return level == words.rend() || *level != "-O0";
}

int compile_and_check(std::vector<std::string> words, bool with_names, const std::string& architecture) {
  const std::string object = object_of(words), dump = object + ".ssa";
  if (!object.empty()) include_runtime(words);
  const bool is_cuda = !architecture.empty() && !object.empty();
  CudaSource source;
  if (is_cuda) {
    std::optional<CudaSource> known = rewrite_source(words, object, architecture);
    if (!known) return 1;
    source = std::move(*known);
  }
  if (with_names && !object.empty()) words.push_back("-fdump-tree-ssa=" + dump);
  int status = run(words);
  if (object.empty()) return status;
  const std::string text = with_names && status == 0 ? contents_of(dump) : "";
  const GpuFunctions known = gpu_functions(text);
  if (status == 0) status = report_unknown_sizes(words, dump, known);
  if (status == 0 && optimizes(words)) {
    std::vector<Finding> findings = without(findings_in(object, known), source.host_only);
    if (std::find(words.begin(), words.end(), "-DGPUSIM_RELAXED_CONSTEXPR") != words.end())
      accept_constexpr(findings, source.constexpr_functions);
    status = report(findings);
  }
  if (with_names) std::remove(dump.c_str());
  if (is_cuda) std::remove((object + ".ii").c_str());
  if (status != 0) {
    std::remove(object.c_str());  // or the next build would take it
  } else {
    add_names(object, with_dynamic_symbol(shared_arrays(text), source.dynamic_arrays));
  }
  return status;
}

}  // namespace
}  // namespace gpusim::check

int main(int count, char** arguments) {
  std::vector<std::string> words(arguments + 1, arguments + count);
  const auto take = [&](const char* option) {
    const bool is_given = !words.empty() && words[0] == option;
    if (is_given) words.erase(words.begin());
    return is_given;
  };
  const bool with_names = take("--names");
  std::string architecture;
  for (const std::string& word : words) {
    if (word.starts_with("-DGPUSIM_CUDA_ARCH=")) architecture = word.substr(word.find('=') + 1);
  }
  if (words.empty()) {
    std::cerr << "usage: gpusim_check_kernels [--names] COMPILER ARGUMENT...\n";
    return 2;
  }
  try {
    return gpusim::check::compile_and_check(words, with_names, architecture);
  } catch (const std::exception& error) {
    std::cerr << "gpusim_check_kernels: warning: kernels are not checked: " << error.what() << '\n';
    return 0;
  }
}
