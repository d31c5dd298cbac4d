/// @file
/// <helper_timer.h> of CUDA's samples, as programs use it: a stop watch, in milliseconds.
#pragma once

#include <chrono>

class StopWatchInterface {
 public:
  void start() {
    begin_ = Clock::now();
    is_running_ = true;
  }
  void stop() {
    if (!is_running_) return;
    last_ = since_begin();
    total_ += last_;
    ++sessions_;
    is_running_ = false;
  }
  void reset() {
    total_ = last_ = 0.0f;
    sessions_ = 0;
    if (is_running_) begin_ = Clock::now();
  }
  float getTime() { return is_running_ ? total_ + since_begin() : total_; }
  float getAverageTime() { return sessions_ > 0 ? total_ / float(sessions_) : 0.0f; }

 private:
  using Clock = std::chrono::steady_clock;
  float since_begin() const {
    return std::chrono::duration<float, std::milli>(Clock::now() - begin_).count();
  }

  Clock::time_point begin_;
  float total_ = 0.0f, last_ = 0.0f;
  int sessions_ = 0;
  bool is_running_ = false;
};

inline bool sdkCreateTimer(StopWatchInterface** timer) {
  *timer = new StopWatchInterface;
  return true;
}
inline bool sdkDeleteTimer(StopWatchInterface** timer) {
  delete *timer;
  *timer = nullptr;
  return true;
}
inline bool sdkStartTimer(StopWatchInterface** timer) {
  if (*timer != nullptr) (*timer)->start();
  return *timer != nullptr;
}
inline bool sdkStopTimer(StopWatchInterface** timer) {
  if (*timer != nullptr) (*timer)->stop();
  return *timer != nullptr;
}
inline bool sdkResetTimer(StopWatchInterface** timer) {
  if (*timer != nullptr) (*timer)->reset();
  return *timer != nullptr;
}
inline float sdkGetTimerValue(StopWatchInterface** timer) {
  return *timer != nullptr ? (*timer)->getTime() : 0.0f;
}
inline float sdkGetAverageTimerValue(StopWatchInterface** timer) {
  return *timer != nullptr ? (*timer)->getAverageTime() : 0.0f;
}
