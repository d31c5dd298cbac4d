#include "gpusim/runtime/array_names.hpp"

#include <functional>
#include <numeric>
#include <set>
#include <sstream>

#include "gpusim/runtime/symbols.hpp"

namespace gpusim {

ArrayNames::ArrayNames() {
  std::istringstream lines(section_of_executable(".gpusim_names"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line.substr(line.find_first_not_of('\0')));
    std::string kernel, offset, bytes, differs;
    Array array;
    for (std::string* field : {&kernel, &array.variable, &array.name, &offset, &bytes, &differs}) {
      std::getline(fields, *field, '\t');
    }
    array.offset = std::stoul(offset);
    array.bytes = std::stoul(bytes);
    array.differs = !differs.empty();
    for (std::string dimension; std::getline(fields, dimension, ',');)
      array.dimensions.push_back(std::stoul(dimension));
    arrays_[kernel].push_back(array);
  }
}

std::string ArrayNames::element(std::uintptr_t return_address, const std::string& variable,
                                std::size_t offset, std::size_t bytes) const {
  const auto arrays = arrays_.empty() ? arrays_.end() : arrays_.find(function_at(return_address));
  if (arrays == arrays_.end()) return "";
  // The last array that begins before the byte. If several begin there, those that are the same for all threads.
  const auto precedes = [&](const Array& a) { return a.variable == variable && a.offset <= offset; };
  const Array* best = nullptr;
  for (const Array& a : arrays->second) {
    if (!precedes(a)) continue;
    if (best == nullptr || a.offset > best->offset ||
        (a.offset == best->offset && !a.differs && best->differs))
      best = &a;
  }
  if (best == nullptr) return "";
  std::string text;
  std::set<std::string> named;
  for (const Array& a : arrays->second) {
    if (!precedes(a) || a.offset != best->offset || a.differs != best->differs ||
        !named.insert(a.name).second)
      continue;
    text += (text.empty() ? "" : " or ") + element_of(a, offset - a.offset, bytes);
  }
  return text;
}

std::string ArrayNames::element_of(const Array& array, std::size_t offset, std::size_t bytes) {
  std::string text = array.name;
  if (array.dimensions.empty()) {
    text = array.bytes != 0 ? text + "[" + std::to_string(offset / array.bytes) + "]"
                            : "byte " + std::to_string(offset) + " of " + text;
  } else {
    std::size_t count =
        std::reduce(array.dimensions.begin(), array.dimensions.end(), std::size_t(1), std::multiplies());
    std::size_t index = offset / (bytes / count);
    for (const std::size_t dimension : array.dimensions) {
      count /= dimension;
      text += "[" + std::to_string(index / count) + "]";
      index %= count;
    }
  }
  return array.differs ? text + " of thread (0,0,0)" : text;
}

}  // namespace gpusim
