#include "gpusim/runtime/array_names.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <sstream>
#include <tuple>

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
  // The last array that begins before the byte. If several do there: one that is the same for all threads, and no member of
  // an object that was made with it.
  const auto rank = [](const Array& a) {
    return std::tuple(a.offset, !a.differs, a.name.find('.') == std::string::npos);
  };
  std::vector<const Array*> best;
  for (const Array& a : arrays->second) {
    if (a.variable != variable || a.offset > offset) continue;
    if (!best.empty() && rank(a) > rank(*best[0])) best.clear();
    const bool is_new =
        std::none_of(best.begin(), best.end(), [&](const Array* b) { return b->name == a.name; });
    if (best.empty() || (rank(a) == rank(*best[0]) && is_new && !a.differs)) best.push_back(&a);
  }
  std::string text;
  for (const Array* a : best)
    text += (text.empty() ? "" : " or ") + element_of(*a, offset - a->offset, bytes);
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
