/// @file
/// Comments in the sources that silence the findings of a kind on their line: "// gpusim: allow race".
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "gpusim/gpusim.hpp"

namespace gpusim {

/// What the comments of the files allow that findings are in. Each file is read once.
class Allowed {
 public:
  /// @param place  "/path/kernel.cu:48"
  bool contains(const std::string& place, DefectKind kind);
  /// A message for each comment that says something else.
  const std::vector<std::string>& mistakes() const { return mistakes_; }

 private:
  using Lines = std::map<int, std::set<DefectKind>>;
  const Lines& lines_of(const std::string& path);

  std::map<std::string, Lines> files_;
  std::vector<std::string> mistakes_;
};

}  // namespace gpusim
