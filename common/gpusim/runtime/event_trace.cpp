#include "gpusim/runtime/event_trace.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <tuple>
#include <utility>

#include "gpusim/runtime/ending.hpp"

namespace gpusim {

EventTrace* EventTrace::instance() {
  static EventTrace* const trace = []() -> EventTrace* {
    const char* const path = std::getenv("GPUSIM_TRACE");
    if (path == nullptr || *path == '\0') return nullptr;
    at_end([] { instance()->write(); });
    return new EventTrace(path);
  }();
  return trace;
}

void EventTrace::add(TraceEvent&& event) {
  const std::lock_guard lock(mutex_);
  if (events_.size() < kMost) events_.push_back(std::move(event));
}

void EventTrace::write() {
  std::FILE* const file = std::fopen(path_.c_str(), "w");
  if (file == nullptr) {
    std::fprintf(stderr, "gpusim: GPUSIM_TRACE=%s: cannot be written\n", path_.c_str());
    return;
  }
  std::stable_sort(events_.begin(), events_.end(), [](const TraceEvent& a, const TraceEvent& b) {
    return std::tie(a.block, a.order) < std::tie(b.block, b.order);
  });
  std::vector<std::uintptr_t> pcs;
  for (const TraceEvent& e : events_) pcs.push_back(reinterpret_cast<std::uintptr_t>(e.pc));
  std::sort(pcs.begin(), pcs.end());
  pcs.erase(std::unique(pcs.begin(), pcs.end()), pcs.end());
  const auto lines = source_lines(pcs);
  const ArrayNames names;
  for (const TraceEvent& e : events_) {
    std::fprintf(file, R"({"block": %llu, "warp": %d, "thread": %d, "event": "%s", "line": "%s")",
                 static_cast<unsigned long long>(e.block), e.thread / kWarpSize, e.thread, e.name,
                 lines.at(reinterpret_cast<std::uintptr_t>(e.pc)).text.c_str());
    std::string barrier;
    for (const Piece& piece : e.barrier) {
      const std::string name = names.element(piece.pc, piece.place, e.numbers);
      barrier += name.empty() ? piece.text : name;
    }
    std::erase(barrier, '"');
    if (!barrier.empty()) std::fprintf(file, R"(, "barrier": "%s")", barrier.c_str());
    if (e.phase >= 0) std::fprintf(file, R"(, "phase": %lld)", static_cast<long long>(e.phase));
    std::fprintf(file, "}\n");
  }
  std::fclose(file);
}

}  // namespace gpusim
