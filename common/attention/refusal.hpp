/// @file
/// Why a problem is not run, as a value.
#pragma once

#include <string>
#include <utility>

namespace fa {

/// Why a problem is not run. Programs look at the reason, people read the text.
struct Refusal {
  /// The numbers are part of the interface of a chapter's shared library.
  enum class Reason : int {
    kProblem = 1,  ///< the chapter has no kernel for it: a length, a number or a file is not valid
    kVariant = 2,  ///< this variant has none; another one may have
    kLayout = 3,   ///< the variant takes dense tensors: a copy would do
    kDevice = 4,   ///< the device lacks something
    kAddress = 5,  ///< of a tensor: not aligned
    kName = 6,     ///< the chapter has no variant of this name
  };

  Reason reason;
  std::string text;             ///< one line that names the option and says what would be valid
  std::string on_command_line;  ///< what follows the text where options describe the problem, or nothing

  std::string message() const { return text + on_command_line; }

  /// A refusal of a problem, whatever the variant.
  static Refusal problem(std::string text) { return {Reason::kProblem, std::move(text), {}}; }
  /// A refusal of a variant, where another one may take the problem.
  static Refusal variant(std::string text) { return {Reason::kVariant, std::move(text), {}}; }
};

/// "problem", "variant", "layout", "device", "address" or "name": in JSON.
constexpr const char* name_of(Refusal::Reason reason) {
  switch (reason) {
    case Refusal::Reason::kProblem: return "problem";
    case Refusal::Reason::kVariant: return "variant";
    case Refusal::Reason::kLayout: return "layout";
    case Refusal::Reason::kDevice: return "device";
    case Refusal::Reason::kAddress: return "address";
    case Refusal::Reason::kName: return "name";
  }
  return "?";
}

}  // namespace fa
