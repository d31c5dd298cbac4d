/// @file
/// The two ways to refuse a run. Each message is one line, which is printed on standard error.
#pragma once

#include <stdexcept>

namespace fa {

/// An option or a file is unusable; the message names it and says what would be valid. Exit status 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// There is no usable device, or not enough memory on it. Exit status 3.
struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace fa
