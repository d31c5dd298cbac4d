/// @file
/// The source of a kernel, for reports that quote it.
#pragma once

#include <string>

namespace gpusim {

/// A line of a file, counted from 1. Empty if there is no such line, or no such file.
std::string source_line(const std::string& path, int line);
/// The same for "/path/kernel.cuh:48".
std::string source_line(const std::string& place);

/// Whether a line stores nothing but constants: "*changed = true;", "if (d[i] > d[k]) flag[k] = 1;".
bool stores_constants_only(const std::string& text);

/// An argument of a call, as it is written: ("wait<0>(w.rS, w.rO);", "wait", 1) -> "w.rO". Empty if it is not
/// on this line, or if the line has several such calls.
std::string argument_of_call(const std::string& text, const std::string& function, int number);

}  // namespace gpusim
