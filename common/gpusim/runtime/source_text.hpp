/// @file
/// The source of a kernel, for reports that quote it.
#pragma once

#include <string>

namespace gpusim {

/// A line of a file, counted from 1. Empty if there is no such line, or no such file.
std::string source_line(const std::string& path, int line);

}  // namespace gpusim
