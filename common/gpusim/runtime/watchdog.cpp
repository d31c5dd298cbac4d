#include "gpusim/runtime/watchdog.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "gpusim/runtime/kernel_table.hpp"
#include "gpusim/runtime/local_reads.hpp"

namespace gpusim {
namespace {

static_assert(kTimeIsUp == SIGUSR2);

/// Warps that get turns make progress of a kind, but blocks that wait for one another get turns as well: a
/// block has to end in this many times the time.
constexpr double kForBlock = 10;

std::mutex mutex;
std::vector<Pulse*>& pulses = *new std::vector<Pulse*>;  ///< never freed: threads use them until the end
std::atomic<bool> is_running{false}, time_is_up{false};
std::atomic<std::uint64_t> launches{0}, ended_blocks{0};
std::mutex line_mutex;
const void* launched_kernel = nullptr;
std::uint64_t launched_blocks = 0, blocks_at_begin = 0;
std::chrono::steady_clock::time_point began;
bool is_shown = false;  ///< a line of progress, on the terminal

bool shows_progress() {
  static const bool shows = std::getenv("GPUSIM_PROGRESS") != nullptr;
  return shows;
}

void show_progress() {
  const std::lock_guard lock(line_mutex);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - began;
  if (!is_running || elapsed.count() < 1) return;
  const std::uint64_t done = std::min(ended_blocks - blocks_at_begin, launched_blocks);
  std::fprintf(stderr, "\r   %.60s: block %llu of %llu, %.0f s\x1b[K",
               name_of_kernel(launched_kernel).c_str(), static_cast<unsigned long long>(done),
               static_cast<unsigned long long>(launched_blocks), elapsed.count());
  std::fflush(stderr);
  is_shown = true;
}

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

void Watchdog::begin(const void* kernel, std::uint64_t blocks) {
  if (limit() <= 0 && !shows_progress()) return;
  static const bool once = [] {
    interrupt_kernels(kTimeIsUp);
    std::thread(watch).detach();
    return true;
  }();
  static_cast<void>(once);
  const std::lock_guard lock(line_mutex);
  launched_kernel = kernel;
  launched_blocks = blocks;
  blocks_at_begin = ended_blocks;
  began = std::chrono::steady_clock::now();
  ++launches;
  is_running = true;
}

void Watchdog::end() {
  const std::lock_guard lock(line_mutex);
  is_running = false;
  if (is_shown) std::fputs("\r\x1b[K", stderr);
  is_shown = false;
}

void Watchdog::count_block() { ended_blocks.fetch_add(1, std::memory_order_relaxed); }
bool Watchdog::is_time_up() { return time_is_up.load(std::memory_order_relaxed); }
int Watchdog::seconds() { return int(std::max(1.0, limit())); }

void Watchdog::watch() {
  const std::chrono::duration<double> pause(limit() <= 0 ? 0.5 : std::clamp(limit() / 10, 0.01, 0.5));
  std::uint64_t turns_before = 0, blocks_before = 0;
  auto last_turn = std::chrono::steady_clock::now(), last_block = last_turn;
  for (;;) {
    std::this_thread::sleep_for(pause);
    const auto now = std::chrono::steady_clock::now();
    if (shows_progress()) show_progress();
    if (limit() <= 0) continue;
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
