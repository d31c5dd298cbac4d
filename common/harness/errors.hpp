/// @file
/// The two ways to refuse a run. Each message is one line, which is printed on standard error.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "attention/refusal.hpp"

namespace fa {

/// An option or a file is unusable; the message names it and says what would be valid. Exit status 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A problem is not run. @param variant  the one that refuses it; empty: any would
struct Refused : UsageError {
  explicit Refused(Refusal why, std::string by = "")
      : UsageError((by.empty() ? "" : "--variant " + by + " cannot run this: ") + why.message()),
        refusal(std::move(why)),
        variant(std::move(by)) {}
  Refusal refusal;
  std::string variant;
};

/// There is no usable device, or not enough memory on it. Exit status 3.
struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace fa
