/// @file
/// What the options of all problems have in common: random numbers, input files, error messages.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attention/inputs.hpp"
#include "attention/tensor.hpp"
#include "harness/npy.hpp"
#include "harness/report.hpp"

namespace CLI {
class App;
}

namespace fa {

/// --init and --seed.
class RandomOptions {
 public:
  /// @param names  the values of --init that the problem has: the first few of kInitNames
  explicit RandomOptions(std::span<const std::string_view> names) : names_(names) {}

  /// @param filled_with  the help for --init: what its values mean for this problem
  void add_to(CLI::App& app, const std::string& group, const std::string& filled_with);

  /// @throws UsageError  if the word is not one of the names
  Init init() const;
  std::uint64_t seed() const { return seed_.value_or(0); }

  /// Both, as reports show them. @throws UsageError  as init()
  InputSource source() const;

  bool has_init() const { return init_.has_value(); }
  bool has_seed() const { return seed_.has_value(); }

 private:
  std::span<const std::string_view> names_;
  std::optional<std::string> init_;
  std::optional<std::uint64_t> seed_;
};

/// Reads the file of an option. @throws UsageError  starting with the option, if it cannot be used
Tensor read_file(const std::string& option, const std::string& path, const std::vector<Axis>& axes);

/// The same for whole numbers.
HostTensor<std::int64_t> read_integers(const std::string& option, const std::string& path,
                                       const std::vector<Axis>& axes);

/// @throws UsageError  if there is a reason to refuse
void require(const std::optional<Refusal>& refusal);

/// The same. If the refusal begins with an option whose file was read, its message names the file.
void require_with_file(std::optional<Refusal> refusal, const std::string& option,
                       const std::optional<std::string>& path);

/// @param file     a given option that determines sizes and numbers: "--x"
/// @param options  other options, and whether they were given
/// @throws UsageError  if one of those was given
void refuse_beside_file(const std::string& file, std::initializer_list<std::pair<const char*, bool>> options);

}  // namespace fa
