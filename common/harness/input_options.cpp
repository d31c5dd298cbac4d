#include "harness/input_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "harness/options.hpp"

namespace fa {

void RandomOptions::add_to(CLI::App& app, const std::string& group, const std::string& filled_with) {
  add_text(app, "--init", init_, filled_with)
      ->option_text(fmt::format("{}", fmt::join(names_, "|")))
      ->group(group);
  add_whole_number(app, "--seed", seed_, "seed of the random numbers, the same everywhere (default 0)")
      ->group(group);
}

Init RandomOptions::init() const {
  const std::string name = init_.value_or(std::string(name_of(Init::kNormal)));
  if (std::find(names_.begin(), names_.end(), name) != names_.end()) return *init_of(name);
  throw UsageError(fmt::format("--init '{}': must be one of {}", name, fmt::join(names_, ", ")));
}

InputSource RandomOptions::source() const {
  return {{"init", std::string(name_of(init()))}, {"seed", seed()}};
}

namespace {

/// Calls a function that reads the file of an option.
template <class Read>
auto read_for(const std::string& option, Read read) {
  try {
    return read();
  } catch (const NpyError& error) {
    throw UsageError(fmt::format("{} {}", option, error.what()));
  }
}

}  // namespace

Tensor read_file(const std::string& option, const std::string& path, const std::vector<Axis>& axes) {
  return read_for(option, [&] { return read_npy(path, axes); });
}

HostTensor<std::int64_t> read_integers(const std::string& option, const std::string& path,
                                       const std::vector<Axis>& axes) {
  return read_for(option, [&] { return read_npy_integers(path, axes); });
}

void require(const std::optional<Refusal>& refusal) {
  if (refusal) throw Refused(*refusal);
}

void require_with_file(std::optional<Refusal> refusal, const std::string& option,
                       const std::optional<std::string>& path) {
  if (refusal && path && refusal->text.starts_with(option + ":"))
    refusal->text.insert(option.size(), " " + *path);
  require(refusal);
}

void refuse_beside_file(const std::string& file,
                        std::initializer_list<std::pair<const char*, bool>> options) {
  for (const auto& [option, is_given] : options) {
    if (is_given) {
      throw UsageError(
          fmt::format("{} cannot be given with {}: the file determines it; leave it out", option, file));
    }
  }
}

}  // namespace fa
