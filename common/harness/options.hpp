/// @file
/// The part of the command line that all chapters share, whatever their problem.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "harness/program.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace fa {

/// Which variants to run, and what to do with the results.
struct RunOptions {
  bool list = false;
  std::vector<std::size_t> variants;  ///< indices, in the order in which they run
  bool all_variants = false;          ///< "all": those that support the element type
  std::optional<std::string> out;     ///< folder
  std::optional<std::string> json;    ///< file; "-": standard output
  Checked checked = Checked::kAll;
  int bench_repeats = 0;  ///< 0: nothing is timed

  bool json_to_stdout() const { return json == "-"; }
};

/// Parses the command line, including the options of the problem, and checks whatever it can without reading
/// a file. Prints the help to `out` on request.
///
/// @param run  receives the options of its problem
/// @return     nothing if the help was printed
/// @throws UsageError  with one line
std::optional<RunOptions> parse_command_line(const ChapterProgram& chapter, ChapterRun& run, int argc,
                                             const char* const* argv, std::ostream& out);

// Options whose targets stay empty if they are not given. Their texts are taken as they are, even if empty.
// Targets must live until the command line is parsed.

/// Adds an option that takes a text.
CLI::Option* add_text(CLI::App& app, const std::string& name, std::optional<std::string>& target,
                      const std::string& help);

/// Adds an option that takes a decimal whole number that fits the type: int, std::int64_t or std::uint64_t.
/// Any other text is refused with a one-line message; the valid range is checked elsewhere.
template <class Integer>
CLI::Option* add_whole_number(CLI::App& app, const std::string& name, std::optional<Integer>& target,
                              const std::string& help);

/// The same for a decimal number that may have a fraction.
CLI::Option* add_number(CLI::App& app, const std::string& name, std::optional<double>& target,
                        const std::string& help);

}  // namespace fa
