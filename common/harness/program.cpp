#include "harness/program.hpp"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <ostream>
#include <string_view>

#include "device/launch.cuh"
#include "harness/backend.hpp"
#include "harness/errors.hpp"
#include "harness/files.hpp"
#include "harness/npy.hpp"
#include "harness/options.hpp"
#include "harness/text.hpp"

namespace fa {
namespace {

enum ExitStatus { kAllWell = 0, kWrong = 1, kUnusableArguments = 2, kNoDevice = 3 };

void print_list(std::ostream& out, const ChapterProgram& chapter) {
  const auto variants = chapter.variants();
  std::size_t width = 0;
  for (const auto& [name, summary] : variants) width = std::max(width, name.size());
  fmt::print(out, "{}: {}\n", chapter.name(), chapter.title());
  for (const auto& [name, summary] : variants) fmt::print(out, "  {:<{}}  {}\n", name, width, summary);
}

/// Runs the variants one after the other. If the device does not survive one, the remaining ones fail.
std::vector<VariantResult> run_all(ChapterRun& run, const ChapterProgram& chapter,
                                   const std::vector<std::size_t>& variants, int bench_repeats,
                                   double copy_gb_per_s) {
  std::vector<VariantResult> results;
  std::optional<std::string> obstacle;
  for (const std::size_t variant : variants) {
    const std::string name = chapter.variants()[variant].first;
    if (obstacle) {
      results.push_back({.name = name, .failure = obstacle});
      continue;
    }
    results.push_back(run.run(variant, bench_repeats, copy_gb_per_s));
    if (results.back().failure && cudaDeviceSynchronize() != cudaSuccess) {
      obstacle = fmt::format("the device did not survive {}", name);
    }
  }
  return results;
}

/// "./learn debug 02 --variant all --rows 8", which stops at the defects of this run. Its files are not
/// written.
std::string debug_command(const ChapterProgram& chapter, int argc, const char* const* argv) {
  const auto settings = backend::debug_settings();
  if (!settings) return "";
  std::string command;
  for (const std::string& setting : *settings) command += setting + " ";
  command += "./learn debug " + chapter.name().substr(0, 2);
  if (std::filesystem::path(argv[0]).filename().string().ends_with("_exercise")) command += " --exercise";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--json" || word == "--out") {
      ++i;
    } else if (!word.starts_with("--json=") && !word.starts_with("--out=")) {
      command += " " + in_shell(word);
    }
  }
  return command;
}

ExitStatus run_variants(const ChapterProgram& chapter, ChapterRun& run, const RunOptions& options, int argc,
                        const char* const* argv, std::ostream& out) {
  if (const auto reason = backend::bad_setting()) throw UsageError(*reason);
  // Everything that can be refused is refused here, and only the last step writes anything.
  const std::vector<std::size_t> variants =
      run.prepare(options.variants, options.all_variants, options.checked);
  const bool json_to_file = options.json && !options.json_to_stdout();
  if (json_to_file) require_writable("--json", *options.json);
  if (const auto reason = backend::why_unusable()) throw DeviceError(*reason);
  run.require_device_memory();
  std::optional<OutputFolder> folder;
  if (options.out) folder.emplace("--out", *options.out);

  Report report{.chapter = chapter.name(),
                .title = chapter.title(),
                .backend = std::string(backend::name()),
                .device = backend::device_name(),
                .problem = run.problem()};
  run.compute_reference();
  if (options.bench_repeats > 0) report.copy_gb_per_s = backend::copy_gb_per_s(options.bench_repeats);
  report.debug_command = debug_command(chapter, argc, argv);
  const MoreOutputs more = folder ? run.more_outputs() : MoreOutputs();
  report.remarks = more.remarks;
  report.variants = run_all(run, chapter, variants, options.bench_repeats, report.copy_gb_per_s.value_or(0));

  if (options.json_to_stdout()) {
    out << to_json(report) << '\n';
  } else {
    print(out, report);
  }
  if (json_to_file) write_file(*options.json, [&](std::ostream& file) { file << to_json(report) << '\n'; });
  if (folder) {
    const auto last = std::find_if(report.variants.rbegin(), report.variants.rend(),
                                   [](const VariantResult& result) { return !result.skipped; });
    if (last != report.variants.rend()) {
      for (const auto& [name, tensor] : last->outputs) write_npy(folder->path() / (name + ".npy"), tensor);
      for (const auto& [name, tensor] : more.tensors)
        write_npy_bytes(folder->path() / (name + ".npy"), tensor);
    }
  }
  return report.ok() ? kAllWell : kWrong;
}

ExitStatus run_chapter(const ChapterProgram& chapter, int argc, const char* const* argv, std::ostream& out) {
  const std::unique_ptr<ChapterRun> run = chapter.new_run();
  const std::optional<RunOptions> options = parse_command_line(chapter, *run, argc, argv, out);
  if (!options) return kAllWell;
  if (options->list) {
    print_list(out, chapter);
    return kAllWell;
  }
  try {
    return run_variants(chapter, *run, *options, argc, argv, out);
  } catch (const UsageError& error) {
    if (options->json_to_stdout()) out << to_json(error) << '\n';
    throw;
  }
}

}  // namespace

std::vector<std::string> variant_names(const AnyChapter& chapter) {
  std::vector<std::string> names;
  for (const auto& [name, summary] : chapter.program().variants()) names.push_back(name);
  return names;
}

int run_program(const AnyChapter& chapter, int argc, const char* const* argv, std::ostream& out,
                std::ostream& err) {
  const auto fail = [&](ExitStatus status, std::string_view reason) {
    fmt::print(err, "error: {}\n", reason);
    return status;
  };
  try {
    return run_chapter(chapter.program(), argc, argv, out);
  } catch (const UsageError& error) {
    return fail(kUnusableArguments, error.what());
  } catch (const DeviceError& error) {
    return fail(kNoDevice, error.what());
  } catch (const CudaError& error) {  // a kernel's failure would be a result; this is the device's
    return fail(kNoDevice, error.what());
  } catch (const std::bad_alloc&) {
    return fail(kUnusableArguments, "not enough memory: choose smaller sizes");
  } catch (const std::exception& error) {
    return fail(kWrong, error.what());
  }
}

}  // namespace fa
