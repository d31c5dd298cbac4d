/// @file
/// Reads of local variables that a thread has never written.
///
/// The compiler puts no hooks at most local variables: they would be registers. So a thread's stack is filled with a
/// signalling NaN before the thread begins, and its floating-point arithmetic traps: the first operation on such a number is
/// an uninitialized read. With clang++ nothing traps, because it may compute a number before it knows whether anybody needs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gpusim {

/// What a local variable holds that nothing has written: a signalling NaN as a float, and two NaNs as halves or bfloat16.
inline constexpr std::uint32_t kUnwrittenLocal = 0x7fa57fa5;

/// Whether one of `count` registers of 4 bytes holds that.
inline bool is_any_unwritten(const void* registers, int count) {
  const auto* const words = static_cast<const std::byte*>(registers);
  for (int i = 0; i < count; ++i) {
    if (std::memcmp(words + 4 * i, &kUnwrittenLocal, 4) == 0) return true;
  }
  return false;
}

/// Fills [begin, end), multiples of 16 bytes.
void fill_with_unwritten(std::byte* begin, std::byte* end);

/// From here on, an invalid operation of this thread, such as one with a signalling NaN, traps. It belongs to the stack: a switch
/// to another changes it.
void trap_invalid_operations();

/// Installs the handler of these traps. It calls BlockRunner::read_unwritten_local() for an operation with kUnwrittenLocal.
/// After an operation of any kind the thread goes on without traps.
void handle_invalid_operations();

}  // namespace gpusim
