#include "gpusim/runtime/sites.hpp"

#include <cstddef>
#include <mutex>
#include <vector>

namespace gpusim {
namespace {

/// The numbers that have been assigned.
struct Sites {
  std::mutex mutex;
  std::unordered_map<std::uintptr_t, std::uint16_t> number;
  std::vector<std::uintptr_t> pc{0};
};

Sites& sites() {
  static Sites* instance = new Sites;  // never destroyed: recordings are written at exit
  return *instance;
}

}  // namespace

std::uint16_t SiteNumbers::look_up(std::uintptr_t pc) {
  auto [it, is_new] = known_.try_emplace(pc, std::uint16_t(0));
  if (is_new) {
    Sites& all = sites();
    const std::lock_guard lock(all.mutex);
    auto [number, unseen] = all.number.try_emplace(pc, std::uint16_t(0));
    if (unseen && all.pc.size() < 0xffff) {
      number->second = std::uint16_t(all.pc.size());
      all.pc.push_back(pc);
    }
    it->second = number->second;
  }
  return it->second;
}

std::uintptr_t pc_of_site(std::uint16_t site) {
  const std::lock_guard lock(sites().mutex);
  return sites().pc[site];
}

}  // namespace gpusim
