#include "gpusim/runtime/array_names.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <sstream>
#include <tuple>

#include "gpusim/runtime/symbols.hpp"

namespace gpusim {
namespace {

struct Position {
  std::int64_t row, column;
};

std::optional<std::int64_t> place_of(const Expression& layout, Position at) {
  return layout.value([&](const std::string& name) { return name == "r" ? at.row : at.column; });
}

constexpr std::int64_t kPeriod = 1024;  ///< rows, after which all permutations repeat

/// 0 if no rows are declared.
std::size_t elements_per_row(const Expression& layout) {
  const auto begin = place_of(layout, {0, 0}), end = place_of(layout, {kPeriod, 0});
  return begin && end && *end - *begin >= kPeriod ? std::size_t(*end - *begin) / kPeriod : 0;
}

RowLayout permutation_of(const Expression& layout, std::size_t columns) {
  constexpr std::int64_t kMostRows = 16;  // of a period that a recording tells
  RowLayout rows{.columns = columns};
  const auto stride = std::int64_t(columns);
  bool is_in_order = true;
  for (std::int64_t row = 0; row < 2 * kMostRows; ++row) {
    for (std::int64_t column = 0; column < stride; ++column) {
      rows.places.push_back(place_of(layout, {row, column}).value_or(0));
      is_in_order &= rows.places.back() == row * stride + column;
    }
  }
  if (is_in_order) return {};
  const auto repeats_after = [&](std::int64_t period) {
    for (std::int64_t i = 0; i < kMostRows * stride; ++i)
      if (rows.places[std::size_t(i + period * stride)] != rows.places[std::size_t(i)] + period * stride)
        return false;
    return true;
  };
  for (std::int64_t period = 1; period <= kMostRows; period *= 2) {
    if (!repeats_after(period)) continue;
    rows.period = std::size_t(period);
    rows.places.resize(std::size_t(period * stride));
    return rows;
  }
  return {};
}

/// The row and the column of an element: those whose place it is. A layout may permute the elements of
/// neighbouring rows.
std::optional<Position> position_at(const Expression& layout, std::int64_t index) {
  constexpr std::int64_t kNeighbours = 16;  // rows
  const auto stride = std::int64_t(elements_per_row(layout));
  if (stride == 0) return std::nullopt;
  const std::int64_t near = index / stride;
  for (std::int64_t row = std::max<std::int64_t>(0, near - kNeighbours); row <= near + kNeighbours; ++row) {
    for (std::int64_t column = 0; column < stride; ++column) {
      if (place_of(layout, {row, column}) == index) return Position{row, column};
    }
  }
  return std::nullopt;
}

/// ", row 8, column 4"
std::optional<std::string> row_of(std::size_t index, const Expression& layout) {
  const auto at = position_at(layout, std::int64_t(index));
  if (!at) return std::nullopt;
  return ", row " + std::to_string(at->row) + ", column " + std::to_string(at->column);
}

/// "[2][3]" or "[47]"
std::string indices_of(std::size_t index, const std::vector<std::size_t>& dimensions) {
  if (dimensions.empty()) return "[" + std::to_string(index) + "]";
  std::size_t count = std::reduce(dimensions.begin(), dimensions.end(), std::size_t(1), std::multiplies());
  std::string text;
  for (const std::size_t dimension : dimensions) {
    count /= dimension;
    text += "[" + std::to_string(index / count) + "]";
    index %= count;
  }
  return text;
}

std::optional<std::int64_t> value_for(const Expression& offset, const ThreadNumbers& numbers) {
  return offset.value([&](const std::string& name) -> std::int64_t {
    if (name[0] == '$') {
      const std::size_t parameter = std::stoul(name.substr(1));
      return parameter < numbers.parameters.size() ? numbers.parameters[parameter] : 0;
    }
    const Dim3& d = name.starts_with("threadIdx") ? numbers.thread : numbers.block_dim;
    return name.back() == 'x' ? d.x : name.back() == 'y' ? d.y : d.z;
  });
}

}  // namespace

std::string without_indices(std::string name) {
  while (name.ends_with(']')) name.resize(name.rfind('['));
  return name;
}

ArrayNames::ArrayNames() {
  std::istringstream lines(section_of_executable(".gpusim_names"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line.substr(line.find_first_not_of('\0')));
    std::string kernel, offset, bytes, dimensions, layout;
    Array array;
    for (std::string* field :
         {&kernel, &array.variable, &array.name, &offset, &bytes, &dimensions, &layout}) {
      std::getline(fields, *field, '\t');
    }
    array.offset = Expression(offset);
    array.bytes = std::stoul(bytes);
    array.layout = Expression(layout);
    std::istringstream sizes(dimensions);
    for (std::string size; std::getline(sizes, size, ',');) array.dimensions.push_back(std::stoul(size));
    arrays_[kernel].push_back(array);
  }
}

std::string ArrayNames::dynamic_variable(std::uintptr_t return_address) const {
  const auto arrays = arrays_.find(function_at(return_address));
  if (arrays != arrays_.end()) {
    for (const Array& a : arrays->second) {
      if (a.variable == kDynamicShared && a.offset.value([](const std::string&) { return 1; }) == 0)
        return a.name;
    }
  }
  return "dynamic shared memory";
}

/// What the kernel calls a struct: a pointer or reference to its first byte, whose elements have no known
/// size.
std::string ArrayNames::name_of_object(const std::vector<Array>& arrays, const SharedByte& byte,
                                       const ThreadNumbers& numbers) {
  const auto begin = std::int64_t(byte.offset - byte.offset_in_object);
  const auto is_object = [&](const Array& a) {
    return a.variable == byte.variable && a.bytes == 0 && a.dimensions.empty() &&
           value_for(a.offset, numbers) == begin;
  };
  const auto found = std::find_if(arrays.begin(), arrays.end(), is_object);
  return found == arrays.end() ? "" : found->name;
}

std::string ArrayNames::element(std::uintptr_t return_address, const SharedByte& byte,
                                const ThreadNumbers& numbers) const {
  if (byte.variable.empty()) return "";
  const auto arrays = arrays_.empty() ? arrays_.end() : arrays_.find(function_at(return_address));
  if (byte.object.member_at != nullptr) {
    const auto* const object = reinterpret_cast<const void*>(byte.object.begin);
    const std::string member = byte.object.member_at(object, byte.offset_in_object);
    std::string name = arrays == arrays_.end() ? "" : name_of_object(arrays->second, byte, numbers);
    if (name.empty() && byte.bytes == byte.object.bytes) name = byte.variable;  // __shared__ Struct s;
    if (!member.empty()) return name.empty() && member[0] == '.' ? member.substr(1) : name + member;
  }
  if (arrays == arrays_.end()) return "";
  const ThreadNumbers of_first{{0, 0, 0}, numbers.block_dim, numbers.parameters};
  struct Candidate {
    const Array* array;
    std::int64_t begin;  ///< for thread (0,0,0)
    bool differs;        ///< between threads
  };
  // The last array that begins before the byte. If several do there: one that is the same for all threads,
  // and no member of an object that was made with it.
  const auto rank = [](const Candidate& c) {
    return std::tuple(c.begin, !c.differs, c.array->name.find('.') == std::string::npos);
  };
  const auto at = std::int64_t(byte.offset);
  std::vector<Candidate> best;
  for (const Array& a : arrays->second) {
    const auto begin = value_for(a.offset, of_first);
    if (a.variable != byte.variable || !begin || *begin > at) continue;
    const Candidate candidate{&a, *begin, a.offset.contains("threadIdx")};
    if (!best.empty() && rank(candidate) > rank(best[0])) best.clear();
    const bool is_new =
        std::none_of(best.begin(), best.end(), [&](const Candidate& b) { return b.array->name == a.name; });
    if (best.empty() || (rank(candidate) == rank(best[0]) && is_new && !candidate.differs))
      best.push_back(candidate);
  }
  std::string text;
  for (const Candidate& c : best) {
    const Array& a = *c.array;
    std::int64_t begin = c.begin;
    std::string name = a.name;
    if (c.differs) {
      const std::int64_t own = value_for(a.offset, numbers).value_or(begin);
      const bool is_before = own > at;  // in the array of another thread
      begin = is_before ? begin : own;
      name += " of thread " + triple(is_before ? of_first.thread : numbers.thread);
    }
    const auto distance = std::size_t(at - begin);
    const std::size_t count =
        std::reduce(a.dimensions.begin(), a.dimensions.end(), std::size_t(1), std::multiplies());
    const std::size_t size = a.dimensions.empty() ? a.bytes : byte.bytes / count;
    if (size == 0) {
      text += (text.empty() ? "byte " : " or byte ") + std::to_string(distance) + " of " + name;
    } else if (const auto row = row_of(distance / size, a.layout)) {
      const bool is_same = text.ends_with(*row);  // "sQ or sK, row 8, column 4"
      text = (text.empty() ? ""
              : is_same    ? text.substr(0, text.size() - row->size()) + " or "
                           : text + ", or ") +
             name + *row;
    } else {
      const std::string element =
          a.name + indices_of(distance / size, a.dimensions) + name.substr(a.name.size());
      text += (text.empty() ? "" : " or ") + element;
    }
  }
  return text;
}

std::vector<ArrayNames::Part> ArrayNames::parts(std::uintptr_t return_address, const std::string& variable,
                                                std::size_t bytes, const ThreadNumbers& numbers) const {
  const auto arrays = arrays_.empty() ? arrays_.end() : arrays_.find(function_at(return_address));
  if (arrays == arrays_.end()) return {};
  // Members of an object that was made with an array only repeat what the arrays are, if the kernel has any.
  const auto is_member = [](const Array& a) { return a.name.find('.') != std::string::npos; };
  const bool has_arrays = std::any_of(arrays->second.begin(), arrays->second.end(), [&](const Array& a) {
    return a.variable == variable && !is_member(a);
  });
  std::map<std::size_t, Part> parts;  // by begin
  for (const Array& a : arrays->second) {
    const auto begin = value_for(a.offset, numbers);
    if (a.variable != variable || !begin || *begin < 0 || std::size_t(*begin) >= bytes) continue;
    if (has_arrays && is_member(a)) continue;
    const auto [it, is_new] = parts.try_emplace(std::size_t(*begin));
    Part& part = it->second;
    if (is_new) {
      part = {.name = a.name, .begin = std::size_t(*begin), .element_bytes = a.bytes};
    } else if ((" or " + part.name + " or ").find(" or " + a.name + " or ") == std::string::npos) {
      part.name += " or " + a.name;
    }
    if (part.dimensions.empty()) part.dimensions = a.dimensions;
    if (part.element_bytes == 0) part.element_bytes = a.bytes;
    const std::size_t columns = elements_per_row(a.layout);
    if (columns == 0) continue;
    part.row_bytes = columns * a.bytes;
    part.rows = permutation_of(a.layout, columns);
  }
  std::vector<Part> result;
  for (auto& [begin, part] : parts) {
    if (!result.empty()) result.back().end = begin;
    part.end = bytes;
    if (!part.dimensions.empty()) {
      const std::size_t count =
          std::reduce(part.dimensions.begin(), part.dimensions.end(), std::size_t(1), std::multiplies());
      part.element_bytes = bytes / count;
    }
    result.push_back(std::move(part));
  }
  return result;
}

}  // namespace gpusim
