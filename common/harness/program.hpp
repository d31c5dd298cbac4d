/// @file
/// A chapter as a program: from its command line to its exit status.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/chapter.hpp"
#include "harness/report.hpp"
#include "harness/result.hpp"

namespace CLI {
class App;
}

namespace fa {

/// What --out writes in addition to the outputs of a variant.
struct MoreOutputs {
  std::map<std::string, HostTensor<std::uint8_t>> tensors = {};
  std::vector<std::string> remarks = {};  ///< what is left out, and why
};

/// The part of the outputs that is compared with float64.
enum class Checked { kNothing, kEnds, kAll };

/// One run of a chapter on one problem. The functions are called in this order.
class ChapterRun {
 public:
  virtual ~ChapterRun() = default;

  /// Adds the options of the problem to the command line: sizes, inputs, files.
  virtual void add_options(CLI::App& app) = 0;

  /// Reads the input files and checks everything that can be checked before anything is computed.
  ///
  /// @param variants  indices of those to run
  /// @param checked  the part of the outputs to compute a reference for
  /// @param skip      leave out those that refuse the problem, if others do not; accept those for which the
  ///                  device lacks something, which run() then skips
  /// @return          those that will run
  /// @throws UsageError  naming the option or the file
  virtual std::vector<std::size_t> prepare(const std::vector<std::size_t>& variants, bool skip,
                                           Checked checked) = 0;

  /// The problem that prepare() determined.
  virtual ProblemReport problem() const = 0;

  /// @throws DeviceError  if the device does not have enough free memory for the problem
  virtual void require_device_memory() const = 0;

  /// Makes the inputs and, if the results will be checked, the reference.
  virtual void compute_reference() = 0;

  /// What belongs to the problem and not to a variant.
  virtual MoreOutputs more_outputs() const = 0;

  /// Runs one variant. @param bench_repeats  timed launches afterwards, 0 for none
  /// @throws DeviceError  if the device is not usable
  virtual VariantResult run(std::size_t variant, int bench_repeats, double copy_gb_per_s) = 0;
};

/// The interface of a chapter that does not depend on its problem type.
class ChapterProgram {
 public:
  virtual ~ChapterProgram() = default;
  virtual const std::string& name() const = 0;
  virtual const std::string& title() const = 0;

  /// Name and summary of each variant, in the order of the chapter.
  virtual std::vector<std::pair<std::string, std::string>> variants() const = 0;

  virtual std::unique_ptr<ChapterRun> new_run() const = 0;
};

/// The names of a chapter's variants, in its order.
std::vector<std::string> variant_names(const AnyChapter& chapter);

/// The whole program: what main() does. Never throws, never exits.
///
/// @param out  the table, the list, the help, or the JSON of `--json -`
/// @param err  at most one line, when the exit status is 2 or 3
/// @return  0 success; 1 a result is wrong or a check found a defect; 2 the arguments or an input file are
///   unusable, and nothing has been written; 3 no usable device or not enough memory on it
int run_program(const AnyChapter& chapter, int argc, const char* const* argv, std::ostream& out,
                std::ostream& err);

}  // namespace fa
