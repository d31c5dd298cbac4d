#include "gpusim/runtime/debugging.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <tuple>

extern "C" [[gnu::noinline]] void gpusim_defect() { asm volatile("" ::: "memory"); }

namespace gpusim {

bool is_debugging() {
  static const bool debugging = [] {
    const char* value = std::getenv("GPUSIM_DEBUG");
    return value != nullptr && *value != '\0' && std::string_view(value) != "0";
  }();
  return debugging;
}

std::set<FindingKey> Announcer::announced_;

void Announcer::announce(const FindingKey& key, const Example& example) {
  FindingKey both_ways{.kind = key.kind, .space = key.space, .rule = key.rule};
  std::tie(both_ways.pc, both_ways.rival_pc) = std::minmax(key.pc, key.rival_pc);
  if (!announced_.insert(both_ways).second) return;
  Findings one;
  *one.add(key, example.block) = example;
  const std::vector<Defect> defects = one.describe();
  if (defects.empty() || defects.front().kind == DefectKind::kNote) return;
  std::fprintf(stderr, "%s\n", with_margin(defects.front().message).c_str());
  gpusim_defect();
}

}  // namespace gpusim
