#include "gpusim/check/gpu_functions.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <sstream>

namespace gpusim::check {
namespace {

/// The mangled name in ";; Function k<float> (_Z1kIfEvPT_, funcdef_no=1820, .."; empty if the line does not
/// begin a function.
std::string begun_function(const std::string& line) {
  constexpr std::string_view kStart = ";; Function ", kEnd = ", funcdef_no=";
  const std::size_t end = line.find(kEnd);
  if (!line.starts_with(kStart) || end == line.npos) return "";
  const std::size_t begin = line.rfind(" (", end) + 2;
  return line.substr(begin, end - begin);
}

/// Whether a function is a lambda inside another one: "_ZZ1kPfENKUliE_clEi" is in "_Z1kPf".
bool is_inside(const std::string& mangled, const std::string& other) {
  return mangled.starts_with("_ZZ") && mangled.compare(3, other.size() - 2, other, 2) == 0;
}

}  // namespace

GpuFunctions gpu_functions(const std::string& dump) {
  GpuFunctions functions;
  std::set<std::string> with_unknown_sizes;  // of the CPU as well
  std::string function;
  std::istringstream in(dump);
  for (std::string line; std::getline(in, line);) {
    if (const std::string begun = begun_function(line); !begun.empty()) {
      function = begun;
    } else if (line.starts_with("__attribute__((")) {
      if (line.find("abi_tag (\"kernel\")") != line.npos) functions.kernels.insert(function);
      if (line.find("abi_tag (\"device\")") != line.npos) functions.device.insert(function);
    } else if (line.starts_with("  ") && line.find("[0:D.") != line.npos && line.ends_with(';')) {
      with_unknown_sizes.insert(function);  // "  float[0:D.40632] * acc.1;"
    }
  }
  for (const std::string& f : with_unknown_sizes) {
    const auto has_it = [&](const std::string& other) { return f == other || is_inside(f, other); };
    if (f.find(kKernelTag) != f.npos || f.find(kDeviceTag) != f.npos ||
        std::any_of(functions.kernels.begin(), functions.kernels.end(), has_it) ||
        std::any_of(functions.device.begin(), functions.device.end(), has_it))
      functions.with_unknown_sizes.insert(f);
  }
  return functions;
}

std::vector<SourceLine> unknown_sizes(const std::string& dump, const std::string& mangled) {
  std::vector<SourceLine> places;
  bool is_it = false;
  std::istringstream in(dump);
  for (std::string line; std::getline(in, line);) {
    if (const std::string begun = begun_function(line); !begun.empty()) is_it = begun == mangled;
    // "  [kernel.cu:14:12] _1 = (ssizetype) m_3;": the number of elements, before 1 is taken from it.
    if (!is_it || !line.starts_with("  [") || line.find(" = (ssizetype) ") == line.npos) continue;
    const std::string place = line.substr(3, line.find(']') - 3);
    const std::size_t file = place.rfind(':', place.rfind(':') - 1);
    if (file == place.npos) continue;
    places.push_back({place.substr(0, file), std::atoi(place.c_str() + file + 1)});
  }
  return places;
}

}  // namespace gpusim::check
