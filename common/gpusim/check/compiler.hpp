/// @file
/// Runs the compiler.
#pragma once

#include <string>
#include <vector>

namespace gpusim::check {

/// Runs a command. @return  its exit status
int run(std::vector<std::string> words);

std::string contents_of(const std::string& path);

}  // namespace gpusim::check
