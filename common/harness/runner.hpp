/// @file
/// Runs one variant: buffers, launch, check, counters, times. The tests of the chapters use it as well:
///
/// @code
/// for (const std::string& variant : variant_names(chapter))
///   for (const Softmax::Shape& shape : {Softmax::Shape{64, 1000}, {3, 33}})
///     EXPECT_EQ(run<Softmax>(chapter, variant, shape, random_inputs<Softmax>(shape, init)).complaint(), "");
/// @endcode
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attention/inputs.hpp"
#include "attention/problem.hpp"
#include "diagnosis/diagnosis.hpp"
#include "harness/backend.hpp"
#include "harness/chapter.hpp"
#include "harness/device_tensors.hpp"
#include "harness/errors.hpp"
#include "harness/program.hpp"
#include "harness/result.hpp"

namespace fa {

/// Enqueues a kernel whose arguments are already bound.
using Launch = std::function<void(cudaStream_t)>;

/// Launches a kernel, waits for it, and fills in the observations: failure, counters, defects, outputs.
///
/// If the device stops the kernel or refuses to launch it, or if it writes outside of tensors that have
/// guards, the result records a failure; no exception is thrown.
/// @throws DeviceError  if the device itself is not usable
void execute(const Launch& launch, const DeviceTensors& tensors, VariantResult& result);

/// The number of sets of buffers that the timed launches rotate through: enough that together they exceed
/// twice the L2 cache, but no more than there are launches or than fit into 9/10 of the free memory, and at
/// least one.
std::size_t count_sets(std::size_t bytes_of_set, int launches);

/// The speeds that follow from a time.
/// @param bytes  all inputs and outputs once    @param flops  0: not counted
BenchResult evaluate(const Timing& time, std::size_t bytes, double flops, double copy_gb_per_s);

/// The tensors that a variant needs in device memory in addition to inputs and outputs.
template <Problem P>
std::vector<TensorSpec> workspace_of(const Variant<P>& variant, const typename P::Shape& shape) {
  return variant.workspace ? variant.workspace(shape) : std::vector<TensorSpec>();
}

/// Compares the outputs, and records in the result whether the variant declares a failure on these inputs.
template <Problem P>
void check_variant(const Variant<P>& variant, const typename P::Shape& shape, const TensorMap& inputs,
                   const TensorMap& outputs, const Reference& reference, VariantResult& result) {
  Tolerances tolerances = P::tolerances(shape);
  result.check = check_outputs(outputs, reference, tolerances);
  if constexpr (requires { P::tolerances(shape, inputs, reference); }) {
    if (!result.check->passed()) {
      tolerances = P::tolerances(shape, inputs, reference);
      result.check = check_outputs(outputs, reference, tolerances);
    }
  }
  if (variant.known_failure) result.known_failure = variant.known_failure(shape, inputs);
  if (result.check->passed() || result.known_failure) return;
  diagnose<P>(*result.check, shape, inputs, outputs, reference, tolerances);
}

/// What the device lacks that kernels need; nothing if it has everything, or if there is no usable device.
std::optional<Skip> what_device_lacks(const DeviceNeeds& needs);

/// The same for a shape that the variant accepts.
template <Problem P>
std::optional<Skip> what_device_lacks(const Variant<P>& variant, const typename P::Shape& shape) {
  return variant.needs ? what_device_lacks(variant.needs(shape)) : std::nullopt;
}

/// Why a variant cannot run a shape on any device; nothing if it can.
template <Problem P>
std::optional<Refusal> why_unsuitable(const Variant<P>& variant, const typename P::Shape& shape) {
  if (variant.refuse) {
    if (auto refusal = variant.refuse(shape)) return refusal;
  }
  if constexpr (requires { refuse_unless_dense(shape); }) {
    if (!variant.takes_strides) {
      if (auto refusal = refuse_unless_dense(shape)) return refusal;
    }
  }
  if constexpr (requires { refuse_unless_equal_widths(shape); }) {
    if (!variant.takes_other_widths) return refuse_unless_equal_widths(shape);
  }
  return std::nullopt;
}

/// Why a variant cannot run a shape on this device; nothing if it can.
template <Problem P>
std::optional<Refusal> why_refused(const Variant<P>& variant, const typename P::Shape& shape) {
  if (auto refusal = why_unsuitable<P>(variant, shape)) return refusal;
  const std::optional<Skip> skip = what_device_lacks<P>(variant, shape);
  return skip ? std::optional(skip->refusal()) : std::nullopt;
}

/// Runs one variant once.
///
/// @param reference  the expected outputs; null: they are not checked
/// @param guard  bytes around each tensor that must not change: for a GPU, where nothing else detects such
///   writes
/// @throws Refused  if the variant refuses the shape, or the device lacks something
/// @throws DeviceError  if the device is not usable or does not have enough memory
template <Problem P>
VariantResult run_variant(const Variant<P>& variant, const typename P::Shape& shape, const TensorMap& inputs,
                          const Reference* reference, std::size_t guard = 0) {
  if (const auto refusal = why_refused<P>(variant, shape)) throw Refused(*refusal);
  const std::vector<TensorSpec> workspace = workspace_of(variant, shape);
  VariantResult result{
      .name = variant.name, .workspace_bytes = total_bytes(workspace), .predicted = variant.traffic(shape)};
  const DeviceTensors tensors(P::inputs(shape), P::outputs(shape), workspace, inputs, guard);
  const typename P::Args args = P::bind(shape, tensors.addresses());
  execute(
      [&](cudaStream_t stream) {
        if (variant.before) variant.before(args, stream);
        variant.launch(args, stream);
      },
      tensors, result);
  if (!result.failure && reference) {
    check_variant<P>(variant, shape, inputs, result.outputs, *reference, result);
  }
  if (!result.failure && variant.fault) result.fault = variant.fault(shape, args);
  return result;
}

/// Times one variant, each launch on the next of several sets of buffers, so that none finds its tensors in
/// the L2 cache. Only if backend::can_time().
template <Problem P>
BenchResult bench_variant(const Variant<P>& variant, const typename P::Shape& shape, const TensorMap& inputs,
                          int repeats, double copy_gb_per_s) {
  const std::vector<TensorSpec> ins = P::inputs(shape), outs = P::outputs(shape);
  const std::vector<TensorSpec> workspace = workspace_of(variant, shape);
  const std::size_t extent_bytes = total_bytes(ins) + total_bytes(outs) + total_bytes(workspace);
  std::size_t bytes = 0;
  for (const auto* specs : {&ins, &outs}) {
    for (const TensorSpec& spec : *specs) bytes += spec.bytes();
  }
  std::vector<DeviceTensors> sets;
  std::vector<typename P::Args> args;
  for (std::size_t missing = count_sets(extent_bytes, repeats); missing > 0; --missing) {
    sets.emplace_back(ins, outs, workspace, inputs);
    args.push_back(P::bind(shape, sets.back().addresses()));
    if (variant.before) variant.before(args.back(), nullptr);
  }
  const Timing time = backend::time_launches(repeats, [&](int number, cudaStream_t stream) {
    variant.launch(args[std::size_t(number) % args.size()], stream);
  });
  return evaluate(time, bytes, P::flops(shape), copy_gb_per_s);
}

/// Whether P is the problem of a chapter.
template <Problem P>
bool is_about(const AnyChapter& chapter);

/// The description that a chapter was made from.
/// @throws std::invalid_argument  if its problem is not P
template <Problem P>
const Chapter<P>& chapter_of(const AnyChapter& chapter);

/// Random inputs of a problem, by name.
template <Problem P>
TensorMap random_inputs(const typename P::Shape& shape, Init init, std::uint64_t seed = 0) {
  return P::random_inputs(shape, init, seed);
}

/// Runs one variant of a chapter once and checks its outputs.
///
/// @throws std::invalid_argument  if the chapter has no such variant or its problem is not P
/// @throws Refused  if the variant refuses the shape
template <Problem P>
VariantResult run(const AnyChapter& chapter, std::string_view variant, const typename P::Shape& shape,
                  const TensorMap& inputs) {
  for (const Variant<P>& candidate : chapter_of<P>(chapter).variants) {
    if (candidate.name != variant) continue;
    const Reference reference = P::reference(shape, inputs);
    return run_variant<P>(candidate, shape, inputs, &reference);
  }
  throw std::invalid_argument("no variant " + std::string(variant));
}

}  // namespace fa
