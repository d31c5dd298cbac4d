/// @file
/// A chapter without kernels: its variants compute on the host and copy to the device, right or wrong in
/// known ways, so that the harness can be tested on every backend that has a device.
#pragma once

#include "harness/chapter.hpp"

namespace fa {

/// | variant    | what it does                                                        |
/// |------------|---------------------------------------------------------------------|
/// | `wrong`    | adds 1 to y[1, 2], or to the last element of a smaller y            |
/// | `forgets`  | leaves the last element of y unwritten                              |
/// | `declared` | like `wrong`, with a known failure where there is more than one row |
/// | `refused`  | fails the way a launch that the device refuses does                 |
/// | `library`  | fails the way a library call does                                   |
/// | `narrow`   | refuses more than 8 columns, else right                             |
/// | `lies`     | right, but its formula predicts 4 bytes read of x                   |
/// | `right`    | is right, and the last                                              |
AnyChapter fake_chapter();

}  // namespace fa
