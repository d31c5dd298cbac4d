#include "gpusim/runtime/ending.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>

namespace gpusim {
namespace {

constexpr unsigned kSecondsForChild = 20;  // seconds for the child
constexpr int kNothingToSay = 113;         // its exit status if no work has ended it
constexpr std::size_t kMostWork = 16;
constexpr std::array kFatal = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE};

// Nothing here is allocated: a signal handler uses it.
std::array<void (*)(), kMostWork> all_work{};
std::atomic<std::size_t> work_count{0};
std::atomic<pid_t> owner{0};
std::atomic<pid_t> ending_thread{0};
std::atomic<KernelFault> kernel_fault{nullptr};
bool in_child = false;
int signal_of_child = 0;

void write_text(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

[[noreturn]] void do_work(int signal) {
  in_child = true;
  signal_of_child = signal;
  for (const int fatal : kFatal) std::signal(fatal, SIG_DFL);
  std::signal(SIGALRM, SIG_DFL);
  std::signal(SIGCHLD, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  alarm(kSecondsForChild);
  std::cout.flush();
  fflush_unlocked(stdout);
  for (std::size_t i = work_count; i > 0; --i) all_work[i - 1]();
  std::fflush(nullptr);
  end_process(kNothingToSay);
}

/// @return  the exit status with which the process should end; -1: what it would be without the simulator
int do_work_in_child(int signal) {
  if (work_count == 0 || getpid() != owner) return -1;
  pid_t first = 0;
  if (!ending_thread.compare_exchange_strong(first, gettid())) {
    while (first != gettid()) pause();  // the other one ends the process
    return -1;
  }
  const auto child = pid_t(syscall(SYS_fork));  // no handlers of fork(): they would wait for locks
  if (child == 0) do_work(signal);
  if (child < 0) {
    write_text("gpusim: there is no memory for a report of what the kernels have done\n");
    return -1;
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status) == kNothingToSay ? -1 : WEXITSTATUS(status);
  write_text(
      "gpusim: the report of what the kernels have done could not be made: the program has ended in a "
      "state in which nothing works any more\n");
  return -1;
}

void on_fatal_signal(int signal, siginfo_t* info, void* context) {
  if (const KernelFault in_kernel = kernel_fault) in_kernel(signal, info, context);
  end_by_signal(signal);
}

}  // namespace

void at_end(void (*work)()) {
  static const bool once = [] {
    owner = getpid();
    for (const int fatal : kFatal) {
      struct sigaction action = {}, before = {};
      action.sa_sigaction = &on_fatal_signal;
      action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
      if (sigaction(fatal, nullptr, &before) == 0 && before.sa_handler == SIG_DFL)
        sigaction(fatal, &action, nullptr);
    }
    return std::at_quick_exit([] {
             if (const int status = do_work_in_child(0); status >= 0) end_process(status);
           }) == 0;
  }();
  static_cast<void>(once);
  std::atexit(work);
  if (work_count < kMostWork) all_work[work_count++] = work;
}

void end_process(int status) {
  syscall(SYS_exit_group, status);
  __builtin_unreachable();
}

void handle_kernel_faults(KernelFault handler) { kernel_fault = handler; }

void give_signals_a_stack() {
  constexpr std::size_t kBytes = 64 * 1024;
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  stack_t stack = {};
  stack.ss_sp = memory;
  stack.ss_size = kBytes;
  sigaltstack(&stack, nullptr);
}

bool is_ending_in_child() { return in_child; }
int ending_signal() { return signal_of_child; }

void end_by_signal(int signal) {
  if (const int status = do_work_in_child(signal); status >= 0) end_process(status);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace gpusim

// Those of the C library only end the process.
extern "C" {
void _exit(int status) {
  const int other = gpusim::do_work_in_child(0);
  gpusim::end_process(other >= 0 ? other : status);
}
void _Exit(int status) { _exit(status); }
}
