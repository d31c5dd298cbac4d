#include "diagnosis/other_problem.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <utility>

namespace fa {
namespace {

constexpr std::int64_t kHalf = 8;  // of a tile of 16 x 16

constexpr Disorder kDisorders[] = {
    {"the top right and the bottom left quarter of every 16 x 16 tile swapped",
     [](Place at) {
       return Place{(at.row & ~kHalf) | (at.col & kHalf), (at.col & ~kHalf) | (at.row & kHalf)};
     },
     true},
    {"rows 0 to 7 and 8 to 15 of every 16 swapped",
     [](Place at) {
       return Place{at.row ^ kHalf, at.col};
     }},
    {"columns 0 to 7 and 8 to 15 of every 16 swapped",
     [](Place at) {
       return Place{at.row, at.col ^ kHalf};
     }},
    {"rows 0 and 1 of every 2 swapped",
     [](Place at) {
       return Place{at.row ^ 1, at.col};
     }},
    {"columns 0 and 1 of every 2 swapped",
     [](Place at) {
       return Place{at.row, at.col ^ 1};
     }},
    {"rows 0 to 7 of every 16 also in place of rows 8 to 15",
     [](Place at) {
       return Place{at.row & ~kHalf, at.col};
     }},
    {"columns 0 to 7 of every 16 also in place of columns 8 to 15",
     [](Place at) {
       return Place{at.row, at.col & ~kHalf};
     }},
    {"the top left quarter of every 16 x 16 tile in place of all four",
     [](Place at) {
       return Place{at.row & ~kHalf, at.col & ~kHalf};
     }},
    {"rows 0 to 7 and 8 to 15 of every 16 swapped in columns 0 to 7 of every 16",
     [](Place at) {
       return Place{at.col & kHalf ? at.row : at.row ^ kHalf, at.col};
     }},
    {"rows 0 to 7 and 8 to 15 of every 16 swapped in columns 8 to 15 of every 16",
     [](Place at) {
       return Place{at.col & kHalf ? at.row ^ kHalf : at.row, at.col};
     }},
    {"every 8 x 8 tile transposed",
     [](Place at) {
       return Place{(at.row & ~7) | (at.col & 7), (at.col & ~7) | (at.row & 7)};
     },
     true},
};

/// Rows beyond the end are 0, as in a tile that is copied to shared memory.
Tensor disordered(const Tensor& tensor, const Disorder& disorder) {
  const std::int64_t rows = tensor.shape[2], cols = tensor.shape[3];
  Tensor changed{tensor.shape, std::vector<float>(tensor.data.size())};
  for (std::int64_t element = 0; element < std::int64_t(tensor.data.size()); ++element) {
    const Place at{element / cols % rows, element % cols}, from = disorder.source(at);
    if (from.row >= rows || from.col >= cols) continue;
    const std::int64_t place = element + (from.row - at.row) * cols + from.col - at.col;
    changed.data[std::size_t(element)] = tensor.data[std::size_t(place)];
  }
  return changed;
}

}  // namespace

std::span<const Disorder> disorders() { return kDisorders; }

std::vector<OtherProblem> with_mistaken_inputs(const TensorMap& inputs,
                                               const std::function<Reference(const TensorMap&)>& reference) {
  std::vector<OtherProblem> others;
  const auto add = [&](const std::string& change, const TensorMap& changed) {
    others.push_back({change, [=] { return reference(changed); }});
  };
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"q"}, {"k"}, {"v"}, {"q", "v"}}) {  // Q and V are loaded in the same order
    for (const Disorder& disorder : kDisorders) {
      TensorMap changed = inputs;
      for (const std::string& name : names) changed[name] = disordered(inputs.at(name), disorder);
      add(fmt::format("if {} had {}", fmt::join(names, " and "), disorder.words), changed);
    }
  }
  for (const auto& [name, tensor] : inputs) {
    for (const auto& [other, instead] : inputs) {
      if (name == other || tensor.shape != instead.shape) continue;
      TensorMap changed = inputs;
      changed[name] = instead;
      add(fmt::format("with {} in place of {}", other, name), changed);
    }
  }
  return others;
}

}  // namespace fa
