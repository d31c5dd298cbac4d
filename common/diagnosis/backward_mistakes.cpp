#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "attention/attention_backward.hpp"
#include "attention/gradient_formulas.hpp"
#include "diagnosis/diagnosis.hpp"

namespace fa {

template <>
std::vector<OtherProblem> other_problems<AttentionBackward>(const AttentionShape& shape,
                                                            const TensorMap& inputs) {
  std::vector<OtherProblem> others;
  if (shape.causal) {
    AttentionShape other = shape;
    other.causal = false;
    others.push_back({"without the causal mask", [&inputs, other] { return gradients(other, inputs); }});
  }
  const double scale = shape.logit_scale();
  const std::pair<const char*, GradientFormulas> mistakes[] = {
      {"without D in dS = P * (dP - D)", {.ds = [](double p, double dp, double) { return p * dp; }}},
      {"without P in dS = P * (dP - D)", {.ds = [](double, double dp, double d) { return dp - d; }}},
      {"with D added in dS = P * (dP - D)",
       {.ds = [](double p, double dp, double d) { return p * (dp + d); }}},
      {"with P in place of dP in dS = P * (dP - D)",
       {.ds = [](double p, double, double d) { return p * (p - d); }}},
      {"with P in place of dS", {.ds = [](double p, double, double) { return p; }}},
      {"with dP in place of dS", {.ds = [](double, double dp, double) { return dp; }}},
      {"with dP in place of P", {.weight_of_dv = [](double, double dp, double) { return dp; }}},
      {"with dS in place of P", {.weight_of_dv = [](double p, double dp, double d) { return p * (dp - d); }}},
      {"with k in place of v in dP = dO V^T", {.k_in_dp = true}},
      {"with v in place of k in dQ = scale * dS K", {.v_in_dq = true}},
      {"with do in place of q in dK = scale * dS^T Q", {.do_in_dk = true}},
      {"with do in place of scale * q in dK = scale * dS^T Q", {.do_in_dk = true, .scale_of_dk = 1 / scale}},
      {"with q in place of do in dV = P^T dO", {.q_in_dv = true}},
      {"with dO in place of O in D = rowsum(dO * O)", {.do_in_d = true}},
      {"with only the first of the heads that share a head of k and v in dK and dV", {.one_head = true}},
      {"without the scale in dQ and dK", {.scale_of_dq = 1 / scale, .scale_of_dk = 1 / scale}},
      {"with the scale applied twice to dQ and dK", {.scale_of_dq = scale, .scale_of_dk = scale}},
  };
  for (const auto& [change, formulas] : mistakes) {
    if (formulas.one_head && shape.heads == shape.kv_heads) continue;
    const bool exchanges = formulas.k_in_dp || formulas.v_in_dq || formulas.do_in_dk || formulas.q_in_dv;
    if (exchanges && shape.head_dim != shape.value_dim()) continue;
    others.push_back(
        {change, [&inputs, shape, wrong = formulas] { return gradients(shape, inputs, wrong); }});
  }
  const auto add_d = [&](const std::string& which, const GradientFormulas& formulas) {
    others.push_back({fmt::format("with D = rowsum(dO * O) over {} of {} columns", which, shape.value_dim()),
                      [&inputs, shape, formulas] { return gradients(shape, inputs, formulas); }});
  };
  for (std::int64_t cols = shape.value_dim() / 2; cols >= 1; cols /= 2) {
    add_d(cols == 1 ? "the first" : fmt::format("the first {}", cols), {.cols_of_d = cols});
    if (cols == shape.value_dim() / 2)
      add_d(fmt::format("the last {}", cols), {.first_col_of_d = cols, .cols_of_d = cols});
  }
  for (const std::int64_t step : {2, 4, 8}) {  // what a lane has of a row
    add_d(fmt::format("every {}", step == 2   ? "second"
                                  : step == 4 ? "fourth"
                                              : "eighth"),
          {.step_of_d = step});
  }
  return others;
}

template <>
std::vector<OtherProblem> other_problems<TwoWayAttention>(const TwoWayShape& shape, const TensorMap& inputs) {
  return shape.backward ? other_problems<AttentionBackward>(shape, inputs)
                        : other_problems<AttentionForward>(shape, inputs);
}

}  // namespace fa
