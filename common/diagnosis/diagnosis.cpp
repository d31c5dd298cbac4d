#include "diagnosis/diagnosis.hpp"

#include <limits>
#include <utility>

#include "diagnosis/relocation.hpp"

namespace fa {

template <>
std::vector<OtherProblem> other_problems<Softmax>(const Softmax::Shape&, const TensorMap&) {
  return {};
}

namespace {

/// Whether any of the wrong elements is a number. One NaN is as good as another: they tell nothing.
bool has_wrong_numbers(const TensorCheck& check) {
  return check.pattern && check.wrong_elements > check.pattern->unwritten + check.pattern->not_a_number;
}

}  // namespace

std::vector<AsIf> find_problems(const TensorMap& outputs, const Check& check,
                                const std::vector<OtherProblem>& problems) {
  constexpr double kTimesBetter = 3;  // the other problem's error, at least
  // O and LSE come from the same scores. Each gradient has a product of its own, which may be wrong alone.
  const bool have_same_scores = check.tensors.contains("lse");
  std::vector<AsIf> found;
  std::pair<std::size_t, int> best = {1, std::numeric_limits<int>::min()};
  for (const OtherProblem& problem : problems) {
    if (problem.may_fit && !problem.may_fit(outputs)) continue;
    const Reference expected = problem.reference();
    AsIf as_if{problem.change, {}};
    bool is_told = false;  // kMaxAbs alone tells little: the elements of LSE are much alike
    int spoiled = 0;       // right outputs that the change would make wrong
    for (const auto& [name, own] : check.tensors) {
      const TensorCheck other = compare(outputs.at(name), expected.at(name), {own.measure, own.tolerance});
      if (own.passed) {
        spoiled += !other.passed;
      } else if (other.passed && !(kTimesBetter * other.error() > own.error())) {  // which may be NaN
        as_if.outputs.insert(name);
        is_told = is_told || (own.measure == Measure::kRelL2 && has_wrong_numbers(own));
      }
    }
    const std::pair<std::size_t, int> rank = {as_if.outputs.size(), -spoiled};
    if (!is_told || rank < best || (have_same_scores && spoiled > 0)) continue;
    if (rank > best) found.clear();
    best = rank;
    found.push_back(std::move(as_if));
  }
  return found;
}

void find_relocations(Check& check, const TensorMap& outputs, const Reference& reference,
                      const Tolerances& tolerances, const TensorMap& inputs) {
  for (auto& [name, tensor] : check.tensors) {
    if (tensor.pattern) tensor.pattern->holds = find_relocation(name, outputs, reference, tolerances, inputs);
  }
}

}  // namespace fa
