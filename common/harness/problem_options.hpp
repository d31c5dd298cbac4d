/// @file
/// The interface between the command line and the problems: each problem has its own options.
#pragma once

#include <functional>
#include <string>

#include "attention/problem.hpp"
#include "attention/tensor.hpp"
#include "harness/report.hpp"

namespace CLI {
class App;
}

namespace fa {

/// A problem from the command line: checked, but with nothing computed yet.
template <Problem P>
struct GivenProblem {
  typename P::Shape shape;
  std::string options;  ///< the options that determine the sizes, for messages: "--rows 64 --cols 1000"
  InputSource inputs;   ///< for the report
  std::function<TensorMap()> make_inputs;  ///< call once; may take a while
};

/// The options of a problem. Specialised for each problem, with the members below; the object must outlive
/// the parsing.
template <Problem P>
class ProblemOptions;
// {
//  public:
//   /// Adds the options to the command line.
//   void add_to(CLI::App& app);
//
//   /// Checks the options and reads the files that they name.
//   /// @param runs  whether all requested variants can run a shape, which determines the default of a
//   ///              missing option
//   /// @throws UsageError  naming the option
//   GivenProblem<P> read(const std::function<bool(const typename P::Shape&)>& runs) const;
// };

}  // namespace fa
