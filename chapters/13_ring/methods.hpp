/// @file
/// The steps of the chapter.
#pragma once

#include <string>
#include <vector>

#include "operations.hpp"

namespace fa::ch13 {

/// One way to distribute attention.
struct Method {
  using Pass = Plan (*)(const Share&, const Changes&);

  std::string name, summary;
  Pass forward, backward;
  bool zigzag = false;
  bool trades_heads = false;
  Changes changes = {};

  /// Whether it has changes that can be left out. Its transfers then have the highest priority, and a
  /// communicator with 32 channels.
  bool has_changes() const { return changes != Changes(); }
};

/// In the order of the chapter.
const std::vector<Method>& methods();

}  // namespace fa::ch13
