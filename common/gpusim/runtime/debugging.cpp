#include "gpusim/runtime/debugging.hpp"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "gpusim/gpusim.hpp"

extern "C" [[gnu::noinline]] void gpusim_defect() { asm volatile("" ::: "memory"); }

namespace gpusim {

bool is_debugging() {
  static const bool debugging = [] {
    const char* value = std::getenv("GPUSIM_DEBUG");
    return value != nullptr && *value != '\0' && std::string_view(value) != "0";
  }();
  return debugging;
}

void Announcer::announce(const FindingKey& key, const Example& example) {
  if (!announced_.insert(key).second) return;
  Findings one;
  *one.add(key, example.block) = example;
  std::fprintf(stderr, "%s\n", with_margin(one.describe().front().message).c_str());
  gpusim_defect();
}

}  // namespace gpusim
