/// @file
/// What a chapter tells the harness about itself. Light on purpose: nvcc compiles this with every chapter.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attention/attention_backward.hpp"
#include "attention/attention_forward.hpp"
#include "attention/softmax.hpp"
#include "attention/tensor.hpp"
#include "attention/traffic.hpp"

namespace fa {

/// One kernel of a chapter. @tparam P  the problem it solves (fa::Softmax, fa::AttentionForward, ...)
template <class P>
struct Variant {
  std::string name;     ///< as given to --variant
  std::string summary;  ///< one line: what this variant changes, measured against the one before it

  /// Enqueues the kernel(s) on the stream.
  std::function<void(const typename P::Args&, cudaStream_t)> launch;

  /// The closed formula for the bytes that the kernel asks of HBM.
  std::function<Traffic(const typename P::Shape&)> traffic;

  /// Why a shape cannot be run by this variant, naming the option and what would be right; empty if it can.
  std::function<std::optional<std::string>(const typename P::Shape&)> refuse{};  // `= {}` crashes g++ 12 here

  /// Enqueues what the kernels build on: the forward pass, where they are a backward pass. It comes before `launch`,
  /// its bytes are counted, and it is not timed.
  std::function<void(const typename P::Args&, cudaStream_t)> before{};

  /// Whether the same inputs give the same bits each time: sums have an order.
  bool repeatable = true;

  /// Tensors that the kernels leave in HBM for one another (S and P of standard attention, ...); empty if there
  /// are none. The launch finds their addresses by name, and the formula counts their bytes.
  std::function<std::vector<TensorSpec>(const typename P::Shape&)> workspace{};

  /// Why this variant is declared to give wrong numbers on these inputs; empty if it must be right.
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

/// A chapter whose problem type is no longer visible: what main() and the tests work with.
class AnyChapter {
 public:
  /// Defined in the harness for each problem of common/attention.
  template <class P>
  AnyChapter(
      Chapter<P> chapter);  // NOLINT(google-explicit-constructor): `return {...}` in describe_chapter()

  const ChapterProgram& program() const { return *program_; }

 private:
  std::shared_ptr<const ChapterProgram> program_;
};

/// Every chapter.cu defines this.
AnyChapter describe_chapter();

}  // namespace fa
