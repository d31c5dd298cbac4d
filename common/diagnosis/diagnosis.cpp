#include "diagnosis/diagnosis.hpp"

#include <utility>

#include "diagnosis/relocation.hpp"

namespace fa {

template <>
std::vector<OtherProblem> other_problems<Softmax>(const Softmax::Shape&, const TensorMap&) {
  return {};
}

std::vector<AsIf> find_problems(const TensorMap& outputs, const Check& check,
                                const std::vector<OtherProblem>& problems) {
  constexpr double kTimesBetter = 3;  // the other problem's error, at least
  std::vector<AsIf> found;
  std::size_t most = 1;
  for (const OtherProblem& problem : problems) {
    if (problem.may_fit && !problem.may_fit(outputs)) continue;
    const Reference expected = problem.reference();
    AsIf as_if{problem.change, {}};
    bool is_told = false;  // kMaxAbs alone tells little: the elements of LSE are much alike
    for (const auto& [name, own] : check.tensors) {
      if (own.passed) continue;
      const TensorCheck other = compare(outputs.at(name), expected.at(name), {own.measure, own.tolerance});
      if (!other.passed || kTimesBetter * other.error() > own.error()) continue;
      as_if.outputs.insert(name);
      is_told = is_told || own.measure == Measure::kRelL2;
    }
    if (!is_told || as_if.outputs.size() < most) continue;
    if (as_if.outputs.size() > most) found.clear();
    most = as_if.outputs.size();
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
