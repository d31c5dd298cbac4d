#include "harness/softmax_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <utility>

#include "attention/attention.hpp"
#include "harness/options.hpp"

namespace fa {
namespace {

/// Small enough for the simulator, and not a multiple of any tile.
constexpr Softmax::Shape kDefault = {.rows = 64, .cols = 1000};

}  // namespace

void ProblemOptions<Softmax>::add_to(CLI::App& app) {
  const std::string group = "Problem";
  const auto in_group = [&](CLI::Option* option) { return option->group(group); };
  in_group(add_whole_number(app, "--rows", rows_,
                            fmt::format("rows of the matrix x (default {})", kDefault.rows)));
  in_group(add_whole_number(app, "--cols", cols_,
                            fmt::format("columns of x, the length of each sum (default {})", kDefault.cols)));
  random_.add_to(app, group,
                 "random numbers to fill x with: standard normal (the default),\n"
                 "uniform in [-1, 1), normal with outliers (one in 32 is near +-100,\n"
                 "where exp() overflows), with a constant added to each column\n"
                 "(offset), or special: rows in turn normal, with one logit in four\n"
                 "-inf, all -inf, with one NaN");
  in_group(add_text(app, "--x", x_,
                    "read x from a .npy file: float32 or float16, C order,\n"
                    "[rows, cols]"))
      ->option_text("FILE");
  in_group(add_text(app, "--q", q_,
                    "make x the logits scale * Q K^T, one row for each query; Q is a\n"
                    ".npy file as above, [batch, heads, seq_q, head_dim]"))
      ->option_text("FILE");
  in_group(add_text(app, "--k", k_, "the keys for --q, [batch, kv_heads, seq_k, head_dim]"))
      ->option_text("FILE");
  in_group(add_number(app, "--scale", scale_, "factor for these logits (default 1/sqrt(head_dim))"));
}

GivenProblem<Softmax> ProblemOptions<Softmax>::read(const std::function<bool(const Softmax::Shape&)>&) const {
  if (x_ && (q_ || k_))
    throw UsageError(fmt::format("{} cannot be given with --x: choose one input", q_ ? "--q" : "--k"));
  if (q_.has_value() != k_.has_value()) {
    throw UsageError(fmt::format("{0} needs {1}: add {1} FILE", q_ ? "--q" : "--k", q_ ? "--k" : "--q"));
  }
  if (scale_ && !q_) throw UsageError("--scale needs --q and --k: it is the factor for their logits");
  GivenProblem<Softmax> given = x_ ? matrix_from_file() : q_ ? logits_from_files() : random();
  require(Softmax::refuse(given.shape));
  return given;
}

GivenProblem<Softmax> ProblemOptions<Softmax>::random() const {
  const Softmax::Shape shape{.rows = rows_.value_or(kDefault.rows), .cols = cols_.value_or(kDefault.cols)};
  const Init init = random_.init();
  const std::uint64_t seed = random_.seed();
  return {.shape = shape,
          .options = fmt::format("--rows {} --cols {}", shape.rows, shape.cols),
          .inputs = random_.source(),
          .make_inputs = [=] { return Softmax::random_inputs(shape, init, seed); }};
}

GivenProblem<Softmax> ProblemOptions<Softmax>::matrix_from_file() const {
  refuse_random_options("--x");
  const auto x = std::make_shared<Tensor>(read_file("--x", *x_, {{"rows", {}}, {"cols", {}}}));
  return {.shape = {.rows = x->shape[0], .cols = x->shape[1]},
          .options = fmt::format("--x {}", *x_),
          .inputs = {{"x", *x_}},
          .make_inputs = [x] {
            return TensorMap{{"x", std::move(*x)}};
          }};
}

GivenProblem<Softmax> ProblemOptions<Softmax>::logits_from_files() const {
  refuse_random_options("--q");
  const auto q = std::make_shared<Tensor>(
      read_file("--q", *q_, {{"batch", {}}, {"heads", {}}, {"seq_q", {}}, {"head_dim", {}}}));
  const auto k = std::make_shared<Tensor>(read_file(
      "--k", *k_, {{"batch", q->shape[0]}, {"kv_heads", {}}, {"seq_k", {}}, {"head_dim", q->shape[3]}}));
  const AttentionShape shape{.batch = q->shape[0],
                             .heads = q->shape[1],
                             .kv_heads = k->shape[1],
                             .seq_q = q->shape[2],
                             .seq_k = k->shape[2],
                             .head_dim = q->shape[3],
                             .scale = scale_};
  require(fa::refuse(shape));
  return {.shape = {.rows = shape.batch * shape.heads * shape.seq_q, .cols = shape.seq_k},
          .options = fmt::format("--q {} --k {}", *q_, *k_),
          .inputs = {{"q", *q_}, {"k", *k_}, {"scale", shape.logit_scale()}},
          .make_inputs = [=] {
            return TensorMap{{"x", logits(shape, *q, *k)}};
          }};
}

void ProblemOptions<Softmax>::refuse_random_options(const std::string& file) const {
  refuse_beside_file(file, {{"--rows", rows_.has_value()},
                            {"--cols", cols_.has_value()},
                            {"--init", random_.has_init()},
                            {"--seed", random_.has_seed()}});
}

}  // namespace fa
