#include "harness/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string_view>
#include <system_error>
#include <type_traits>

#include "harness/backend.hpp"
#include "harness/errors.hpp"
#include "harness/text.hpp"

namespace fa {
namespace {

constexpr int kDefaultRepeats = 30;
constexpr int kMostRepeats = 1000;

/// Adds an option whose whole text must be a number that fits the type.
template <class Number>
CLI::Option* add_parsed(CLI::App& app, const std::string& name, std::optional<Number>& target,
                        const std::string& help, const std::string& kind) {
  const auto convert = [name, &target, kind](const std::string& text) {
    const char* const end = text.data() + text.size();
    const bool is_negative = text.starts_with('-');
    if (std::is_unsigned_v<Number> && is_negative)
      throw UsageError(fmt::format("{} '{}': must be a {}, at least 0", name, text, kind));
    const auto [rest, error] = std::from_chars(text.data(), end, target.emplace());
    if (error == std::errc::result_out_of_range) {
      throw UsageError(fmt::format("{} {} is out of range: must be a {} {}", name, text,
                                   is_negative ? "larger" : "smaller", kind));
    }
    if (error != std::errc() || rest != end)
      throw UsageError(fmt::format("{} '{}': must be a {}", name, text, kind));
  };
  return app.add_option_function<std::string>(name, convert, help);
}

/// "a,b,,c" -> "a", "b", "", "c".
std::vector<std::string> split_at_commas(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t comma = text.find(','); comma != std::string_view::npos; comma = text.find(',')) {
    parts.emplace_back(text.substr(0, comma));
    text.remove_prefix(comma + 1);
  }
  parts.emplace_back(text);
  return parts;
}

/// The indices of the variants that a text names: "all", or names separated by commas.
/// @throws UsageError  if a name is unknown or given twice
std::vector<std::size_t> select_variants(const ChapterProgram& chapter, const std::string& text) {
  std::vector<std::string> known;
  for (const auto& [name, summary] : chapter.variants()) known.push_back(name);

  std::vector<std::size_t> selected;
  if (text == "all") {
    for (std::size_t index = 0; index < known.size(); ++index) selected.push_back(index);
    return selected;
  }
  for (const std::string& name : split_at_commas(text)) {
    const auto found = std::find(known.begin(), known.end(), name);
    const auto index = std::size_t(found - known.begin());
    if (found == known.end()) {
      throw UsageError(
          fmt::format("--variant '{}': must be all, or one or more of {}", name, fmt::join(known, ", ")));
    }
    if (std::find(selected.begin(), selected.end(), index) != selected.end()) {
      throw UsageError(fmt::format("--variant '{}': is given twice; give each variant once", name));
    }
    selected.push_back(index);
  }
  return selected;
}

/// Why the first word that belongs to no option is refused.
std::string not_expected(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining();
  const auto option =
      std::find_if(words.begin(), words.end(), [](const std::string& word) { return word.starts_with("-"); });
  if (option == words.end()) return fmt::format("'{}' is not expected: no option takes it", words.front());
  const std::string name = option->substr(0, option->find('='));
  std::vector<std::string> known;
  for (const CLI::Option* each : app.get_options()) {
    for (const std::string& long_name : each->get_lnames()) known.push_back("--" + long_name);
  }
  const std::string close = closest(name, known);
  return name + " is not an option" + (close.empty() ? "" : fmt::format(": did you mean {}?", close));
}

/// @return  false if the help was printed
bool parse(CLI::App& app, int argc, const char* const* argv, std::ostream& out) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    out << app.help();
    return false;
  } catch (const CLI::ExtrasError&) {
    throw UsageError(not_expected(app) + " (--help lists the options)");
  } catch (const CLI::ParseError& error) {
    std::string line = error.what();
    std::replace(line.begin(), line.end(), '\n', ' ');
    throw UsageError(line + " (--help lists the options)");
  }
  return true;
}

}  // namespace

std::optional<RunOptions> parse_command_line(const ChapterProgram& chapter, ChapterRun& run, int argc,
                                             const char* const* argv, std::ostream& out) {
  CLI::App app(chapter.title(),
               argc > 0 ? std::filesystem::path(argv[0]).filename().string() : chapter.name());
  app.get_formatter()->column_width(32);
  app.set_help_flag("-h,--help", "print this text");
  app.footer(
      "Exit status: 0 success; 1 a result is wrong, or bytes differ from the formula, or a check of\n"
      "the simulator found a defect; 2 the arguments or a file are unusable, nothing was written;\n"
      "3 no usable device, or not enough memory on it.");

  RunOptions options;
  std::optional<std::string> variants;
  std::optional<int> repeats;
  bool no_check = false, check_ends = false, bench = false;
  const std::string last_variant = chapter.variants().back().first;
  app.add_flag("--list", options.list, "list the variants");
  add_text(app, "--variant", variants,
           fmt::format("which to run, in this order (default {});\nall: those that take the problem",
                       last_variant))
      ->option_text("NAME[,NAME]|all");
  run.add_options(app);
  add_text(app, "--out", options.out,
           "write the outputs of the last variant run to this folder,\n"
           "one float32 .npy file for each tensor")
      ->option_text("DIR");
  app.add_flag("--no-check", no_check, "skip the float64 reference");
  app.add_flag("--check-ends", check_ends,
               "compare only the first and the last head of K (256 rows of a\n"
               "softmax), if the whole float64 reference would take too long");
  app.add_flag("--bench", bench,
               "time each variant on the GPU, every launch on buffers that are not\n"
               "in the L2 cache, and a copy in the same run");
  add_whole_number(app, "--repeat", repeats,
                   fmt::format("timed launches of each variant (default {})", kDefaultRepeats));
  add_text(app, "--json", options.json,
           "write everything that is printed to this file, as JSON;\n"
           "- for standard output, instead of the table")
      ->option_text("FILE|-");

  if (!parse(app, argc, argv, out)) return std::nullopt;

  options.variants = select_variants(chapter, variants.value_or(last_variant));
  options.all_variants = variants == "all";
  if (options.out == "") throw UsageError("--out '': must name a folder");
  if (options.json == "") throw UsageError("--json '': must name a file, or - for standard output");
  if (repeats && !bench) throw UsageError("--repeat needs --bench: add --bench");
  if (repeats && (*repeats < 1 || *repeats > kMostRepeats)) {
    throw UsageError(fmt::format("--repeat is {}: must be from 1 to {}", *repeats, kMostRepeats));
  }
  if (bench && !backend::can_time()) {
    throw UsageError(
        "--bench: times on the simulator are meaningless; build with the preset cuda and use a GPU");
  }
  if (no_check && check_ends) throw UsageError("--no-check and --check-ends: give only one of them");
  if (no_check) options.checked = Checked::kNothing;
  if (check_ends) options.checked = Checked::kEnds;
  options.bench_repeats = bench ? repeats.value_or(kDefaultRepeats) : 0;
  return options;
}

CLI::Option* add_text(CLI::App& app, const std::string& name, std::optional<std::string>& target,
                      const std::string& help) {
  return app.add_option_function<std::string>(
      name, [&target](const std::string& text) { target = text; }, help);
}

template <class Integer>
CLI::Option* add_whole_number(CLI::App& app, const std::string& name, std::optional<Integer>& target,
                              const std::string& help) {
  return add_parsed(app, name, target, help, "whole number")->option_text("N");
}

template CLI::Option* add_whole_number(CLI::App&, const std::string&, std::optional<int>&,
                                       const std::string&);
template CLI::Option* add_whole_number(CLI::App&, const std::string&, std::optional<std::int64_t>&,
                                       const std::string&);
template CLI::Option* add_whole_number(CLI::App&, const std::string&, std::optional<std::uint64_t>&,
                                       const std::string&);

CLI::Option* add_number(CLI::App& app, const std::string& name, std::optional<double>& target,
                        const std::string& help) {
  return add_parsed(app, name, target, help, "number")->option_text("F");
}

}  // namespace fa
