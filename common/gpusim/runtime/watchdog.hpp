/// @file
/// Ends a program whose kernel makes no progress: GPUSIM_TIMEOUT=SECONDS. With GPUSIM_PROGRESS=1, shows how
/// far a kernel is that takes long, in a line of the terminal.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace gpusim {

/// What the watchdog sees of a CPU thread that runs blocks.
class Pulse {
 public:
  /// Belongs to the calling thread from now on. Never destroyed.
  static Pulse& make();
  /// A warp has had a turn. Only the thread itself calls it.
  void beat() { turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

 private:
  friend class Watchdog;
  pthread_t thread_ = pthread_self();
  alignas(64) std::atomic<std::uint64_t> turns_{0};
};

class Watchdog {
 public:
  /// A launch begins or ends. @param blocks  of its grid
  static void begin(const void* kernel, std::uint64_t blocks);
  static void end();
  /// A block has ended.
  static void count_block();
  /// Whether time is up: no more blocks begin, and the launch ends.
  static bool is_time_up();
  static int seconds();

 private:
  static void watch();
};

/// The signal that the watchdog sends to threads of kernels when time is up.
inline constexpr int kTimeIsUp = 12;  // SIGUSR2

}  // namespace gpusim
