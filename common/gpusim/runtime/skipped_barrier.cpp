#include "gpusim/runtime/skipped_barrier.hpp"

#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "gpusim/runtime/ending.hpp"
#include "gpusim/runtime/symbols.hpp"

namespace gpusim {

SkippedBarrier& SkippedBarrier::instance() {
  static SkippedBarrier* barrier = new SkippedBarrier;  // never destroyed: the handler below needs it
  return *barrier;
}

SkippedBarrier::SkippedBarrier() {
  const char* name = std::getenv("GPUSIM_SKIP_BARRIER");
  if (name == nullptr || *name == '\0') return;
  name_ = "/" + std::string(name);
  at_end([] {
    if (instance().complain()) end_process(1);
  });
}

bool SkippedBarrier::complain() const {
  if (name_.empty() || met_) return false;
  std::cout.flush();
  std::fprintf(stderr, "gpusim: GPUSIM_SKIP_BARRIER=%s: no thread reached a barrier there\n",
               name_.c_str() + 1);
  std::fflush(nullptr);
  return true;
}

bool SkippedBarrier::is_at(const void* return_address) {
  const auto pc = reinterpret_cast<std::uintptr_t>(return_address);
  const std::lock_guard lock(mutex_);
  const auto [it, is_new] = known_.try_emplace(pc, false);
  if (is_new) {
    const auto calls = inlined_calls({pc})[pc].lines;
    it->second = !calls.empty() && ("/" + calls.front()).ends_with(name_);
    if (it->second) met_ = true;
  }
  return it->second;
}

}  // namespace gpusim
