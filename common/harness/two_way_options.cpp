#include "harness/two_way_options.hpp"

#include <CLI/CLI.hpp>

namespace fa {

void ProblemOptions<TwoWayAttention>::add_more(CLI::App& app, const std::string& group) {
  app.add_flag("--backward", backward_, "compute the gradients dQ, dK and dV instead of O")->group(group);
}

void ProblemOptions<TwoWayAttention>::describe_more(InputSource& source) const {
  if (backward_) source.insert(source.begin(), {"backward", true});
}

std::optional<std::string> ProblemOptions<TwoWayAttention>::why_unused(const std::string& name) const {
  if (name != "do" || backward_) return std::nullopt;
  return "needs --backward: it is the gradient of O";
}

}  // namespace fa
