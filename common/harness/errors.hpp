/// @file
/// The two ways in which a run can be refused. Their messages are one line each, and become that line on
/// standard error.
#pragma once

#include <stdexcept>

namespace fa {

/// An option or a file that cannot be used: the message names it and says what would be right. Exit status 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// No usable device, or not enough memory on it. Exit status 3.
struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace fa
