#include "gpusim/runtime/profile.hpp"

#include <cstdlib>
#include <set>
#include <string_view>
#include <vector>

#include "gpusim/runtime/symbols.hpp"

namespace gpusim {

bool is_profiling() {
  static const bool profiling = [] {
    const char* value = std::getenv("GPUSIM_PROFILE");
    return value != nullptr && *value != '\0' && std::string_view(value) != "0";
  }();
  return profiling;
}

std::map<std::string, std::int64_t> by_function(const BlockCounts& counts) {
  std::vector<std::uintptr_t> blocks;
  for (const auto& [pc, count] : counts) blocks.push_back(pc);
  std::map<std::string, std::int64_t> sums;
  for (const auto& [pc, functions] : functions_around(blocks)) {
    for (const std::string& function : std::set<std::string>(functions.begin(), functions.end()))
      sums[function] += counts.at(pc);
  }
  return sums;
}

}  // namespace gpusim
