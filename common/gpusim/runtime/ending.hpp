/// @file
/// What is done when the program ends, in whichever way: exit(), quick_exit(), _exit(), abort(), a failed
/// assert(), or a crash. A report matters most if the program's own check has failed.
#pragma once

#include <csignal>

namespace gpusim {

/// Does this when the program ends; what was added last is done first. `work` may end the process, with
/// end_process(). Call it from ordinary code.
///
/// exit() calls it as a handler of atexit(). In all other cases it runs in a child process, a copy of this
/// one in which only the thread exists that ends the program: it may wait for a lock that another one held.
/// It is then killed after some seconds, and the program ends without it.
void at_end(void (*work)());

/// Ends the process at once. The C library's _exit() does what at_end() has been given.
[[noreturn]] void end_process(int status);

/// Whether this is the child process of at_end(): locks may be held by threads that do not exist here.
bool is_ending_in_child();

/// In that child, the signal that has ended the program; otherwise 0.
int ending_signal();

/// Does the work of at_end() in a child, and then ends the program as the signal does.
void end_by_signal(int signal);

/// Is called first when a signal would end the program. It does not return if a thread of a kernel has caused
/// the signal, and the simulator can go on without that thread.
using KernelFault = void (*)(int signal, const siginfo_t* info, void* context);
void handle_kernel_faults(KernelFault handler);

/// Gives the calling CPU thread a stack for signal handlers: its own one may be used up.
void give_signals_a_stack();

}  // namespace gpusim
