/// @file
/// What the harness defines for each problem: a chapter whose problem type is hidden. Softmax is apart from
/// the others
/// (*_chapter.cpp), so that its chapters need nothing of attention.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "harness/backend.hpp"
#include "harness/chapter.hpp"
#include "harness/host_memory.hpp"
#include "harness/problem_options.hpp"
#include "harness/program.hpp"
#include "harness/runner.hpp"
#include "harness/text.hpp"

namespace fa {

/// A run with a known problem type.
template <Problem P>
class TypedRun final : public ChapterRun {
 public:
  explicit TypedRun(const Chapter<P>& chapter) : chapter_(chapter) {}

  void add_options(CLI::App& app) override { options_.add_to(app); }

  std::vector<std::size_t> prepare(const std::vector<std::size_t>& variants, bool skip,
                                   Checked checked) override {
    given_ = options_.read([&](const auto& shape) { return !refusal(variants, shape); });
    if (skip && refusal(variants, given_.shape)) {
      given_ = options_.read([&](const auto& shape) { return !those_that_take(variants, shape).empty(); });
    }
    std::vector<std::size_t> chosen = skip ? those_that_take(variants, given_.shape) : variants;
    if (chosen.empty()) chosen = variants;
    if (const auto refused = refusal(chosen, given_.shape)) throw *refused;
    skipped_.clear();
    for (const std::size_t index : chosen) {
      if (auto lacking = what_device_lacks<P>(chapter_.variants[index], given_.shape)) {
        if (!skip) throw Refused(lacking->refusal(), chapter_.variants[index].name);
        skipped_.emplace(index, std::move(*lacking));
      }
    }
    workspace_bytes_ = 0;
    for (const std::size_t index : chosen) {  // workspaces are allocated one at a time
      if (skipped_.contains(index)) continue;
      const std::size_t bytes = total_bytes(workspace_of(chapter_.variants[index], given_.shape));
      workspace_bytes_ = std::max(workspace_bytes_, bytes);
    }
    checked_ = skipped_.size() < chosen.size() ? checked : Checked::kNothing;
    require_host_memory(given_.options, host_bytes());
    return chosen;
  }

  ProblemReport problem() const override {
    std::vector<TensorSpec> tensors = P::inputs(given_.shape);
    for (TensorSpec& output : P::outputs(given_.shape)) tensors.push_back(std::move(output));
    InputSource inputs = given_.inputs;
    if (checked_ == Checked::kEnds) inputs.push_back({"checked", "ends"});
    return {.name = std::string(P::kName),
            .sizes = P::describe(given_.shape),
            .inputs = std::move(inputs),
            .tensors = std::move(tensors)};
  }

  void require_device_memory() const override {
    const std::size_t free = free_device_bytes();
    const std::size_t needed =
        total_bytes(P::inputs(given_.shape)) + total_bytes(P::outputs(given_.shape)) + workspace_bytes_;
    if (needed > free) {
      throw DeviceError(fmt::format("{}: needs {} of device memory, {} is free: choose smaller sizes",
                                    given_.options, in_bytes(double(needed)), in_bytes(double(free))));
    }
  }

  void compute_reference() override {
    inputs_ = given_.make_inputs();
    if (checked_ == Checked::kEnds) {
      ends_ = P::ends(given_.shape);
      reference_ = P::reference(ends_.shape, ends_.cut(inputs_));
    } else if (checked_ == Checked::kAll) {
      reference_ = P::reference(given_.shape, inputs_);
    }
  }

  MoreOutputs more_outputs() const override {
    constexpr double kMostBytes = 64e6;
    MoreOutputs more;
    if constexpr (requires { P::kept(given_.shape); }) {
      const auto& shape = given_.shape;
      if (shape.dropout == 0) return more;
      const double bytes =
          double(shape.batch) * double(shape.heads) * double(shape.seq_q) * double(shape.seq_k);
      if (bytes < kMostBytes) {
        more.tensors.emplace("kept", P::kept(shape));
      } else {
        more.remarks.push_back(fmt::format("kept.npy is not written: it would have {}, the limit is {}",
                                           in_bytes(bytes), in_bytes(kMostBytes)));
      }
    }
    return more;
  }

  VariantResult run(std::size_t index, int bench_repeats, double copy_gb_per_s) override {
    const Variant<P>& variant = chapter_.variants[index];
    if (const auto found = skipped_.find(index); found != skipped_.end()) {
      return {.name = variant.name, .skipped = found->second};
    }
    const Reference* const reference = checked_ == Checked::kAll ? &reference_ : nullptr;
    VariantResult result = run_variant<P>(variant, given_.shape, inputs_, reference);
    if (checked_ == Checked::kEnds && !result.failure) {
      check_variant<P>(variant, ends_.shape, ends_.cut(inputs_), ends_.cut(result.outputs), reference_,
                       result);
    }
    if (bench_repeats > 0 && !result.failure) {
      result.bench = bench_variant<P>(variant, given_.shape, inputs_, bench_repeats, copy_gb_per_s);
    }
    return result;
  }

 private:
  /// The variants that do not refuse a shape as something that others may take.
  std::vector<std::size_t> those_that_take(std::vector<std::size_t> variants,
                                           const typename P::Shape& shape) const {
    std::erase_if(variants, [&](std::size_t index) {
      const Variant<P>& variant = chapter_.variants[index];
      const auto refusal = variant.refuse ? variant.refuse(shape) : std::nullopt;
      return refusal && refusal->reason == Refusal::Reason::kVariant;
    });
    return variants;
  }

  /// What the first variant says that cannot run a shape.
  std::optional<Refused> refusal(const std::vector<std::size_t>& variants,
                                 const typename P::Shape& shape) const {
    for (const std::size_t index : variants) {
      if (const auto refusal = why_unsuitable<P>(chapter_.variants[index], shape))
        return Refused(*refusal, chapter_.variants[index].name);
    }
    return std::nullopt;
  }

  /// Host memory for one variant at a time: inputs, outputs, their reference, and device memory where that is
  /// the host's.
  double host_bytes() const {
    double bytes = double(workspace_bytes_) * backend::host_bytes_per_device_byte();
    for (const TensorSpec& input : P::inputs(given_.shape)) {
      bytes += double(input.elements()) * sizeof(float);
      bytes += double(input.extent_bytes()) * backend::host_bytes_per_device_byte();
    }
    for (const TensorSpec& output : P::outputs(given_.shape)) {
      bytes +=
          double(output.elements()) * (sizeof(float) + (checked_ == Checked::kNothing ? 0 : sizeof(double)));
      bytes += double(output.extent_bytes()) * backend::host_bytes_per_device_byte();
    }
    return bytes;
  }

  const Chapter<P>& chapter_;
  ProblemOptions<P> options_;
  GivenProblem<P> given_;
  std::map<std::size_t, Skip> skipped_;  ///< by index: the variants for which the device lacks something
  std::size_t workspace_bytes_ = 0;      ///< the largest of the variants that will run
  Checked checked_ = Checked::kAll;
  TensorMap inputs_;
  Excerpt<typename P::Shape> ends_;  ///< only if nothing else is checked
  Reference reference_;
};

template <Problem P>
class TypedProgram final : public ChapterProgram {
 public:
  explicit TypedProgram(Chapter<P> chapter) : chapter_(std::move(chapter)) {
    if (chapter_.variants.empty()) throw std::invalid_argument(chapter_.name + " has no variants");
  }

  const Chapter<P>& chapter() const { return chapter_; }
  const std::string& name() const override { return chapter_.name; }
  const std::string& title() const override { return chapter_.title; }

  std::vector<std::pair<std::string, std::string>> variants() const override {
    std::vector<std::pair<std::string, std::string>> variants;
    for (const Variant<P>& variant : chapter_.variants) variants.emplace_back(variant.name, variant.summary);
    return variants;
  }

  std::unique_ptr<ChapterRun> new_run() const override { return std::make_unique<TypedRun<P>>(chapter_); }

 private:
  Chapter<P> chapter_;
};

template <class P>
AnyChapter::AnyChapter(Chapter<P> chapter)
    : program_(std::make_shared<TypedProgram<P>>(std::move(chapter))) {}

template <Problem P>
bool is_about(const AnyChapter& chapter) {
  return dynamic_cast<const TypedProgram<P>*>(&chapter.program()) != nullptr;
}

template <Problem P>
const Chapter<P>& chapter_of(const AnyChapter& chapter) {
  const auto* typed = dynamic_cast<const TypedProgram<P>*>(&chapter.program());
  if (!typed)
    throw std::invalid_argument(fmt::format("{} is not about {}", chapter.program().name(), P::kName));
  return typed->chapter();
}

}  // namespace fa
