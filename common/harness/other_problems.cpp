#include "harness/other_problems.hpp"

#include <utility>

namespace fa {

std::vector<AsIf> find_problems(const TensorMap& outputs, const std::map<std::string, TensorCheck>& failed,
                                const std::vector<OtherProblem>& problems) {
  constexpr double kTimesBetter = 3;  // the other problem's error, at least
  std::vector<AsIf> found;
  std::size_t most = 1;
  for (const OtherProblem& problem : problems) {
    if (problem.may_fit && !problem.may_fit(outputs)) continue;
    const Reference expected = problem.reference();
    AsIf as_if{problem.change, {}};
    bool is_told = false;  // kMaxAbs alone tells little: the elements of LSE are much alike
    for (const auto& [name, own] : failed) {
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

}  // namespace fa
