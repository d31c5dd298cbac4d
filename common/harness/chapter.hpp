/// @file
/// How a chapter describes itself to the harness. Kept small, because nvcc compiles this with every chapter.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attention/attention_backward.hpp"
#include "attention/attention_forward.hpp"
#include "attention/decoding_attention.hpp"
#include "attention/masked_attention.hpp"
#include "attention/refusal.hpp"
#include "attention/softmax.hpp"
#include "attention/tensor.hpp"
#include "attention/traffic.hpp"
#include "attention/two_way_attention.hpp"

namespace fa {

/// What kernels need from a device.
struct DeviceNeeds {
  std::size_t shared_bytes = 0;  ///< of the block that needs the most, static and dynamic
  int compute_capability = 0;    ///< at least 80 for 8.0
  bool exactly = false;          ///< no newer one either: instructions of sm_90a run on 9.0 alone
};

/// One kernel of a chapter. @tparam P  the problem it solves (fa::Softmax, fa::AttentionForward, ...)
template <class P>
struct Variant {
  std::string name;     ///< for --variant
  std::string summary;  ///< one line: what this variant changes compared with the one before

  /// Enqueues the kernel(s) on the stream.
  std::function<void(const typename P::Args&, cudaStream_t)> launch;

  /// The closed formula for the bytes that the kernel requests from HBM.
  std::function<Traffic(const typename P::Shape&)> traffic;

  /// Why this variant cannot run a shape, naming the option and a valid value; empty if it can.
  std::function<std::optional<Refusal>(const typename P::Shape&)> refuse{};  // `= {}` crashes g++ 12 here

  /// Whether tensors may have any strides that are multiples of 16 bytes; if not, the harness refuses all
  /// that are not dense.
  bool takes_strides = false;

  /// Whether V and O may have other widths than Q and K; if not, the harness refuses these.
  bool takes_other_widths = false;

  /// What the kernels need from the device for a shape that `refuse` accepts; empty if every device has it.
  /// The harness refuses to run the variant on other devices.
  std::function<DeviceNeeds(const typename P::Shape&)> needs{};

  /// Enqueues what the kernels depend on: for a backward pass, the forward pass. It runs before `launch`; its
  /// bytes are counted, but it is not timed.
  std::function<void(const typename P::Args&, cudaStream_t)> before{};

  /// Whether the same inputs always give the same bits, because the order of every sum is fixed.
  bool repeatable = true;

  /// Tensors that the kernels leave in HBM for one another (S and P of standard attention, ...); empty if
  /// there are none. The launch finds their addresses by name, and the formula counts their bytes.
  std::function<std::vector<TensorSpec>(const typename P::Shape&)> workspace{};

  /// What is wrong after a run although its outputs may be right, on one line; empty if nothing is. Called
  /// after the kernels have ended.
  std::function<std::optional<std::string>(const typename P::Shape&, const typename P::Args&)> fault{};

  /// Why this variant is declared to give wrong results on these inputs; empty if they must be right.
  std::function<std::optional<std::string>(const typename P::Shape&, const TensorMap& inputs)>
      known_failure{};
};

/// A chapter as the harness sees it.
template <class P>
struct Chapter {
  std::string name;   ///< its folder: "02_online_softmax"
  std::string title;  ///< its idea in a few words
  std::vector<Variant<P>> variants;
};

class ChapterProgram;

/// A chapter with its problem type hidden, as main() and the tests use it.
class AnyChapter {
 public:
  /// Defined in the harness for each problem of common/attention.
  template <class P>
  AnyChapter(
      Chapter<P> chapter);  // NOLINT(google-explicit-constructor): `return {...}` in describe_chapter()

  /// For a chapter that is more than kernels of one device.
  explicit AnyChapter(std::shared_ptr<const ChapterProgram> program) : program_(std::move(program)) {}

  const ChapterProgram& program() const { return *program_; }

 private:
  std::shared_ptr<const ChapterProgram> program_;
};

/// Returns the chapter. Every chapter.cu defines this function.
AnyChapter describe_chapter();

}  // namespace fa
