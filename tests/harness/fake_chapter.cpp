#include "fake_chapter.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/launch.cuh"

namespace fa {
namespace {

/// Softmax, computed with the reference. @param spoil  changes y before it is copied to the device
template <class Spoil>
void compute(const Softmax::Args& args, Spoil spoil) {
  const std::size_t elements = std::size_t(args.rows) * std::size_t(args.cols);
  std::vector<float> x(elements);
  FA_CUDA_CHECK(cudaMemcpy(x.data(), args.x, elements * sizeof(float), cudaMemcpyDeviceToHost));
  const Softmax::Shape shape{args.rows, args.cols};
  const std::vector<double> exact = Softmax::reference(shape, {{"x", {{args.rows, args.cols}, x}}}).at("y");
  std::vector<float> y(exact.begin(), exact.end());
  spoil(y);
  FA_CUDA_CHECK(cudaMemcpy(args.y, y.data(), y.size() * sizeof(float), cudaMemcpyHostToDevice));
}

void right(const Softmax::Args& args, cudaStream_t) {
  compute(args, [](std::vector<float>&) {});
}

void wrong(const Softmax::Args& args, cudaStream_t) {
  compute(args, [&](std::vector<float>& y) { y[std::min(std::size_t(args.cols) + 2, y.size() - 1)] += 1; });
}

void forgets(const Softmax::Args& args, cudaStream_t) {
  compute(args, [](std::vector<float>& y) { y.pop_back(); });
}

void refused(const Softmax::Args&, cudaStream_t) { FA_CUDA_CHECK(cudaErrorInvalidConfiguration); }

void library(const Softmax::Args&, cudaStream_t) { throw std::runtime_error("the library failed"); }

/// No kernel runs, so no bytes move.
Traffic nothing(const Softmax::Shape&) { return {}; }

std::optional<Refusal> refuse_wide(const Softmax::Shape& shape) {
  if (shape.cols <= 8) return std::nullopt;
  return Refusal::problem("--cols is " + std::to_string(shape.cols) + ": must be at most 8");
}

std::optional<Refusal> refuse_nothing(const Softmax::Shape&) { return std::nullopt; }

std::optional<std::string> several_rows(const Softmax::Shape& shape, const TensorMap&) {
  if (shape.rows == 1) return std::nullopt;
  return "it is wrong on more than one row";
}

}  // namespace

AnyChapter fake_chapter() {
  return Chapter<Softmax>{
      .name = "99_fake",
      .title = "Known mistakes",
      .variants = {
          {.name = "wrong", .summary = "one element is wrong", .launch = wrong, .traffic = nothing},
          {.name = "forgets", .summary = "one element is not written", .launch = forgets, .traffic = nothing},
          {.name = "declared",
           .summary = "wrong, but says so",
           .launch = wrong,
           .traffic = nothing,
           .known_failure = several_rows},
          {.name = "refused", .summary = "the device refuses it", .launch = refused, .traffic = nothing},
          {.name = "library", .summary = "a library refuses it", .launch = library, .traffic = nothing},
          {.name = "narrow",
           .summary = "few columns only",
           .launch = right,
           .traffic = nothing,
           .refuse = refuse_wide},
          {.name = "lies",
           .summary = "its formula is wrong",
           .launch = right,
           .traffic =
               [](const Softmax::Shape&) {
                 return Traffic{{{"x", {.read_bytes = 4}}}};
               }},
          {.name = "right",
           .summary = "as it should be",
           .launch = right,
           .traffic = nothing,
           .refuse = refuse_nothing},
      }};
}

}  // namespace fa
