#include "gpusim/runtime/watchdog.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "gpusim/runtime/local_reads.hpp"

namespace gpusim {
namespace {

static_assert(kTimeIsUp == SIGUSR2);

/// Warps that get turns make progress of a kind, but blocks that wait for one another get turns as well: a
/// block has to end in this many times the time.
constexpr double kForBlock = 10;

std::mutex mutex;
std::vector<Pulse*> pulses;
std::atomic<bool> is_running{false}, time_is_up{false};
std::atomic<std::uint64_t> launches{0}, ended_blocks{0};

double limit() {
  static const double seconds = [] {
    const char* const text = std::getenv("GPUSIM_TIMEOUT");
    return text == nullptr ? 0.0 : std::atof(text);
  }();
  return seconds;
}

}  // namespace

Pulse& Pulse::make() {
  const std::lock_guard lock(mutex);
  pulses.push_back(new Pulse);
  return *pulses.back();
}

void Watchdog::begin() {
  if (limit() <= 0) return;
  static const bool once = [] {
    interrupt_kernels(kTimeIsUp);
    std::thread(watch).detach();
    return true;
  }();
  static_cast<void>(once);
  ++launches;
  is_running = true;
}

void Watchdog::end() { is_running = false; }
void Watchdog::count_block() { ended_blocks.fetch_add(1, std::memory_order_relaxed); }
bool Watchdog::is_time_up() { return time_is_up.load(std::memory_order_relaxed); }
int Watchdog::seconds() { return int(std::max(1.0, limit())); }

void Watchdog::watch() {
  const std::chrono::duration<double> pause(std::clamp(limit() / 10, 0.01, 1.0));
  std::uint64_t turns_before = 0, blocks_before = 0;
  auto last_turn = std::chrono::steady_clock::now(), last_block = last_turn;
  for (;;) {
    std::this_thread::sleep_for(pause);
    const auto now = std::chrono::steady_clock::now();
    const std::lock_guard lock(mutex);
    std::uint64_t turns = 0;
    for (const Pulse* pulse : pulses) turns += pulse->turns_.load(std::memory_order_relaxed);
    const std::uint64_t blocks = launches + ended_blocks;
    if (!is_running || turns != turns_before) last_turn = now;
    if (!is_running || blocks != blocks_before) last_block = now;
    turns_before = turns;
    blocks_before = blocks;
    const std::chrono::duration<double> without_turn = now - last_turn, without_block = now - last_block;
    if (without_turn.count() < limit() && without_block.count() < kForBlock * limit()) continue;
    time_is_up = true;
    for (const Pulse* pulse : pulses)
      pthread_kill(pulse->thread_, kTimeIsUp);  // again, until it hits a kernel's code
  }
}

}  // namespace gpusim
